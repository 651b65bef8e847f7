/* The page's own script: keeps it live (or says that it is not), shows times in the reader's zone, opens dialogs, keys, copying.
 * The protocol with the server is docs/live.md. Push is a hint and every frame may be lost: after each (re)connect the page says what it
 * shows and the server answers with what differs. Nothing here acts on a run; every act is a form or link of the page. */
(() => {
  "use strict";
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const html = document.documentElement;
  const cookie = (name) => (document.cookie.match(`(?:^|; )${name}=([^;]*)`)?.[1] ?? "").replace(/^"|"$/g, "");
  const remember = (name, value) => { document.cookie = `${name}=${value}; path=/; max-age=31536000; samesite=lax`; };
  const typing = (node) => node.closest?.("input:not([type=checkbox],[type=radio]), textarea, select, [contenteditable]");

  // --- Times -----------------------------------------------------------------------------------------------------------
  let exact = cookie("times") === "exact";
  let paper = false; // on paper every time says its day, and none is counted from now
  let clockSkew = 0; // ms to add to this computer's clock to get the server's
  const now = () => Date.now() + clockSkew;
  const isZone = (name) => { try { return !!name && !!Intl.DateTimeFormat("en-GB", { timeZone: name }); } catch { return false; } };
  let zoneName = "";
  const zone = () => (zoneName ||= [cookie("utc") === "on" && "UTC", cookie("zone")].find(isZone) || Intl.DateTimeFormat().resolvedOptions().timeZone);
  const formats = new Map();
  const format = (options) => {
    const key = zone() + JSON.stringify(options);
    if (!formats.has(key)) formats.set(key, new Intl.DateTimeFormat("en-GB", { timeZone: zone(), hourCycle: "h23", ...options }));
    return formats.get(key);
  };
  const offset = (ms) => format({ timeZoneName: "longOffset" }).formatToParts(ms).find((part) => part.type === "timeZoneName").value;
  const day = { day: "numeric", month: "short" };

  function duration(seconds) {
    const s = Math.max(0, Math.floor(seconds));
    if (s < 60) return `${s} s`;
    if (s < 3600) return `${Math.floor(s / 60)} min` + (s % 60 ? ` ${s % 60} s` : "");
    if (s < 86400) return `${Math.floor(s / 3600)} h` + (s % 3600 >= 60 ? ` ${Math.floor((s % 3600) / 60)} min` : "");
    return `${Math.floor(s / 86400)} d` + (s % 86400 >= 3600 ? ` ${Math.floor((s % 86400) / 3600)} h` : "");
  }

  function absolute(ms, style) {
    const today = !paper && format({ dateStyle: "short" }).format(ms) === format({ dateStyle: "short" }).format(now());
    const sameYear = !paper && format({ year: "numeric" }).format(ms) === format({ year: "numeric" }).format(now());
    const options = { hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
    if (style === "seconds" || style === "ms") options.second = "2-digit";
    if (style === "ms") options.fractionalSecondDigits = 3;
    const nearChange = offset(ms - 108e5) !== offset(ms + 108e5);
    const text = format(options).format(ms) + (nearChange ? ` (${offset(ms).replace("GMT", "") || "+00:00"})` : "");
    return today ? text : `${format(sameYear ? day : { ...day, year: "numeric" }).format(ms)} ${text}`;
  }

  function timeWords(ms, style) {
    const age = (now() - ms) / 1000;
    if (style === "since") return duration(age);
    if (paper) return absolute(ms, style === "ms" || style === "day" ? style : "seconds");
    if (style === "until" || style === "due") return age < 0 ? `in ${duration(-age)}` : "now";
    if (style === "ago" && !exact && age >= -5 && age < 86400) return age < 60 ? "just now" : `${duration(age < 3600 ? age - (age % 60) : age)} ago`;
    return absolute(ms, style);
  }

  function localise(root = document) {
    for (const node of root.matches?.("time[data-t]") ? [root] : $$("time[data-t]", root)) {
      const ms = Date.parse(node.dateTime);
      if (Number.isNaN(ms)) continue;
      const text = timeWords(ms, node.dataset.t);
      if (node.textContent !== text) node.textContent = text;
      const full = `${absolute(ms, "seconds")} · ${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
      if (node.title !== full) node.title = full;
    }
    if (root === document) for (const node of $$("[data-zone-name]")) node.textContent = zone() === "UTC" ? "UTC" : format({ timeZoneName: "short" }).formatToParts(now()).find((part) => part.type === "timeZoneName").value;
  }

  // --- Announcing ------------------------------------------------------------------------------------------------------
  const announcing = {};
  let lastCount = 0;
  function announce(text, urgent = false) {
    const box = $(urgent ? "#alerts" : "#announcer");
    if (!box) return;
    clearTimeout(announcing[box.id]);
    box.textContent = "";
    announcing[box.id] = setTimeout(() => { box.textContent = text; }, 250);
  }
  function announceCount(text) {
    if (Date.now() - lastCount < 5000) return;
    lastCount = Date.now();
    announce(text);
  }

  // --- Fragments -------------------------------------------------------------------------------------------------------
  const actionKeys = new WeakMap();
  const staleActions = new Set();
  let actionTimer = 0;

  const rowLinkOf = (node) => $("[data-row-link]", node?.closest("[data-row]") ?? document.createElement("p"))?.id ?? "";
  // Gives the focus to a node, or when it is gone to what took its place, to its row, to the title of the page.
  function refocus(node, row) {
    const back = [node, document.getElementById(node?.id ?? ""), document.getElementById(row), $("#run-title"), $("main h1")];
    back.find((one) => one?.isConnected && one !== document.body)?.focus();
  }

  function morph(target, text, style = "outerMorph") {
    const id = target.id, before = target.dataset.announce, held = target.contains(document.activeElement) ? document.activeElement : null, row = rowLinkOf(held);
    window.htmx.swap({ text, target, swap: style, sourceElement: document.body });
    if (held && !held.isConnected) refocus(held, row);
    const after = document.getElementById(id) ?? document.body;
    localise(after);
    if (after.dataset.title) document.title = after.dataset.title;
    if (after.dataset.announce && before !== after.dataset.announce) {
      announce(after.dataset.announce);
      if (id === "run-head") window.htmx.trigger($("#run-doing"), "moved"); // else a run that has ended would be doing something until asked again
    }
    refreshActions(after);
  }

  const isOlder = (version, here) => version != null && Number(here.dataset.version ?? 0) > Number(version);

  // The reply to a click may travel longer than what was pushed meanwhile: it takes no newer part's place either.
  document.addEventListener("htmx:before:swap", ({ detail: { tasks } }) => {
    const late = tasks.filter((task) => task.type === "oob" && isOlder(task.fragment.firstElementChild?.dataset.version, task.target));
    for (const task of late) tasks.splice(tasks.indexOf(task), 1);
  });

  function apply(item) {
    const here = document.getElementById(item.id);
    if (!here) return append(item);
    if (isOlder(item.version, here)) return;
    morph(here, item.html, item.style);
    if (item.matches != null) document.getElementById(item.id)?.classList.toggle("is-unmatched", !item.matches);
  }

  function append(item) {
    const list = item.into && document.getElementById(item.into);
    if (!list) return; // not on this page
    const end = $("[data-timeline-end]"), following = end && end.getBoundingClientRect().top <= innerHeight;
    window.htmx.swap({ text: item.html, target: list, swap: "beforeend", sourceElement: document.body });
    localise(list.lastElementChild ?? list);
    if (following) end.scrollIntoView({ block: "end" });
    else if (end) showJump(1);
  }

  let unseen = 0;
  function showJump(more) {
    const button = $("[data-jump]");
    if (!button) return;
    unseen = more ? unseen + more : 0;
    button.hidden = !unseen;
    button.textContent = `${unseen} new — jump to end`;
  }

  // Pushed fragments are the same for everyone, so what this person may do is fetched by itself whenever the state they hang on moves.
  function refreshActions(root) {
    for (const node of root.matches?.("[data-actions]") ? [root] : $$("[data-actions]", root)) {
      if (actionKeys.get(node) === node.dataset.actions) continue;
      actionKeys.set(node, node.dataset.actions);
      staleActions.add(node.id);
    }
    if (staleActions.size) { clearTimeout(actionTimer); actionTimer = setTimeout(fetchActions, 150); }
  }
  async function fetchActions() {
    const ids = [...staleActions].slice(0, 100);
    staleActions.clear();
    const answer = await fetch(`/live/actions?${new URLSearchParams(ids.map((id) => ["id", id]))}`, { headers: { "HX-Request": "true" } }).catch(() => null);
    if (answer?.ok && !answer.redirected) for (const item of (await answer.json()).items) apply({ style: "innerMorph", ...item });
    else if (!over) { ids.forEach((id) => staleActions.add(id)); clearTimeout(actionTimer); actionTimer = setTimeout(fetchActions, 3000); }
  }

  // Fetches the page again and morphs its live regions: for "show n new runs", and when too much has changed to push.
  async function refetch() {
    const main = $("main");
    main.ariaBusy = "true";
    try {
      const answer = await fetch(location.href, { headers: { "X-Refetch": "1" } });
      if (!answer.ok || answer.redirected) return location.reload();
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const region of $$("[data-region]")) {
        const text = fresh.getElementById(region.id)?.outerHTML;
        if (text) morph(region, text);
      }
      main.dataset.newest = $("main", fresh)?.dataset.newest ?? main.dataset.newest ?? "";
      setNew(0);
      send(watching());
    } catch { announce("The list could not be loaded.", true); } finally { main.ariaBusy = null; }
  }

  function setNew(count) {
    const pill = $("[data-new]");
    if (!pill) return;
    pill.hidden = !count;
    const words = `${count > 999 ? "999+" : count} new ${pill.dataset.new}${count === 1 ? "" : "s"}`;
    $("button", pill).textContent = `${words} — show`;
    if (count) announceCount(words);
  }

  function setCounts(groups) {
    for (const [group, counts] of Object.entries(groups)) {
      for (const [name, value] of Object.entries(counts ?? {})) {
        for (const node of $$(`[data-count="${CSS.escape(group)}.${CSS.escape(name)}"]`)) {
          node.textContent = typeof value !== "number" ? value ?? "" : group === "nav" && value > 99 ? "99+" : value.toLocaleString("en-GB");
          if (group === "nav") node.hidden = !value;
          node.toggleAttribute("data-zero", !value);
        }
      }
    }
  }

  // --- The connection --------------------------------------------------------------------------------------------------
  const SILENCE = 35e3, POLL_EVERY = 15e3, GRACE = 5e3;
  const wanted = document.body.hasAttribute("data-live");
  let socket = null, generation = 0, fails = 0, state = "", everLive = false, paused = false, over = false;
  let heardAt = Date.now(), ticks = 0, retryTimer = 0, pollTimer = 0;

  function setState(next, since = null) {
    if (next === state) return;
    if (state === "dead") announce("", true); // right again before the alarm was spoken
    state = next;
    everLive ||= next === "live";
    const conn = $("#conn");
    if (!conn) return;
    conn.dataset.state = next;
    const words = { live: "Live", polling: "Updating every 15 seconds", connecting: everLive ? "Reconnecting…" : "Connecting…", paused: "Paused", out: "Signed out", denied: "Not live" };
    conn.textContent = words[next] ?? "Not live since ";
    if (next === "dead") conn.append(timeNode(since, "day"));
    const banner = $("#not-live");
    banner.hidden = next !== "dead";
    if (next === "dead") { $("[data-since-when]", banner).replaceChildren(timeNode(since, "seconds")); announce("This page stopped updating.", true); }
    $("#signed-out").hidden = next !== "out";
    $("#not-allowed").hidden = next !== "denied";
  }
  function timeNode(ms, style) {
    const node = document.createElement("time");
    node.dateTime = new Date(ms + clockSkew).toISOString();
    node.dataset.t = style;
    localise(node);
    return node;
  }

  function watching() {
    const rows = {}, main = $("main"), run = $("[data-run]"), last = $$("#timeline-items > [data-seq]").pop();
    for (const row of $$("[data-row]")) rows[row.dataset.row] = Number(row.dataset.version);
    return {
      type: "watch", list: main.dataset.watch || null, newest: main.dataset.newest || null, rows,
      run: run?.dataset.run ?? null, version: Number(run?.dataset.version ?? 0), seq: Number(last?.dataset.seq ?? 0),
    };
  }
  function send(message) { if (socket?.readyState === 1) socket.send(JSON.stringify(message)); }

  function connect() {
    clearTimeout(retryTimer);
    if (over || paused) return;
    const mine = ++generation;
    socket?.close();
    if (state !== "polling" && state !== "dead") setState("connecting");
    const mySocket = socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/ui/`);
    const stuck = setTimeout(() => mine === generation && lost(), 8000);
    mySocket.onopen = () => { if (mine === generation) send(watching()); };
    mySocket.onmessage = (event) => { if (mine === generation) { clearTimeout(stuck); heard(); handle(JSON.parse(event.data)); } };
    mySocket.onclose = (event) => { clearTimeout(stuck); if (mine === generation && !ended(event.code)) lost(); };
  }
  function ended(code) {
    if (code !== 4401 && code !== 4403) return false;
    over = true;
    generation++;
    clearTimeout(pollTimer);
    setState(code === 4401 ? "out" : "denied");
    return true;
  }
  function lost() {
    generation++;
    socket?.close();
    socket = null;
    fails++;
    if (state === "live") setState("connecting");
    if (fails === 3 && !pollTimer) poll();
    const most = fails < 30 ? Math.min(1500, 250 * 2 ** Math.min(fails, 4)) : POLL_EVERY; // right within 2 s of the server's return
    clearTimeout(retryTimer);
    retryTimer = setTimeout(connect, most * (0.5 + Math.random() / 2));
  }
  function heard() { heardAt = Date.now(); }

  function handle(frame) {
    switch (frame.type) {
      case "fragments": frame.items.forEach(apply); wakeDialogs(frame.items); break;
      case "counts": setCounts(frame); break;
      case "new": setNew(frame.count); break;
      case "refetch": refetch(); break;
      case "stale": send(watching()); break;
      case "synced":
        fails = 0;
        clearTimeout(pollTimer);
        pollTimer = 0;
        setState("live");
        break;
      case "beat":
        clockSkew = Math.abs(Date.parse(frame.at) - Date.now()) > 2000 ? Date.parse(frame.at) - Date.now() : 0;
        if (frame.lag_s > 5) setState("dead", Date.now() - frame.lag_s * 1000);
        else if (state === "dead") setState("live");
        break;
    }
  }

  async function poll() {
    clearTimeout(pollTimer);
    if (over || paused) return;
    pollTimer = setTimeout(poll, POLL_EVERY);
    const { rows, type, ...rest } = watching();
    const params = new URLSearchParams(Object.entries(rest).filter(([, value]) => value));
    params.set("rows", Object.entries(rows).map(([id, version]) => `${id}.${version}`).join("~"));
    try {
      const answer = await fetch(`/live/poll?${params}`, { signal: AbortSignal.timeout(10e3), redirect: "manual" });
      if (answer.status === 401 || answer.type === "opaqueredirect") return void ended(4401);
      if (answer.status === 403) return void ended(4403);
      if (!answer.ok || !pollTimer) return;
      heard();
      for (const frame of (await answer.json()).frames) if (frame.type !== "synced") handle(frame);
      if (state !== "live") setState("polling");
    } catch { /* the silence is noticed below */ }
  }

  // The page is looked at again, the network is back, or the computer slept: believe nothing until the server has answered. A socket that
  // was silent for longer than a heartbeat is not asked, because after a sleep it is dead and would not say so.
  function wake() {
    if (!wanted || over || paused || document.hidden) return;
    const silence = Date.now() - heardAt;
    if (socket?.readyState === 0 || (socket?.readyState === 1 && silence < 12e3)) return;
    if (silence > SILENCE) setState("dead", heardAt);
    heardAt = Math.max(heardAt, Date.now() - SILENCE + GRACE);
    if (pollTimer) poll();
    fails = 0;
    connect();
  }

  let lastTick = Date.now();
  function tick() {
    const gap = Date.now() - lastTick;
    lastTick = Date.now();
    if (document.hidden) return;
    if (gap > 5000) wake();
    if (++ticks % 60 === 0) localise();
    else if (state === "live" || state === "polling" || !wanted) for (const node of $$("time.counted")) if (node.checkVisibility?.() ?? true) localise(node);
    if (!wanted || over || paused) return;
    // Repairs whatever was lost without anybody noticing; and what was due is over, which may have moved nothing that is pushed.
    if (ticks % 60 === 30 || (ticks % 5 === 0 && $$("time[data-t=due]").some((node) => now() - Date.parse(node.dateTime) > 1500))) send(watching());
    const silent = Date.now() - heardAt > SILENCE;
    if (silent && state !== "dead") { setState("dead", heardAt); lost(); }
    else if (silent && socket?.readyState === 1 && ticks % 10 === 0) lost();
  }

  function pause() {
    if (!wanted || over) return;
    paused = !paused;
    for (const node of $$("[data-pause]")) node.ariaPressed = String(paused);
    if (!paused) { heard(); fails = 0; return connect(); }
    generation++;
    socket?.close();
    socket = null;
    clearTimeout(pollTimer);
    pollTimer = 0;
    setState("paused");
    announce("Live updates paused");
  }

  // --- Dialogs ---------------------------------------------------------------------------------------------------------
  let opener = null, openerRow = "";
  async function openDialog(url, from) {
    from?.setAttribute("aria-busy", "true");
    const answer = await fetch(url, { headers: { "HX-Request": "true", "X-Dialog": "1" } }).catch(() => null);
    from?.removeAttribute("aria-busy");
    if (!answer || answer.redirected) return location.assign(url);
    const body = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("dialog-body");
    if (!body) return location.assign(url);
    const dialog = document.createElement("dialog");
    dialog.className = "dialog";
    dialog.setAttribute("aria-labelledby", "dialog-title");
    dialog.setAttribute("aria-describedby", "dialog-description");
    dialog.append(body);
    opener = from;
    openerRow = rowLinkOf(from);
    $("#dialogs").replaceChildren(dialog);
    window.htmx.process(dialog);
    localise(dialog);
    dialog.addEventListener("close", () => {
      dialog.remove();
      refocus(opener, openerRow);
    });
    dialog.showModal();
    ($("[data-focus]", dialog) ?? $("[data-close]", dialog))?.focus();
  }
  function closeDialog() { $("#dialogs dialog[open]")?.close(); }

  // A plan shown in an open dialog follows its run: its own part is fetched again, the form around it is not touched.
  function wakeDialogs(items) {
    for (const part of $$("#dialogs [data-follows]")) {
      if (items.some((item) => item.id.endsWith(part.dataset.follows) || (item.id === "run-head" && $("#run-head")?.dataset.run === part.dataset.follows))) window.htmx.trigger(part, "follow");
    }
  }

  // --- Keys ------------------------------------------------------------------------------------------------------------
  let leader = 0;
  const rowLinks = () => $$("[data-row] [data-row-link]");
  const currentRow = () => document.activeElement?.closest?.("[data-row]");
  const press = (selector) => (currentRow() ? $(selector, currentRow()) : $(`#run-head ${selector}, #case-head ${selector}`))?.click();
  function step(by) {
    const links = rowLinks(), at = links.indexOf($("[data-row-link]", currentRow() ?? document.createElement("p")));
    links[Math.min(links.length - 1, Math.max(0, at + by))]?.focus();
  }
  const keys = {
    "/": () => $("[data-search]")?.focus(), j: () => step(1), k: () => step(-1), x: () => currentRow() && $("input[type=checkbox]", currentRow())?.click(),
    c: () => press("[data-cancel]"), n: () => $("[data-new]:not([hidden]) button")?.click(), p: pause, e: () => $("[data-nav=cases]")?.click(),
    m: () => press("[data-claim]"), t: toggleExact, y: () => press("[data-copy]"), "?": () => $("[data-help]")?.click(),
  };
  const places = { r: "runs", e: "cases", a: "approvals", u: "audit", m: "metrics" };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.closest("#dialogs") && event.target.matches("input")) return event.preventDefault();
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || typing(event.target) || $("#dialogs dialog[open]")) return;
    if (event.key === "Escape") for (const menu of $$("details.menu[open]")) { menu.open = false; $("summary", menu).focus(); }
    if (cookie("keys") === "off") return;
    const act = Date.now() - leader < 1500 ? () => $(`[data-nav=${places[event.key] ?? "none"}]`)?.click() : keys[event.key];
    leader = event.key === "g" ? Date.now() : 0;
    if (act) { event.preventDefault(); act(); }
  });
  function toggleExact() {
    exact = !exact;
    remember("times", exact ? "exact" : "relative");
    localise();
    announce(exact ? "Exact times" : "Relative times");
  }

  // --- Clicks and changes ----------------------------------------------------------------------------------------------
  async function copy(button) {
    const text = button.dataset.copy;
    try { await navigator.clipboard.writeText(text); } catch { return announce("secret" in button.dataset ? "Could not copy. Select it and copy it by hand." : `Could not copy. The reference is ${text}`, true); }
    button.classList.add("is-done");
    setTimeout(() => button.classList.remove("is-done"), 1500);
    announce("secret" in button.dataset ? "Copied" : `Copied ${text}`);
  }
  document.addEventListener("click", (event) => {
    const at = (selector) => event.target.closest?.(selector);
    const plain = !(event.ctrlKey || event.metaKey || event.shiftKey || event.button);
    const link = at("a[data-dialog]");
    if (at("[data-row-link]") && plain) history.replaceState({ focus: at("[data-row-link]").id }, "");
    if (link && plain) { event.preventDefault(); openDialog(link.href, link); }
    else if (at("[data-close]") && at("#dialogs")) { event.preventDefault(); closeDialog(); }
    else if (at("[data-copy]")) copy(at("[data-copy]"));
    else if (at("[data-new] button")) refetch().then(() => rowLinks()[0]?.focus());
    else if (at("[data-retry]")) { heard(); fails = 0; connect(); }
    else if (at("[data-jump]")) { $("[data-timeline-end]").scrollIntoView({ block: "end" }); showJump(0); }
    else if (at("[data-pause]")) pause();
    else if (at("[data-exact]")) toggleExact();
    else if (at("[data-hide-row]")) at("[data-row]").remove();
    else if (at("[data-print]")) window.print();
    for (const menu of $$("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  // A form that only asks (GET) opens the page it leads to as a dialog, like a link does.
  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-dialog]");
    if (!form) return;
    event.preventDefault();
    openDialog(`${form.action}?${new URLSearchParams(new FormData(form))}`, event.submitter);
  });
  // What the menu changes holds here at once, and is kept with the person for other browsers when the server can be reached.
  function keep(name, value, field = name) {
    remember(name, value);
    const headers = { "X-Quiet": "1", "X-CSRFToken": $("#user-menu [name=csrfmiddlewaretoken]").value };
    fetch("/profile/", { method: "POST", headers, body: new URLSearchParams({ [field]: value }) }).catch(() => {});
  }
  document.addEventListener("change", ({ target }) => {
    if (target.matches("[data-theme-choice]")) {
      keep("theme", target.value);
      if (target.value) html.dataset.theme = target.value; else delete html.dataset.theme;
    }
    if (target.matches("[data-zone-choice]")) { remember("utc", target.value === "UTC" ? "on" : "off"); zoneName = ""; formats.clear(); localise(); }
    if (target.matches("[data-keys-choice]")) keep("keys", target.checked ? "on" : "off", "shortcuts");
  });
  document.addEventListener("htmx:after:swap", () => {
    localise();
    $("#dialogs [data-problem]")?.focus();
  });
  document.addEventListener("htmx:error", ({ target }) => target.matches?.("form") && announce("No answer came, so we don't know whether it was recorded. Press it again: asking twice changes nothing.", true));
  document.addEventListener("cm-done", (event) => { closeDialog(); if (event.detail?.announce) announce(event.detail.announce); });
  document.addEventListener("visibilitychange", wake);
  addEventListener("online", wake);
  function print(begins) {
    paper = begins;
    localise();
    for (const one of $$(begins ? "main details:not([open], .menu)" : "details[data-printed]")) { one.open = begins; one.toggleAttribute("data-printed", begins); }
  }
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  addEventListener("pagehide", () => { generation++; socket?.close(); socket = null; });
  addEventListener("pageshow", (event) => { if (event.persisted) wake(); });

  // The server reads the times of filters in the reader's zone, and knows it from here when they have chosen none.
  const browserZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (cookie("browser_zone") !== browserZone) remember("browser_zone", browserZone);

  // --- Start -----------------------------------------------------------------------------------------------------------
  localise();
  if (history.state?.focus) document.getElementById(history.state.focus)?.focus({ preventScroll: true }); // back on a list: on the row one came from
  for (const node of $$("[data-actions]")) actionKeys.set(node, node.dataset.actions);
  for (const [name, value] of [["theme", cookie("theme")], ["zone", cookie("utc") === "on" ? "UTC" : ""]]) { const box = $(`[data-${name}-choice]`); if (box) box.value = value; }
  for (const box of $$("[data-keys-choice]")) box.checked = cookie("keys") !== "off";
  setInterval(tick, 1000);
  if (wanted) connect();
})();
