"""Many runs, a run that says how far it is, and an approval, in a real browser."""

from __future__ import annotations

import re
import signal
from decimal import Decimal

import pytest
from playwright.sync_api import APIResponse, Route, expect

from ledger import policies
from tests.browser.conftest import SignIn
from tests.browser.test_dashboard import photograph, start
from tests.makers import ADMIN, new_run
from tests.world import World

pytestmark = pytest.mark.browser


def made(**values: str) -> list[str]:
    """Queued runs, made in this process before any browser runs."""
    return [new_run("", **values)[0].ref for _ in range(3)]


@pytest.fixture
def queued(database: None) -> list[str]:
    return made(agent="refunds")


def test_cancelling_picked_runs_from_the_list(world: World, queued: list[str], sign_in: SignIn) -> None:
    page = sign_in()
    for ref in queued[:2]:
        page.get_by_label(f"Pick {ref}").check()
    photograph(page, "runs-picked")
    page.click("#bulk-picked")
    expect(page.locator("#dialogs dialog h1")).to_have_text("Cancel 2 runs?")
    expect(page.locator("#dialog-body")).to_contain_text("2 can be cancelled")
    page.keyboard.press("Escape")
    expect(page.locator("#dialogs dialog")).to_have_count(0)
    page.locator(f"[data-row]:has-text('{queued[0]}') [data-row-link]").focus()
    page.keyboard.press("x")
    page.keyboard.press("x")
    page.click("#bulk-picked")
    photograph(page, "bulk-ask")
    page.fill("#bulk-reason", "Picked by mistake.")
    page.click("#bulk-go")
    page.wait_for_url(re.compile(r"/bulk/[0-9a-f-]+/$"))
    expect(page.locator("#bulk-progress")).to_contain_text("2 runs: 2 accepted")
    expect(page.locator("#bulk-bar")).to_have_count(0)
    photograph(page, "bulk-progress")
    page.goto(f"{world.url}/runs/{queued[2]}/")
    expect(page.locator(".chip-big")).to_have_text("Scheduled")


def test_a_run_says_how_far_its_step_is_without_a_reload(world: World, sign_in: SignIn) -> None:
    world.start_agent_worker()
    page = sign_in()
    start(page, world, "before_send")
    doing = page.locator("#run-doing")
    expect(doing).to_contain_text("Wait before ordering")
    expect(doing).to_contain_text("hears a cancel within 0.2 s · last answered")
    first = doing.locator("progress").get_attribute("value")
    expect(doing.locator("progress")).not_to_have_attribute("value", first or "")
    photograph(page, "run-doing")
    page.click("#run-head [data-cancel]")
    expect(page.locator("#dialog-body")).to_contain_text("“Wait before ordering” hears a cancel within 0.2 s")
    page.click("#cancel-go")
    expect(page.locator(".chip-big")).to_have_text("Cancelled")
    expect(doing).to_be_hidden()


def test_an_answer_that_travels_longer_than_the_news_takes_nothing_back(world: World, sign_in: SignIn) -> None:
    worker = world.start_agent_worker()
    page = sign_in()
    start(page, world, "before_send")
    expect(page.locator("#run-doing")).to_contain_text("Wait before ordering")
    held: list[tuple[Route, APIResponse]] = []
    page.route("**/cancel", lambda route: held.append((route, route.fetch())) if route.request.method == "POST" else route.continue_())
    page.click("#run-head [data-cancel]")
    world.signal(worker, signal.SIGSTOP)  # so that the answer is older than what follows
    page.click("#cancel-go")
    while not held:
        page.wait_for_timeout(20)
    route, answer = held[0]
    assert "Cancelling" in answer.text()
    world.signal(worker, signal.SIGCONT)
    expect(page.locator(".chip-big")).to_have_text("Cancelled")
    route.fulfill(response=answer)
    expect(page.locator("#dialogs dialog")).to_have_count(0)  # it closes after the answer has been taken in
    assert page.locator(".chip-big").inner_text() == "Cancelled", "now, not after the page has repaired itself"


@pytest.fixture
def limit(database: None) -> None:
    policies.require_approval(ADMIN, "supplier", "create_order", "over", Decimal(5000))


def test_an_order_that_a_person_must_approve(world: World, limit: None, sign_in: SignIn) -> None:
    world.start_agent_worker()
    page = sign_in("approver")
    ref = start(page, world, "needs_approval")
    expect(page.locator(".chip-big")).to_have_text("Awaiting approval")
    expect(page.locator("#run-head")).to_contain_text("over 6106.00 EUR to Kugel & Sohn GmbH?")
    page.goto(f"{world.url}/approvals/")
    photograph(page, "approvals")
    page.get_by_role("link", name="Approve €6,106.00 EUR…").click()
    expect(page.locator("#dialog-body")).to_contain_text("exactly this, as shown here")
    page.click("#decide-go")
    expect(page.locator("#approvals-list")).to_contain_text("Nothing waits for a decision.")
    page.goto(f"{world.url}/runs/{ref}/")
    expect(page.locator(".chip-big")).to_have_text("Completed")
    expect(page.locator("#run-effects")).to_contain_text("€6,106.00 EUR")


def test_two_approvers_on_one_inbox(world: World, limit: None, sign_in: SignIn) -> None:
    world.start_agent_worker()
    reader, decider = sign_in("approver"), sign_in("approver2")
    reader.goto(f"{world.url}/approvals/")
    expect(reader.locator("#conn")).to_have_text("Live")
    reader.evaluate("window.sameDocument = true")
    expect(reader.locator("main")).to_contain_text("Nothing waits for a decision.")
    start(decider, world, "needs_approval")
    pill = reader.locator("[data-new] button")
    expect(pill).to_have_text("1 new request — show")
    expect(reader.locator("main")).to_contain_text("Nothing waits for a decision.")
    reader.keyboard.press("n")
    card = reader.locator("[data-row]")
    expect(card).to_contain_text("over 6106.00 EUR to Kugel & Sohn GmbH?")
    expect(card.get_by_role("link", name="Approve €6,106.00 EUR…")).to_be_visible()
    expect(card.locator("[data-row-link]")).to_be_focused()

    decider.goto(f"{world.url}/approvals/")
    decider.get_by_role("link", name="Reject…").click()
    decider.fill("#decide-comment", "Not this supplier")
    decider.click("#decide-go")
    expect(card).to_contain_text(re.compile(r"Rejected by Approver2 just now"))
    expect(card).to_have_class(re.compile("is-unmatched"))
    expect(card.get_by_role("link", name="Approve €6,106.00 EUR…")).to_have_count(0)
    expect(reader.locator("[data-nav=approvals] .badge")).to_be_hidden()
    assert reader.evaluate("window.sameDocument === true")
    photograph(reader, "approvals-decided")
    reader.click("#approvals-refresh")
    expect(reader.locator("main")).to_contain_text("Nothing waits for a decision.")
