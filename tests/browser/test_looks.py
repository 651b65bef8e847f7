"""How pages look: nothing sticks out sideways at any width, no text is too small to read, and the picture of a run follows it."""

from __future__ import annotations

import contextlib
import re

import pytest
from playwright.sync_api import Page, expect

from runs.models import Run
from tests.browser.conftest import SCREENSHOTS, SignIn
from tests.makers import new_run, send, step, tell
from tests.world import World

pytestmark = pytest.mark.browser

WIDTHS = (320, 360, 1280, 1920)
TEXT_PX_MIN = 11
LONG = "a-reference-of-an-agent-that-never-ends-" + "x" * 150  # 190 of 200 characters
PAGES = (
    "/runs/",
    "/cases/",
    "/approvals/",
    "/metrics/",
    "/search/?q=PO",
    "/profile/",
    "/settings/",
    "/help/",
    "/demo/",
    "/demo/components/",
)
AUDIT = ("/audit/", "/audit/export")

# What is wider than the screen, and writing in pictures that is smaller than it may be.
SIDEWAYS = """() => {
  const over = document.scrollingElement.scrollWidth - innerWidth;
  if (over <= 0) return "";
  const widest = [...document.querySelectorAll("main *, header *")].filter((node) => node.getBoundingClientRect().right > innerWidth + 0.5);
  return `${over} px: ${widest.slice(0, 3).map((node) => node.outerHTML.slice(0, 160)).join(" | ")}`;
}"""
TINY = """(least) => [...document.querySelectorAll("svg text")].filter((node) => node.checkVisibility())
  .filter((node) => parseFloat(getComputedStyle(node).fontSize) * node.getScreenCTM().a < least).map((node) => node.textContent)"""


@pytest.fixture
def busy(world: World) -> Run:
    """A run with something of every kind in its picture, and names that nobody would like to lay out."""
    world.control("lookup_down", seconds=600)  # so that what is unknown stays so
    run, token = new_run(title=f"<b>{LONG}</b>", business_ref=LONG)
    step(run, token, "look around", title=LONG)
    tell(send(run, token, ref=LONG), "landed", external_id=LONG)
    tell(send(run, token, ref="PO-2", step="second"), "unknown")
    send(run, token, ref="PO-3", step="third", begin=False)
    return run


def wrong(page: Page, where: str) -> list[str]:
    """What does not fit or cannot be read on a page, at any width."""
    page.goto(where)
    expect(page.locator("h1").first).to_be_visible()
    found = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        if sideways := page.evaluate(SIDEWAYS):
            found.append(f"{where} at {width} px is too wide by {sideways}")
        if tiny := page.evaluate(TINY, TEXT_PX_MIN):
            found.append(f"{where} at {width} px has tiny writing: {tiny}")
    return found


def test_no_page_scrolls_sideways_and_no_writing_is_tiny(world: World, busy: Run, sign_in: SignIn) -> None:
    seen = {
        "admin": (*PAGES, f"/runs/{busy.ref}/", f"/runs/{busy.ref}/cancel", f"/runs/{busy.ref}/terminate"),
        "auditor": (*AUDIT, f"/audit/runs/{busy.ref}/"),
    }
    found = []
    for name, pages in seen.items():
        page = sign_in(name)
        for where in pages:
            found += wrong(page, f"{world.url}{where}")
    assert not found, "\n".join(found)


def test_the_picture_follows_its_run_and_counts_down_to_what_is_next(world: World, busy: Run, sign_in: SignIn) -> None:
    page = sign_in(viewport={"width": 360, "height": 800})
    page.goto(f"{world.url}/runs/{busy.ref}/")
    expect(page.locator("#conn")).to_have_text("Live")
    picture = page.locator("#run-picture")
    unknown, planned = (picture.locator(".pic-lane", has_text=ref) for ref in ("PO-2", "PO-3"))
    expect(unknown).to_contain_text("Unknown — checking · next check")
    expect(unknown.locator("time")).to_have_text(re.compile(r"^(in \d+ (s|min)|now)"))
    expect(planned).to_contain_text("Not sent yet")
    expect(picture.locator(".pic-rules line")).to_have_count(0)
    page.click("#run-head [data-cancel]")
    page.click("#cancel-go")
    expect(picture.locator(".pic-rules line.is-cancel")).to_have_count(1)
    expect(picture).to_contain_text("Before and after the cancel")
    expect(planned).not_to_contain_text("Not sent yet")
    expect(planned.locator(".pic-mark title")).to_have_text(re.compile(r"^Not sent: record \d+, after the cancel$"))
    assert page.evaluate(SIDEWAYS) == ""
    line, landed, withheld = (
        page.locator(which).first.evaluate("node => node.getBoundingClientRect().x")
        for which in (
            ".pic-rules line.is-cancel",
            f'.pic-lane:has-text("{LONG}") .pic-mark.c-green',
            '.pic-lane:has-text("PO-3") .pic-mark',
        )
    )
    assert landed < line < withheld


def test_on_paper_and_in_forced_colours_the_picture_still_tells(world: World, busy: Run, sign_in: SignIn) -> None:
    page = sign_in()
    page.goto(f"{world.url}/runs/{busy.ref}/")
    picture = page.locator("#run-picture")
    page.emulate_media(forced_colors="active")
    picture.screenshot(path=SCREENSHOTS / "picture-forced-colours.png")
    settled, open_ = (
        picture.locator(f".pic-mark.{kind} circle").first.evaluate("node => getComputedStyle(node).strokeWidth")
        for kind in ("is-outline", "is-tint")
    )
    assert settled != open_, "emphasis does not hang on a colour"
    page.emulate_media(media="print", forced_colors="none")
    expect(page.locator(".topbar")).to_be_hidden()
    expect(picture.locator(".pic-mark").first).to_be_visible()
    page.screenshot(path=SCREENSHOTS / "run-print.png", full_page=True)


def test_a_run_that_has_ended_is_doing_nothing_any_more(world: World, busy: Run, sign_in: SignIn) -> None:
    page = sign_in()
    page.clock.install()
    page.goto(f"{world.url}/runs/{busy.ref}/")
    expect(page.locator("#conn")).to_have_text("Live")
    expect(page.locator("#run-doing")).to_be_visible()
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))  # it does not ask by itself any more
    with contextlib.closing(world.log_in("admin")) as person:
        where = f"/api/v1/runs/{busy.ref}/cancellation"
        plan = person.get(where).json()["plan_digest"]
        person.post(where, json={"mode": "terminate", "reason": "It hangs", "plan_digest": plan}).raise_for_status()
    expect(page.locator("#run-head .chip-big")).to_contain_text("Terminated")
    expect(page.locator("#run-doing")).to_be_hidden()
