"""The seeded database behind a real web process: pages over HTTP, and what a person at a real browser waits for."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench import ground

COLD, CLICKS, CANCELS, ASKED = 10, 24, 20, 40
READING_MS = 500  # nobody answers a question sooner; the page has fetched what came with it

# What the page itself notes: when something was clicked, and how long until the first frame that shows it (the button looks pressed).
_WATCH = """() => {
  window.bench = {clicked: 0, seen: 0};
  addEventListener('click', () => { window.bench = {clicked: performance.now(), seen: 0}; }, true);
  new MutationObserver(() => {
    const bench = window.bench;
    if (!bench.clicked || bench.seen || !document.querySelector('.htmx-request, [aria-busy=true], dialog[open]')) return;
    bench.seen = -1;
    requestAnimationFrame(() => requestAnimationFrame(() => { bench.seen = performance.now() - bench.clicked; }));
  }).observe(document, {subtree: true, childList: true, attributes: true, attributeFilter: ['class', 'open', 'aria-busy']});
}"""
# Asked at each change of the page, not at each frame: drawing frames for the question would take the time that is measured.
_REACTED = """(wanted) => new Promise(done => {
  const answer = () => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - window.bench.clicked)));
  if (document.querySelector(wanted)) return answer();
  const changes = new MutationObserver(() => {
    if (!document.querySelector(wanted)) return;
    changes.disconnect();
    answer();
  });
  changes.observe(document, {subtree: true, childList: true, attributes: true});
})"""
_PAINT = """() => new Promise(done => {
  const look = () => {
    const [paint] = performance.getEntriesByName('first-contentful-paint');
    if (paint) done(paint.startTime); else requestAnimationFrame(look);
  };
  look();
})"""


def measure() -> dict[str, Any]:
    """Milliseconds over HTTP and in the browser; the web process and the database are this machine's."""
    from console.embedded import processes
    from console.embedded.processes import LOCALHOST, Processes, free_port

    collected = {"STATIC_ROOT": str(ground.HOME / "bench-static")}  # served as a deployment serves them: compressed
    command = (sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0")
    subprocess.run(command, cwd=Path(__file__).parents[2], env={**os.environ, **collected}, check=True)
    with Processes(ground.HOME / "bench-logs") as running:
        port = free_port()
        running.start(processes.web(port, collected))
        running.wait_until_ready("web")
        site, session = f"http://{LOCALHOST}:{port}", _session()
        return _over_http(site, session) | _in_a_browser(site, session)


def _session() -> str:
    """The key of a session of somebody who may see everything."""
    from tests.bench import pages

    return str(pages._client().session.session_key)


def _over_http(site: str, session: str) -> dict[str, Any]:
    import httpx

    from runs.models import Run

    any_run = Run.objects.order_by("-created_at")[2000:2001].get()
    told = {}
    with httpx.Client(base_url=site, cookies={"sessionid": session}, trust_env=False, timeout=30) as client:
        for name, path in {"runs": "/runs/", "a run": f"/runs/{any_run.ref}/", "audit": "/audit/", "cases": "/cases/"}.items():
            times = []
            for _ in range(ASKED + 1):
                began = time.perf_counter()
                client.get(path).raise_for_status()
                times.append((time.perf_counter() - began) * 1000)
            told[f"over HTTP, {name}"] = _words(times[1:])
    return told


def _words(times: list[float]) -> str:
    return f"{ground.percentile(times, 0.5):6.1f} / {ground.percentile(times, 0.95):6.1f} ms"


def _in_a_browser(site: str, session: str) -> dict[str, Any]:
    from playwright.sync_api import sync_playwright

    from console.embedded.bootstrap import BROWSERS
    from tests.browser.conftest import FLAGS

    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        return {"in a browser": "no Chromium here"}
    refs = _running_refs(CANCELS)  # before Playwright keeps an event loop in this thread
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        cookie = {"name": "sessionid", "value": session, "url": site}

        def opened() -> Any:
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            context.add_cookies([cookie])
            return context.new_page()

        told = _first_paints(opened, site, refs[0]) | _clicks(opened, site) | _cancels(opened, site, refs)
        browser.close()
    return told


def _running_refs(count: int) -> list[str]:
    from django.db import connection

    from runs.models import Run

    found = Run.objects.filter(status="running", closed_at__isnull=True).order_by("-created_at")
    refs = list(found.values_list("ref", flat=True)[:count])
    connection.close()
    return refs


def _first_paints(opened: Callable[[], Any], site: str, ref: str) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name, path in {"list": "/runs/", "run": f"/runs/{ref}/"}.items():
        times = []
        for _ in range(COLD):
            page = opened()  # a context of its own: nothing is cached
            requests: list[Any] = []
            page.on("requestfinished", lambda request, requests=requests: requests.append(request))  # type: ignore[misc]
            page.goto(f"{site}{path}", wait_until="load")
            times.append(page.evaluate(_PAINT))
            asked = [request for request in requests if request.resource_type in ("script", "stylesheet")]
            weight = sum(request.sizes()["responseBodySize"] for request in asked)
            told[f"browser, {name}: scripts and styles"] = f"{weight / 1024:.1f} KB in {len(asked)} requests, {len(requests)} in all"
            page.context.close()
        told[f"browser, {name}: first paint, cold"] = _words(times)
    return told


def _clicks(opened: Callable[[], Any], site: str) -> dict[str, Any]:
    """From the click on Cancel in the list until the page shows that it was clicked, and until its dialog is open."""
    times, seen = [], []
    page = opened()
    page.goto(f"{site}/runs/?status=running", wait_until="load")
    page.evaluate(_WATCH)
    for number in range(CLICKS):
        page.locator("[data-cancel]").nth(number).click()
        times.append(page.evaluate(_REACTED, "dialog[open]"))
        seen.append(page.evaluate("window.bench.seen"))
        page.keyboard.press("Escape")
        page.locator("dialog[open]").wait_for(state="detached")
    page.context.close()
    return {"browser: click to visible reaction": _words(seen), "browser: click to open dialog": _words(times)}


def _cancels(opened: Callable[[], Any], site: str, refs: list[str]) -> dict[str, Any]:
    """From the click on *Cancel this run* until the header says that it is being cancelled."""
    times = []
    for ref in refs:
        page = opened()
        page.goto(f"{site}/runs/{ref}/", wait_until="load")
        page.click("#run-head [data-cancel]")
        page.wait_for_selector("dialog[open] button[type=submit]")
        page.wait_for_timeout(READING_MS)
        page.evaluate(_WATCH)
        page.click("dialog[open] button[type=submit]")
        times.append(page.evaluate(_REACTED, "#run-head [data-actions^=cancel]"))
        page.context.close()
    return {"browser: cancel to changed header": _words(times)}
