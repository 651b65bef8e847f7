"""Stopping a real order in a real browser: the dialog, the receipt, the exact sentence, and the page that follows without a reload."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SCREENSHOTS, SignIn
from tests.world import World

pytestmark = pytest.mark.browser

SIZES = {"wide": (1280, 900), "narrow": (360, 780)}


def start(page: Page, world: World, situation: str) -> str:
    """Start a situation of the practice page; returns the run's reference."""
    page.goto(f"{world.url}/demo/")
    page.click(f"#start-{situation}")
    page.wait_for_url(re.compile(r"/runs/R-\w+/$"))
    return page.url.rstrip("/").rpartition("/")[2]


def photograph(page: Page, name: str) -> None:
    """The page wide and narrow, light and dark; nothing may stick out sideways."""
    for size, (width, height) in SIZES.items():
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.screenshot(path=SCREENSHOTS / f"{name}-{size}-{scheme}.png", full_page=True)
        sideways = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
        assert sideways <= 0, f"{name} is {sideways} px wider than a {width} px screen"
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(color_scheme="light")


def stays(page: Page) -> None:
    """Marks the document, so that a reload would be noticed."""
    page.evaluate("window.sameDocument = true")


def stayed(page: Page) -> bool:
    return bool(page.evaluate("window.sameDocument === true"))


def test_cancel_while_the_supplier_holds_the_request(world: World, sign_in: SignIn) -> None:
    world.start_agent_worker()
    page = sign_in()
    ref = start(page, world, "in_flight")
    stays(page)
    expect(page.locator("#run-head .chip-big")).to_have_text("Writing — 1 in flight")
    expect(page.locator("#conn")).to_have_text("Live")
    photograph(page, "run-writing")

    page.click("#run-head [data-cancel]")
    dialog = page.locator("#dialog-body")
    expect(dialog).to_contain_text(f"Cancel {ref}?")
    expect(dialog).to_contain_text("1 action in flight")
    photograph(page, "cancel-dialog")
    page.fill("#cancel-reason", "The customer withdrew the order")
    page.click("#cancel-go")
    expect(dialog).to_have_count(0)
    head = page.locator("#run-head")
    expect(head).to_contain_text("Cancelling. Support asked at")
    expect(head).to_contain_text("because “The customer withdrew the order”")
    expect(page.locator("#run-effects")).to_contain_text("It can't be called back.")
    expect(head.locator("[data-cancel]")).to_have_count(0)
    page.click("#run-receipt summary")
    expect(page.locator("#run-receipt")).to_contain_text("In flight")
    photograph(page, "run-cancelling")

    world.release()
    expect(page.locator("#run-head .chip-big")).to_have_text("Cancelled")
    expect(page.locator("#run-effects")).to_contain_text("Landed. We learned it after the cancel.")
    expect(page.locator("#run-account")).to_contain_text("in effect (1 confirmed after the cancel)")
    expect(page.locator("#timeline-items")).to_contain_text("Quiet")
    expect(page.locator("#announcer")).to_contain_text(re.compile(f"{ref}: Cancelled|Cancelling"))
    assert page.title() == f"Cancelled · {ref} · Countermand"
    assert stayed(page), "all of this without a reload"
    photograph(page, "run-cancelled")
    assert len(world.supplier_log(kind="execution")) == 1


def test_cancel_before_the_send_from_the_list(world: World, sign_in: SignIn) -> None:
    world.start_agent_worker()
    page = sign_in()
    ref = start(page, world, "before_send")
    page.goto(f"{world.url}/runs/")
    stays(page)
    row = page.locator("[data-row]", has_text=ref)
    expect(row).to_contain_text("Running")
    photograph(page, "runs")
    row.locator("[data-cancel]").focus()
    page.keyboard.press("c")
    expect(page.locator("#dialog-body")).to_contain_text("Nothing is in flight right now.")
    page.keyboard.press("Enter")
    expect(page.locator("#dialog-body")).to_contain_text(f"Cancel {ref}?")
    page.keyboard.press("Escape")
    expect(page.locator("#dialog-body")).to_have_count(0)
    expect(row).to_contain_text("Running")

    row.locator("[data-cancel]").click()
    page.click("#cancel-go")
    expect(row).to_contain_text("Cancelled")
    expect(row.locator("[data-cancel]")).to_have_count(0)
    assert stayed(page)
    row.locator("[data-row-link]").click()
    expect(page.locator("#run-head")).to_contain_text("Stopped. It had sent nothing.")
    expect(page.locator("#run-effects")).to_contain_text("Nothing has left us for this run.")
    assert not world.supplier_log()


def test_too_late_is_said_where_the_reader_is(world: World, sign_in: SignIn) -> None:
    world.start_agent_worker()
    page = sign_in()
    ref = start(page, world, "in_flight")
    expect(page.locator("#run-head .chip-big")).to_have_text("Writing — 1 in flight")
    page.click("#run-head [data-cancel]")
    expect(page.locator("#cancel-go")).to_be_visible()
    world.release()
    expect(page.locator("#run-head .chip-big")).to_have_text("Completed")
    expect(page.locator("#cancel-plan")).to_contain_text("1 action already landed")
    page.click("#cancel-go")
    problem = page.locator("#dialog-body [data-problem]")
    expect(problem).to_contain_text("Not cancelled: this run had already finished.")
    expect(problem).to_contain_text("1 action took effect: order")
    expect(problem).to_be_focused()
    photograph(page, "already-closed")
    page.click("#cancel-back")
    expect(page.locator("#run-head .chip-big")).to_have_text("Completed")
    expect(page.locator("#run-head [data-cancel]")).to_have_count(0)
    assert ref in page.url


def test_everything_works_without_javascript(world: World, sign_in: SignIn) -> None:
    world.start_agent_worker()
    page = sign_in(java_script_enabled=False)
    ref = start(page, world, "before_send")
    page.goto(f"{world.url}/runs/{ref}/")
    page.click("#run-head [data-cancel]")
    expect(page.locator("h1")).to_have_text(f"Cancel {ref}?")
    page.fill("#cancel-reason", "no script")
    page.click("#cancel-go")
    expect(page.locator("main")).to_contain_text("because “no script”")
    expect(page.locator("#run-head .chip-big")).to_contain_text(re.compile("Cancell(ing|ed)"))


def test_an_auditor_looks_and_cannot_touch(world: World, sign_in: SignIn) -> None:
    run = world.api.post("/runs", json={"agent": "nobody", "title": "Order"}).json()
    page = sign_in("auditor")
    page.goto(f"{world.url}/runs/{run['ref']}/")
    expect(page.locator("#run-head")).to_contain_text("It waits for a worker to claim it.")
    expect(page.locator("#run-head [data-cancel]")).to_have_count(0)
    expect(page.locator("nav a", has_text="Practice")).to_have_count(0)


def contradicting(world: World) -> str:
    """A run whose sender says that its order landed and then that it was refused; returns its reference."""
    claim = {"holder": "host-9:1:abc", "ttl_s": 60}
    made = world.api.post("/runs", json={"agent": "nobody", "title": "Order 12 pumps", "claim": claim}).json()
    run, lease = made["run"]["ref"], made["lease"]["token"]
    world.api.post(f"/runs/{run}/steps", json={"lease": lease, "key": "order", "kind": "tool"}).raise_for_status()
    order = {
        "lease": lease, "nonce": "0f8fad5bd9cb469fa16570867728950e", "step": "order", "ordinal": 1, "provider": "supplier",
        "action": "create_order", "business_ref": "PO-1042", "amount": 12500, "currency": "EUR", "request": {"lines": [1]},
    }  # fmt: skip
    operation = world.api.post(f"/runs/{run}/effects", json=order).json()["operation_id"]
    landed = {"attempt": 1, "verdict": "landed", "external_id": "SO-7", "amount": 12500, "currency": "EUR"}
    for told in (landed, {"attempt": 1, "verdict": "refused"}):
        world.api.post(f"/effects/{operation}/outcome", json=told).raise_for_status()
    return str(run)


def test_a_person_settles_what_answers_disagree_about(world: World, sign_in: SignIn) -> None:
    ref = contradicting(world)
    page = sign_in()
    expect(page.locator("[data-nav=cases] .badge")).to_have_text("1")
    page.click("[data-nav=cases]")
    photograph(page, "cases")
    page.click("[data-row-link]")
    expect(page.locator("#case-head")).to_contain_text("The sender says it happened, the sender, later, says it was refused.")
    page.click("#case-claim")
    page.fill("#finding-notes", "on page 2 of their list")
    page.check("#verdict-happened")
    page.click("#finding-save")
    expect(page.locator("#finding [data-problem]")).to_contain_text("Give the provider's own reference of what happened.")
    expect(page.locator("#finding-notes")).to_have_value("on page 2 of their list")
    photograph(page, "case")
    page.fill("#finding-external", "SO-7")
    page.click("#finding-save")
    expect(page.locator("#case-head")).to_contain_text("Settled by Support")
    page.goto(f"{world.url}/runs/{ref}/")
    expect(page.locator("#run-effects")).to_contain_text("Support found at")
    expect(page.locator("#run-effects")).to_contain_text("reference SO-7")
