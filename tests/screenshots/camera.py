"""People in a browser, and pictures of what they see: light and dark, wide and narrow; chosen ones also for the guide."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, expect, sync_playwright

from console.embedded.bootstrap import BROWSERS

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync"]
SIZES = {"wide": (1280, 900), "narrow": (360, 780)}
SCHEMES = ("light", "dark")
GUIDE_WIDTH = 1280
ZONE = "Europe/London"
WAIT_MS = 30_000


@dataclass
class Camera:
    """Takes pictures into `folder`; those that are asked for by the guide also into `guide`, when there is one."""

    browser: Browser
    url: str
    people: dict[str, dict[str, str]]
    folder: Path
    guide: Path | None
    taken: list[Path] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def visitor(self) -> Page:
        """A page of somebody who has not signed in."""
        page = self.browser.new_context(timezone_id=ZONE, locale="en-GB", reduced_motion="reduce").new_page()
        page.set_default_timeout(WAIT_MS)
        return page

    def person(self, name: str) -> Page:
        """A page of one of the demo's people, signed in."""
        page = self.visitor()
        page.goto(f"{self.url}/accounts/login/")
        page.fill("#id_login", name)
        page.fill("#id_password", self.people[name]["password"])
        page.click("button[type=submit]")
        page.wait_for_url(f"{self.url}/runs/")
        return page

    def take(self, page: Page, name: str, guide: str = "") -> None:
        """The page in every size and scheme, or as much of it as a dialog leaves to see. `guide`: the part (a selector, or `screen`) that
        the guide shows."""
        settled(page)
        whole = not page.locator("#dialogs dialog[open]").count()
        if guide and self.guide:
            self._for_the_guide(page, name, guide)
        for size, (width, height) in SIZES.items():
            page.set_viewport_size({"width": width, "height": height})
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                self._shoot(page, self.folder / f"{name}-{size}-{scheme}.png", full_page=whole)
            if (sideways := page.evaluate("document.scrollingElement.scrollWidth - innerWidth")) > 0:
                self.faults.append(f"{name} is {sideways} px wider than a screen of {width} px")
        page.set_viewport_size({"width": SIZES["wide"][0], "height": SIZES["wide"][1]})
        page.emulate_media(color_scheme="light")

    def detail(self, page: Page, name: str, part: str) -> None:
        """Only a part of a page, and only for the guide."""
        if self.guide:
            self._for_the_guide(page, name, part)

    def _for_the_guide(self, page: Page, name: str, part: str) -> None:
        assert self.guide is not None
        page.set_viewport_size({"width": GUIDE_WIDTH, "height": 760})
        page.emulate_media(color_scheme="light")
        path = self.guide / f"{name}.png"
        if part == "screen":
            self._shoot(page, path)
        else:
            page.locator(part).first.screenshot(path=path, animations="disabled", caret="hide")
            self.taken.append(path)

    def _shoot(self, page: Page, path: Path, **options: Any) -> None:
        page.screenshot(path=path, animations="disabled", caret="hide", **options)
        self.taken.append(path)


def settled(page: Page) -> None:
    """The top of a page whose content is complete: a live one has been compared with the database."""
    if page.locator("body[data-live]").count():
        expect(page.locator("#conn")).to_have_text("Live", timeout=WAIT_MS)
    expect(page.locator("a[aria-busy=true], button[aria-busy=true]")).to_have_count(0)  # its dialog is on its way
    page.wait_for_load_state("networkidle")  # buttons follow what was pushed
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_function("document.fonts.status === 'loaded'")


def ref_of(page: Page) -> str:
    """The reference of the run whose page this is."""
    found = re.search(r"/runs/(R-\w+)/", page.url)
    assert found, page.url
    return found[1]


@contextmanager
def opened(url: str, people: dict[str, dict[str, str]], folder: Path, guide: Path | None) -> Iterator[Camera]:
    """A camera with a browser of its own."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise SystemExit("No Chromium here. On Debian: apt-get install chromium")
    expect.set_options(timeout=WAIT_MS)
    folder.mkdir(parents=True, exist_ok=True)
    if guide is not None:
        guide.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield Camera(browser, url, people, folder, guide)
        browser.close()
