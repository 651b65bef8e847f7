"""Every page and every dialog, in both themes and on a small screen: axe-core finds nothing, the content security policy refuses nothing,
nothing sticks out sideways. A page or dialog that nobody visits fails."""

from __future__ import annotations

import functools
import re
from typing import Any

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import TOTP, generate_totp_secret
from django.conf import settings
from django.contrib.auth.models import User
from django.template.loader import render_to_string
from django.test import Client
from django.urls import resolve
from playwright.sync_api import Page, Route, expect

from tests.browser import axe
from tests.browser.conftest import OpenPage
from tests.browser.house import furnish
from tests.browser.visits import NO_PAGE, VISITS, pages
from tests.signing import prove
from tests.world import World

pytestmark = pytest.mark.browser

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 360, "height": 780}
ERRORS = ("400.html", "429.html", "500.html")  # nothing in a prepared world leads to these
ONLY_PAGES = {"undo/<str:ref>/"}  # it looks like its dialogs and is none
SAMPLES = "/demo/components/"  # each is another dialog
UUID = "0a1b2c3d-0a1b-4c1b-8a1b-0a1b2c3d4e5f"


def route(address: str) -> str:
    return resolve(re.sub(r"\{\w+\}", UUID, address.partition("?")[0])).route


def test_every_page_has_a_visit() -> None:
    visited = {route(address) for _, address in VISITS}
    assert set(pages()) - set(NO_PAGE) == visited, "a page is added to VISITS, what is no page to NO_PAGE"


def test_what_is_no_page_shows_none(database: None) -> None:
    client = Client()
    for one in NO_PAGE:
        if "<" not in one:
            answer = client.get(f"/{one}")
            assert answer.status_code in (301, 302, 401, 403, 404) or "text/html" not in answer.headers["Content-Type"], one


@pytest.fixture
def cookies(world: World) -> dict[str, str]:
    """The session of each of the people, as the log-in page would have made it."""
    second = User.objects.get(username="approver2")
    TOTP.activate(second, generate_totp_secret())
    RecoveryCodes.activate(second)
    made = {}
    for name, username in {"second": "approver2", "support": "", "approver": "", "auditor": "", "admin": ""}.items():
        client = Client()
        client.force_login(User.objects.get(username=username or name), backend="django.contrib.auth.backends.ModelBackend")
        prove(client)
        made[name] = client.cookies[settings.SESSION_COOKIE_NAME].value
    return made


@pytest.fixture
def house(world: World) -> dict[str, Any]:
    """Nothing moves in it while it is looked at: no sweep does."""
    world.stop("beat")
    return furnish()


class Sweep:
    """Goes through the house with axe, and remembers what was found and which dialogs were opened."""

    def __init__(self, page: Page) -> None:
        self.page, self.found = page, []  # type: ignore[var-annotated]
        self.opened: set[str] = set()
        self.clicked: set[str] = set()
        self.bodies: set[str] = set()

    def check(self, where: str) -> None:
        page = self.page
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light", reduced_motion="reduce")
        self.found += axe.violations(page, axe.EVERYTHING, where)
        page.emulate_media(color_scheme="dark", reduced_motion="reduce")
        page.set_viewport_size(NARROW)
        self.found += axe.violations(page, axe.LOOKS, f"{where} (dark, narrow)")
        sideways = page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
        if sideways > 0:
            self.found.append(f"{where} is {sideways} px wider than the screen")
        page.set_viewport_size(WIDE)

    def dialogs(self, where: str) -> None:
        """Opens, as a dialog, everything on this page that was not opened before."""
        links = self.page.locator("a[data-dialog]")
        for href in [one.get_attribute("href") or "" for one in links.all()]:
            kind = href if href.startswith(SAMPLES) else route(href)
            if kind in self.clicked:
                continue
            self.clicked.add(kind)
            self.opened.add(route(href))
            self.page.locator(f'a[data-dialog][href="{href}"]').first.evaluate("(link) => link.click()")
            expect(self.page.locator("#dialogs dialog[open] #dialog-title")).to_be_visible()
            self.check(f"{href} as a dialog on {where}")
            self.page.keyboard.press("Escape")
            expect(self.page.locator("#dialogs dialog")).to_have_count(0)

    def visit(self, address: str, where: str) -> None:
        self.page.goto(where)
        if self.page.locator("#dialog-body").count():
            self.bodies.add(route(address))
        self.check(address)
        self.dialogs(address)


@pytest.mark.timeout(300)
def test_every_page_and_dialog(world: World, cookies: dict[str, str], house: dict[str, Any], open_page: OpenPage) -> None:
    sweeps: dict[str, Sweep] = {}
    for person, address in VISITS:
        if person not in sweeps:
            page = open_page()
            if person in cookies:
                page.context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": cookies[person], "url": world.url}])
            elif person:
                half_way(page, world)
            sweeps[person] = Sweep(page)
        sweeps[person].visit(address, world.url + address.format(**house))
    everybody = sweeps.values()
    broken(sweeps[""], world)
    found = [line for one in everybody for line in one.found]
    assert not found, "\n".join(found)
    pages_too = set().union(*(one.bodies for one in everybody)) - ONLY_PAGES
    assert set().union(*(one.opened for one in everybody)) == pages_too, "every dialog was opened, and is a page too"


def half_way(page: Page, world: World) -> None:
    """A password was given, and the code of the second factor is asked for."""
    page.goto(f"{world.url}/accounts/login/")
    page.fill("#id_login", "approver2")
    page.fill("#id_password", world.people["approver2"]["password"])
    page.click("button[type=submit]")
    page.wait_for_url("**/2fa/authenticate/**")


def _answer(html: str, route: Route) -> None:
    route.fulfill(body=html, content_type="text/html")


def broken(sweep: Sweep, world: World) -> None:
    """The pages of errors that are never meant to be seen, as the server would send them."""
    for name in ERRORS:
        html = render_to_string(name)
        sweep.page.route("**/broken", functools.partial(_answer, html))
        sweep.page.goto(f"{world.url}/broken")
        sweep.check(name)
        sweep.page.unroute("**/broken")
