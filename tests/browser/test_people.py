"""Proving again who one is, and looking after people, in a real browser."""

from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from allauth.account.authentication import AUTHENTICATION_METHODS_SESSION_KEY
from django.contrib.sessions.backends.db import SessionStore
from django.db import connection
from playwright.sync_api import Page, expect

from tests.browser.conftest import SignIn
from tests.browser.test_dashboard import photograph
from tests.world import World

pytestmark = pytest.mark.browser


def let_the_log_in_grow_old(page: Page) -> None:
    """As if this person had signed in an hour ago."""
    key = next(cookie["value"] for cookie in page.context.cookies() if cookie["name"] == "sessionid")

    def age() -> None:
        session = SessionStore(key)
        session[AUTHENTICATION_METHODS_SESSION_KEY] = [{"method": "password", "at": time.time() - 3600}]
        session.save()
        connection.close()

    with ThreadPoolExecutor(1) as one:  # the browser's own loop runs in this thread, where Django refuses to ask the database
        one.submit(age).result()


def test_an_old_log_in_is_proved_again_and_what_was_typed_is_there(world: World, sign_in: SignIn) -> None:
    run = world.api.post("/runs", json={"agent": "nobody", "title": "Order"}).json()
    page = sign_in()
    let_the_log_in_grow_old(page)
    page.goto(f"{world.url}/runs/{run['ref']}/")
    page.click("#run-head summary")
    page.click("#run-head [href$='/terminate']")
    page.fill("#terminate-reason", "It hangs")
    page.fill("#terminate-typed", run["ref"])
    page.click("#terminate-go")
    page.wait_for_url(re.compile("/accounts/reauthenticate/"))
    expect(page.locator("h1")).to_contain_text("Is it still you, ")
    photograph(page, "prove-again")
    page.fill("#id_password", world.people["support"]["password"])
    page.click("button[type=submit]")
    page.wait_for_url(f"{world.url}/runs/{run['ref']}/terminate")
    expect(page.locator("main")).to_contain_text("Nothing was done yet: look once more, then send it again.")
    expect(page.locator("#terminate-reason")).to_have_value("It hangs")
    page.fill("#terminate-typed", run["ref"])
    page.click("#terminate-go")
    page.goto(f"{world.url}/runs/{run['ref']}/")
    expect(page.locator("#run-head .chip-big")).to_have_text("Terminated")


def test_an_administrator_adds_a_person_who_sees_times_in_their_own_zone(world: World, sign_in: SignIn) -> None:
    world.api.post("/runs", json={"agent": "nobody", "title": "Order"}).raise_for_status()
    admin = sign_in("admin")
    admin.click("[data-nav=settings]")
    admin.get_by_role("link", name="People").click()
    photograph(admin, "people")
    admin.click("#person-new")
    admin.fill("#first-name", "Ines")
    admin.fill("#last-name", "Support")
    admin.fill("#username", "ines")
    admin.check("#group-Support")
    admin.click("#person-add")
    link = admin.locator("#password-link").inner_text()
    photograph(admin, "person-added")
    admin.goto(f"{world.url}/settings/machines/new")
    admin.fill("#machine-name", "refunds")
    admin.check("#scope-1")
    admin.fill("#machine-agents", "refund")
    admin.click("#machine-add")
    assert admin.locator("#token").inner_text().startswith("cm_")
    photograph(admin, "machine-added")

    assert admin.context.browser is not None
    page = admin.context.browser.new_context().new_page()
    page.goto(link)
    page.fill("#id_password1", "correct horse battery")
    page.fill("#id_password2", "correct horse battery")
    page.click("button[type=submit]")
    page.click("text=Sign in")
    page.fill("#id_login", "ines")
    page.fill("#id_password", "correct horse battery")
    page.click("button[type=submit]")
    page.wait_for_url(f"{world.url}/runs/")
    expect(page.locator("#conn")).to_have_text("Live")
    page.goto(f"{world.url}/profile/")
    page.select_option("#time-zone", "Asia/Tokyo")
    page.uncheck("#shortcuts")
    page.click("#profile-save")
    expect(page.locator("main")).to_contain_text("Kept, for every browser that you sign in with.")
    expect(page.get_by_title("Times are shown in this zone")).to_have_text("GMT+9")
    photograph(page, "profile")
    page.goto(f"{world.url}/runs/")
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page).to_have_url(f"{world.url}/runs/")
    page.click("#user-menu summary")
    page.select_option("#zone-choice", "UTC")
    expect(page.get_by_title("Times are shown in this zone")).to_have_text("UTC")
