"""What an auditor puts on paper: the account of a run and its story, on A4, whole and in dark ink on white, whatever the screen shows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.browser.conftest import SCREENSHOTS, SignIn
from tests.browser.house import furnish
from tests.browser.test_looks import SIDEWAYS
from tests.world import World

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

DATED = re.compile(r"\d+ \w+ \d{4} ")
A4 = {"width": 688, "height": 1024}  # CSS pixels between the margins of `@page`
ONLY_ON_SCREEN = "nav, .topbar, .env, .conn, .btn, .copy, [data-jump], #announcer, #dialogs"
SHOWN = """(nodes) => nodes.filter((node) => node.checkVisibility() && node.getBoundingClientRect().height > 1)
  .map((node) => node.outerHTML.slice(0, 120))"""
PALE = """() => [...document.querySelectorAll("main *")].filter((node) => {
    if (!node.checkVisibility() || ![...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim())) return false;
    const [r, g, b] = getComputedStyle(node).color.match(/[\\d.]+/g).map(Number);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b > 130;
  }).map((node) => node.outerHTML.slice(0, 120))"""


def put_on_paper(page: Page, name: str) -> None:
    """The page as the printer sees it, from a dark screen."""
    page.emulate_media(media="print", color_scheme="dark")
    page.set_viewport_size(A4)  # type: ignore[arg-type]
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.screenshot(path=SCREENSHOTS / f"print-{name}.png", full_page=True)


@pytest.fixture
def house(world: World) -> dict[str, Any]:
    world.stop("beat")
    return furnish()


def test_runs_on_paper(world: World, house: dict[str, Any], sign_in: SignIn) -> None:
    found = []
    for who, where in (("support", "/runs/{}/"), ("auditor", "/audit/runs/{}/")):
        page = sign_in(who)
        for kind in ("stopped", "doubtful", "running", "cancelling"):
            page.goto(world.url + where.format(house[kind]))
            put_on_paper(page, f"{who}-{kind}")
            found += [f"{page.url} shows {one}" for one in page.locator(ONLY_ON_SCREEN).evaluate_all(SHOWN)]
            found += [f"{page.url} folds up {one}" for one in page.locator("main details:not([open], .menu)").all_inner_texts()]
            found += [
                f"{page.url} says no day in {one}"
                for one in page.locator("main time:not([data-t=since])").all_inner_texts()
                if not DATED.search(one)
            ]
            found += [f"{page.url} is pale at {one}" for one in page.evaluate(PALE)]
            found += [f"{page.url} is too wide by {one}" for one in [page.evaluate(SIDEWAYS)] if one]
            page.pdf(path=SCREENSHOTS / f"print-{who}-{kind}.pdf", format="A4", prefer_css_page_size=True)
            if page.locator("details[data-printed]").count():
                found.append(f"{page.url} stays unfolded afterwards")
            page.emulate_media(media="screen")
    assert not found, "\n".join(found)
