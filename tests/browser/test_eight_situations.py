"""Each thing that a cancel can find, reached by pressing buttons of the practice page: its exact words, live, in a second browser too."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from ledger import rulebook
from tests.browser.conftest import SignIn
from tests.browser.house import TERMS, somebody
from tests.browser.test_dashboard import start, stayed, stays
from tests.world import World

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]


class Two:
    """Somebody who acts, and somebody in another browser who only looks."""

    def __init__(self, world: World, sign_in: SignIn) -> None:
        world.start_agent_worker()
        self.world, self.acts, self.looks = world, sign_in("support"), sign_in("auditor")
        self.ref = ""

    def start(self, situation: str, chip: str) -> None:
        self.ref = start(self.acts, self.world, situation)
        self.looks.goto(f"{self.world.url}/runs/{self.ref}/")
        expect(self.looks.locator("#conn")).to_have_text("Live")
        stays(self.looks)
        self.both("#run-head .chip-big", chip)

    def cancel(self) -> None:
        self.acts.click("#run-head [data-cancel]")
        self.acts.click("#cancel-go")
        expect(self.acts.locator("#dialogs dialog")).to_have_count(0)

    def both(self, part: str, *says: str) -> None:
        for page in (self.acts, self.looks):
            for one in says:
                expect(page.locator(part)).to_contain_text(one)
        assert stayed(self.looks), "without a reload"

    def effect(self, chip: str, *says: str) -> None:
        for page in (self.acts, self.looks):
            expect(page.locator("#run-effects .chip").first).to_have_text(chip)
        self.both("#run-effects", *says)

    def nothing_said_too_early(self) -> None:
        """While the run is still stopping, no page says that it has stopped."""
        for page in (self.acts, self.looks):
            words = _of_the_run(page)
            assert "Cancelling" in words and "Cancelled" not in words


def _of_the_run(page: Page) -> str:
    return f"{page.title()} {page.locator('#run-head').inner_text()} {page.locator('#run-account').inner_text()}"


@pytest.fixture
def two(world: World, sign_in: SignIn) -> Two:
    return Two(world, sign_in)


def test_before_the_send(two: Two) -> None:
    two.start("line_down", "Running")
    two.effect("Not sent yet")
    two.cancel()
    two.effect(
        "Not sent", "Not sent. This order was stopped before it left us.", "Nothing reached", "Its sender reported that nothing left."
    )
    two.both("#run-head .chip-big", "Cancelled")
    assert not two.world.supplier_log()


def test_in_flight_and_then_confirmed(two: Two) -> None:
    two.start("in_flight", "Writing — 1 in flight")
    two.cancel()
    two.effect("In flight", "It can't be called back.", "then we check with Supplier")
    two.nothing_said_too_early()
    two.world.release()
    two.effect("Landed — confirmed after the cancel", "Landed. We learned it after the cancel.", "It is in effect now.")
    two.both("#run-head .chip-big", "Cancelled")


@pytest.fixture
def undo_rule(world: World) -> None:
    rulebook.change(somebody("admin"), "supplier", "create_order", "USD", TERMS, "the rule of this test")


def test_landed_before_the_cancel(undo_rule: None, two: Two) -> None:
    two.start("after_landing", "Running")
    two.effect("Landed")
    two.cancel()
    two.effect("Landed before the cancel", "Landed before the cancel.", "Cancelling did not change it. It is in effect now.")
    two.acts.click("[id^=undo-]:has-text('Ask for it to be undone')")
    two.acts.select_option("#undo-reason", "duplicate")
    two.acts.click("#undo-go")
    expect(two.acts.locator("main .banner")).to_contain_text("Asked to undo")
    expect(two.acts.locator("#dialogs dialog")).to_have_count(0)
    for page in (two.acts, two.looks):
        expect(page.locator("#run-effects")).to_contain_text("Undo waiting for approval")


def test_unknown_and_being_checked(two: Two) -> None:
    two.start("looks_down", "Awaiting evidence")
    two.cancel()
    two.effect("Unknown — checking", "We don't know yet.", "Don't repeat it by hand — it could happen twice.")
    two.both("#run-head .chip-big", "Cancelled — effects pending")


def test_unknown_until_a_person_finds_out(two: Two) -> None:
    two.start("access_refused", "Awaiting evidence")
    two.cancel()
    two.effect("Unknown — checking", "We don't know yet.")
    desk = two.acts.context.new_page()  # both pages of the run stay open while it is pressed
    desk.goto(two.acts.url)
    desk.click("#run-effects [id^=early-case-]")
    desk.click("#case-open-go")
    expect(desk.locator("main h1")).to_contain_text("Order")
    two.effect(
        "Unknown — needs a person",
        "A person must find out. We sent this order at",
        "Supplier has not told us yet whether it happened. Look it up by",
        "and record what you find. Until then this run stays unresolved.",
    )
    two.both("#run-head .chip-big", "Cancelled — unresolved")


def test_already_completed(two: Two) -> None:
    two.start("in_flight", "Writing — 1 in flight")
    two.acts.click("#run-head [data-cancel]")
    two.world.release()
    two.both("#run-head .chip-big", "Completed")
    two.acts.click("#cancel-go")
    problem = two.acts.locator("#dialog-body [data-problem]")
    expect(problem).to_contain_text("Not cancelled: this run had already finished.")
    expect(problem).to_be_focused()
    two.both("#run-head .chip-big", "Completed")


def test_terminated(two: Two) -> None:
    two.start("in_flight", "Writing — 1 in flight")
    two.acts.click("#run-head details summary")
    two.acts.click("#run-head [href$='/terminate']")
    two.acts.fill("#terminate-reason", "It hangs")
    two.acts.fill("#terminate-typed", two.ref)
    two.acts.click("#terminate-go")
    two.both("#run-head .chip-big", "Terminated")
    two.both("#run-head", "Terminated by Support at", "Its clean-up steps did not run.", "Terminating undid nothing:")
