"""Hostile text through every field that a machine may fill: a page shows it as text. Nothing runs, nothing is asked for, nothing is
pushed out of place."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from playwright.sync_api import Page, expect
from standardwebhooks.webhooks import Webhook

from ledger import api as effects
from runs import api, life, reading
from runs.calls import Call
from tests import platform
from tests.browser.conftest import SignIn
from tests.browser.hostile import LINE, MARK, Filler, text, texts_of
from tests.world import World

pytestmark = pytest.mark.browser

# Texts that are the system's own: it made them, and takes no others. A provider is one that is configured, a filter only finds.
OURS = {"lease", "nonce", "approval", "child", "run", "runs", "plan_digest", "input_digest", "digest", "parent", "agents", "provider"}
OURS |= {"filter"}
OF_PEOPLE = {"people", "cases", "undoing", "effects"}  # tags of calls that are refused to a machine
BODY_MAX = 1024 * 1024
MADE = "[data-hostile], [onload], [onerror], [onfocus], [hx-get*=hostile], [href^=javascript], body style"
SHOWN = "window.hostile"  # of these texts; it is on a page as text


class Agent:
    """A machine that means ill: every text that it may choose is hostile."""

    def __init__(self, world: World) -> None:
        self.world, self.filler = world, Filler()
        self.holder = text(200, controls=False, in_path=True)
        self.name = text(100, controls=False)

    def post(self, call: Call, path: str, **given: Any) -> dict[str, Any]:
        answer = self.world.api.post(path, json=self.filler.body(call, **given))
        assert answer.is_success, f"{call.name}: {answer.text[:500]}"
        return dict(answer.json()) if answer.content else {}

    def run(self, **given: Any) -> tuple[str, str]:
        """A claimed run: its reference and the token of its lease."""
        given = {"claim": {"holder": self.holder, "ttl_s": 600}, "parent": None, **given}
        made = self.post(api.create_run, "/runs", agent=self.name, **given)
        return made["run"]["ref"], made["lease"]["token"]

    def send(self, run: str, lease: str, **given: Any) -> str:
        """A step with an effect that is in flight; returns the operation's id."""
        key = self.filler.body(api.start_step, lease=lease, kind="tool")["key"]
        self.post(api.start_step, f"/runs/{run}/steps", lease=lease, key=key, kind="tool", input_digest=None)
        more = {"ordinal": 1, "provider": "supplier", "amount": 12500, "currency": "EUR", "approval": None, **given}
        body = {"lease": lease, "step": key, "nonce": uuid.uuid4().hex}
        return str(self.post(effects.begin_effect, f"/runs/{run}/effects", **body, **more)["operation_id"])

    def tell(self, operation: str, verdict: str, **given: Any) -> None:
        self.post(effects.outcome, f"/effects/{operation}/outcome", attempt=1, verdict=verdict, **given)


@pytest.fixture
def refs(world: World) -> dict[str, str]:
    """Everything that a machine can say, said by one that means ill; which runs it was."""
    agent = Agent(world)
    run, lease = agent.run()
    key = agent.filler.body(api.start_step, lease=lease, kind="tool")["key"]
    agent.post(api.start_step, f"/runs/{run}/steps", lease=lease, key=key, kind="tool", input_digest=None, hears_cancel_every_s=0.2)
    beat = {"key": key, "progress": 0.4, "message": text(500, 3)}
    agent.post(api.heartbeat, f"/runs/{run}/heartbeat", lease=lease, steps=[beat])
    agent.post(life.register_cleanup, f"/runs/{run}/cleanups", lease=lease, cleans=None)
    operation = agent.send(run, lease)
    agent.tell(operation, "landed", amount=12500, currency="EUR")
    agent.tell(operation, "refused")
    agent.tell(agent.send(run, lease, business_ref=text(200, 5, controls=False)), "refused")
    failing = agent.filler.body(api.finish_step, lease=lease, outcome="failed")
    world.api.post(f"/runs/{run}/steps/{quote(key, safe='')}/finish", json=failing).raise_for_status()

    asking, asking_lease = agent.run(client_key="asking")
    action = {"provider": "supplier", "action": text(100, 2, controls=False), "business_ref": text(200, 4, controls=False)}
    more = {"amount": 1, "currency": "EUR", "request": {text(99): text(999)}}
    agent.post(life.request_approval, f"/runs/{asking}/approvals", lease=asking_lease, action={**action, **more})

    failed, failed_lease = agent.run(client_key="failed")
    agent.post(api.finish_run, f"/runs/{failed}/finish", lease=failed_lease, outcome="failed")
    stopped, _ = agent.run(client_key="stopped")
    agent.post(reading.request_cancellation, f"/runs/{stopped}/cancellation", mode="cancel", plan_digest=None)
    agent.post(api.gone, f"/workers/{quote(agent.holder, safe='')}/gone")
    _tidies(agent)
    _webhook(world)
    _never_sent(agent)
    missing = set().union(*map(texts_of, calls())) - agent.filler.filled
    missing = {one for one in missing if not OURS & set(one.split(".")[1:])}
    assert not missing, "fields that take text and were not tried"
    return {"run": run, "asking": asking, "failed": failed, "stopped": stopped}


def calls() -> Iterator[Call]:
    """Every call with a body that a machine may make."""
    yield api.claim
    for pattern in _walk(get_resolver()):
        made = getattr(getattr(pattern.callback, "view_class", None), "calls", {}).get("POST")
        if made and made.tag not in OF_PEOPLE:
            yield made


def _walk(resolver: URLResolver) -> Iterator[URLPattern]:
    for one in resolver.url_patterns:
        if isinstance(one, URLResolver):
            yield from _walk(one)
        else:
            yield one


def _webhook(world: World) -> None:
    """An event of the provider's about an order that nobody here made."""
    names = {"id": text(99), "reference": text(150, 6), "idempotency_key": text(60, 1)}
    order = {**names, "state": "accepted", "currency": "EUR", "total": "1.00", "accepted_at": "2026-03-02T14:02:07+00:00"}
    raw = json.dumps({"type": "order.accepted", "data": order})
    at = datetime.now(UTC)
    signed = Webhook(platform.WEBHOOK_SECRET).sign("msg_hostile", at, raw)
    headers = {"webhook-id": "msg_hostile", "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signed}
    headers["content-type"] = "application/json"
    world.api.post("/webhooks/supplier", content=raw, headers=headers)


def _tidies(agent: Agent) -> None:
    """Clean-up after a cancel, with words of the worker's own."""
    run, lease = agent.run(client_key="tidy")
    handler = text(100, 7, controls=False)
    agent.post(life.register_cleanup, f"/runs/{run}/cleanups", lease=lease, handler=handler, cleans=None)
    agent.post(reading.request_cancellation, f"/runs/{run}/cancellation", mode="cancel", plan_digest=None)
    agent.post(api.stopped, f"/runs/{run}/stopped", lease=lease)
    taken = agent.post(life.claim_cleanup, "/cleanups/claim", handlers=[handler])
    item, token = taken["cleanup"]["id"], taken["lease"]["token"]
    agent.post(life.finish_cleanup, f"/cleanups/{item}/finish", lease=token, outcome="failed")


def _never_sent(agent: Agent) -> None:
    """The calls whose own words reach a page only in records."""
    agent.post(api.claim, "/runs/claim", agents=[agent.name])
    agent.post(reading.cancel_by_key, "/cancellations")
    agent.post(life.request_bulk, "/cancellations/bulk", runs=["R-0000000000"])


PAGES = (
    ("support", "/runs/"), ("support", "/runs/{run}/"), ("support", "/runs/{run}/cancel"), ("support", "/runs/{run}/terminate"),
    ("support", "/runs/{asking}/"), ("support", "/runs/{failed}/"), ("support", "/runs/{stopped}/"),
    ("support", "/cases/?tab=all"), ("support", "/cases/providers"), ("support", "/approvals/"), ("support", "/metrics/"),
    ("support", "/search/?q={q}"), ("auditor", "/audit/"), ("auditor", "/audit/runs/{run}/"), ("auditor", "/audit/runs/{stopped}/"),
)  # fmt: skip


class Watched:
    """A page whose every request, dialog and made-up element is noticed."""

    def __init__(self, page: Page, world: World) -> None:
        self.page, self.world, self.asked = page, world, []  # type: ignore[var-annotated]
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("dialog", lambda dialog: self.asked.append(f"a dialog: {dialog.message}"))

    def check(self) -> None:
        page = self.page
        page.evaluate("for (const one of document.querySelectorAll('details:not(.menu)')) one.open = true")
        assert page.evaluate("window.hostile") is None
        made = page.locator(MADE)
        assert made.evaluate_all("(all) => all.map((one) => one.outerHTML.slice(0, 200))") == [], page.url
        text_shown = page.locator("body").inner_text()
        assert "\u202e" not in text_shown and "\x1b" not in text_shown, page.url
        for width in (1280, 360):
            page.set_viewport_size({"width": width, "height": 900})
            sideways = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
            assert sideways <= 0, f"{page.url} is {sideways} px wider than a screen of {width}"
        wrong = [url for url in self.asked if MARK in urlsplit(url).path or not url.startswith(self.world.url)]
        assert not wrong, page.url
        self.asked.clear()


@pytest.mark.timeout(240)
def test_it_is_shown_as_text(world: World, refs: dict[str, str], sign_in: SignIn) -> None:
    watched: dict[str, Watched] = {}
    for name, address in PAGES:
        if name not in watched:
            watched[name] = Watched(sign_in(name), world)
        page = watched[name].page
        page.goto(world.url + address.format(**refs, q="C-"))
        if "{" in address and "q=" not in address or address == "/runs/":
            expect(page.locator("main")).to_contain_text(SHOWN)
        watched[name].check()
    page = watched["support"].page
    page.goto(f"{world.url}/cases/?tab=all")
    for link in [one.get_attribute("href") for one in page.locator("[data-row-link]").all()]:
        page.goto(world.url + str(link))
        watched["support"].check()
    page.goto(f"{world.url}/runs/{refs['run']}/")
    page.click("#run-head [data-cancel]")
    expect(page.locator("#dialog-body")).to_contain_text(SHOWN)
    watched["support"].check()


def test_a_line_as_long_as_a_body_may_be(world: World, sign_in: SignIn) -> None:
    body = {"agent": "nobody", "title": "x" * 300, "claim": {"holder": "w" * 200, "ttl_s": 60}}
    refused = world.api.post("/runs", json={**body, "input": {"line": "w" * (5 * BODY_MAX)}})
    assert refused.status_code == 413
    made = world.api.post("/runs", json={**body, "input": {"line": LINE * 3}}).json()
    run, lease = made["run"]["ref"], made["lease"]["token"]
    step = {"lease": lease, "key": "k" * 200, "kind": "tool", "title": "t" * 300}
    world.api.post(f"/runs/{run}/steps", json=step).raise_for_status()
    world.api.post(
        f"/runs/{run}/steps/{step['key']}/finish", json={"lease": lease, "outcome": "done", "result": LINE * 3}
    ).raise_for_status()
    world.api.post(f"/runs/{run}/finish", json={"lease": lease, "outcome": "failed", "error": "e" * 20_000}).raise_for_status()
    watched = Watched(sign_in("support"), world)
    for address in ("/runs/", f"/runs/{run}/"):
        watched.page.goto(world.url + address)
        expect(watched.page.locator("main")).to_contain_text("xxxxx")
        watched.check()
