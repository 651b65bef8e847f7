"""The search box by keyboard, and the pages of figures and notifications in a real browser."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SignIn
from tests.browser.test_dashboard import photograph
from tests.world import World

pytestmark = pytest.mark.browser


def make(world: World, business_ref: str, **more: object) -> str:
    """A run that is scheduled; returns its reference."""
    answer = world.api.post("/runs", json={"agent": "refunds", "title": "Refund", "business_ref": business_ref, "input": {}, **more})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["ref"])


def test_one_finds_a_run_by_keyboard_alone(world: World, sign_in: SignIn) -> None:
    ref = make(world, "PO-77")
    make(world, "PO-771")
    page = sign_in()
    page.keyboard.press("/")
    expect(page.locator("#find-q")).to_be_focused()
    page.keyboard.type("po-")  # a business reference is what it is: small letters find nothing
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("Nothing is called “po-”.")
    page.keyboard.press("/")
    page.locator("#find-q").select_text()
    page.keyboard.type("PO-")
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("Runs whose business reference starts so")
    photograph(page, "search")
    page.keyboard.press("j")
    expect(page.locator("#hit-1-1")).to_be_focused()
    page.locator("#find-q").fill("PO-77")
    page.locator("#find-q").press("Enter")
    page.wait_for_url(re.compile(f"/runs/{ref}/$"))


def test_the_figures_and_the_notifications_fit_on_every_screen(world: World, sign_in: SignIn) -> None:
    ref = make(world, "PO-78")
    page = sign_in("admin")
    assert world.api.post(f"/runs/{ref}/cancellation", json={"mode": "cancel"}).status_code == 202
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.wait_for_url(f"{world.url}/metrics/")
    expect(page.locator("main")).to_contain_text("1 cancelled run, each counted once")
    page.click("#quiet-numbers summary")
    expect(page.locator("#quiet-numbers")).to_contain_text("refunds")
    photograph(page, "metrics")
    page.goto(f"{world.url}/settings/notifications/new")
    page.fill("#endpoint-name", "Night shift")
    page.check("#medium-mail")
    page.fill("#endpoint-target", "night@example.com")
    page.check("#kind-landed_after_cancel")
    page.click("#endpoint-add")
    page.click("#endpoint-test")
    expect(page.locator("#log-title")).to_be_visible()
    photograph(page, "notification-endpoint")
