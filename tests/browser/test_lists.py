"""A list under somebody's pointer and hands: it does not move, and coming back to it is coming back."""

from __future__ import annotations

import os
import re

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SignIn
from tests.world import World

STORM_S = 30 if os.environ.get("COUNTERMAND_FAULTS") == "all" else 6
RATE_HZ = 5
pytestmark = [pytest.mark.browser, pytest.mark.timeout(90 + 8 * STORM_S)]  # on a loaded machine each run of a storm takes its time
ROW_UNDER_POINTER = "(at) => document.elementFromPoint(...at)?.closest('[data-row]')?.id"


def start(world: World, number: int, agent: str = "refunds") -> str:
    answer = world.api.post("/runs", json={"agent": agent, "title": f"Refund {number}", "input": {}})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["ref"])


def tops(page: Page) -> list[float]:
    return list(page.evaluate("[...document.querySelectorAll('[data-row]')].map((row) => row.getBoundingClientRect().top)"))


@pytest.mark.parametrize("width", [1280, 360])
def test_rows_stand_still_while_new_runs_arrive(world: World, sign_in: SignIn, width: int) -> None:
    refs = [start(world, number) for number in range(9)]
    page = sign_in(viewport={"width": width, "height": 900})
    expect(page.locator("#conn")).to_have_text("Live")
    row = page.locator("[data-row]").nth(6)
    row.scroll_into_view_if_needed()
    row.locator("[data-row-link]").hover()
    box = row.locator("[data-row-link]").bounding_box()
    assert box
    at, row_id, before = [box["x"] + 5, box["y"] + 5], row.get_attribute("id"), tops(page)
    for number in range(STORM_S * RATE_HZ):
        start(world, number)
        page.wait_for_timeout(1000 / RATE_HZ)
        assert page.evaluate(ROW_UNDER_POINTER, at) == row_id and tops(page) == before, "a row moved under the pointer"
    pill = page.locator("[data-new] button")
    expect(pill).to_have_text(f"{STORM_S * RATE_HZ} new runs — show")
    assert tops(page) == before
    world.api.post(f"/runs/{refs[0]}/cancellation", json={"mode": "cancel"}).raise_for_status()  # the last row: it changes in its place
    expect(page.locator("[data-row]", has_text=refs[0])).to_contain_text("Cancelled")
    assert tops(page)[:7] == before[:7]
    page.keyboard.press("n")
    expect(page.locator("[data-row]")).to_have_count(min(50, 9 + STORM_S * RATE_HZ))  # a page holds fifty
    expect(pill).to_be_hidden()
    expect(page.locator("[data-row-link]").first).to_be_focused()


def test_back_is_where_one_was(world: World, sign_in: SignIn) -> None:
    for number in range(60):
        start(world, number, "refunds" if number % 15 else "other")
    page = sign_in(viewport={"width": 1280, "height": 700})
    page.click("#runs-filters summary")
    page.select_option("#f-agent", "refunds")
    page.click("#runs-filters button[type=submit]")
    page.locator(".pager a", has_text=re.compile("^25$")).click()
    page.click("[rel=next]")
    page.wait_for_url(re.compile(r"cursor="))
    address = page.url
    assert "agent=refunds" in address and "size=25" in address
    link = page.locator("[data-row-link]").nth(20)
    ref = link.inner_text()
    link.scroll_into_view_if_needed()
    link.focus()
    scrolled = page.evaluate("scrollY")
    assert scrolled > 0
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{ref}/")
    expect(page.locator("#run-head")).to_contain_text(ref)
    page.go_back()
    expect(page).to_have_url(address)
    expect(page.locator("[data-row-link]").nth(20)).to_be_focused()
    expect(page.locator("[data-row-link]").nth(20)).to_have_text(ref)
    assert page.evaluate("scrollY") == scrolled
    expect(page.locator("[aria-label='Remove filter agent refunds']")).to_be_visible()
