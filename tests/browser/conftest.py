"""People with a real browser on the running system. A page that logs an error, or breaks its content security policy, fails its test."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from console.embedded.bootstrap import BROWSERS
from tests.platform import HOME
from tests.world import World

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENSHOTS = HOME / "screenshots"
WAIT_MS = 20_000  # less than the minute after which a page repairs itself: what was lost must not look as if it had come
# The browser notes every answer that is no success, and a server that is not there; those are under test.
NOT_OURS = re.compile(
    r"status of (4\d\d|503)|ERR_(CONNECTION_(REFUSED|RESET)|EMPTY_RESPONSE)|/ws/ui/' failed|htmx:error: (timeout|Failed to fetch)"
)

OpenPage = Callable[..., Page]
SignIn = Callable[..., Page]


@pytest.fixture
def chromium(world: World) -> Iterator[Browser]:
    """A browser that is gone again before the database is emptied: Playwright keeps an event loop in this thread while it runs."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert path, "No Chromium here. On Debian: apt-get install chromium"
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    expect.set_options(timeout=WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Browser) -> Iterator[OpenPage]:
    """Opens an empty page that is listened to; options are those of a browser context."""
    complaints: list[str] = []

    def note(message: ConsoleMessage) -> None:
        if message.type == "error" and not NOT_OURS.search(message.text):
            complaints.append(f"{message.location['url']}: {message.text}")

    def make(**options: Any) -> Page:
        page = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options}).new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("console", note)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    yield make
    assert not complaints


@pytest.fixture
def sign_in(world: World, open_page: OpenPage) -> SignIn:
    """Opens a page signed in as one of the people, by the log-in page itself; options are those of a browser context."""

    def make(name: str = "support", **options: Any) -> Page:
        page = open_page(**options)
        page.goto(f"{world.url}/accounts/login/")
        page.fill("#id_login", name)
        page.fill("#id_password", world.people[name]["password"])
        page.click("button[type=submit]")
        page.wait_for_url(f"{world.url}/runs/")
        return page

    return make
