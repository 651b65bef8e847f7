"""The same act twice, from one hand or from two: it is done once, and whoever came second is told."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import SignIn
from tests.browser.house import disagreement
from tests.world import World

pytestmark = pytest.mark.browser


def held(world: World) -> tuple[str, str]:
    """A run that a worker holds, and its lease."""
    claim = {"holder": "host-9:1:abc", "ttl_s": 120}
    made = world.api.post("/runs", json={"agent": "nobody", "title": "Order 5 pipes", "claim": claim}).json()
    return made["run"]["ref"], made["lease"]["token"]


def send(world: World, ref: str, lease: str) -> None:
    """An order of the run goes out now."""
    world.api.post(f"/runs/{ref}/steps", json={"lease": lease, "key": "order", "kind": "tool"}).raise_for_status()
    order = {
        "lease": lease, "nonce": uuid.uuid4().hex, "step": "order", "ordinal": 1, "provider": "supplier", "action": "create_order",
        "business_ref": f"PO-{ref}", "amount": 12500, "currency": "EUR", "request": {"lines": [1]},
    }  # fmt: skip
    world.api.post(f"/runs/{ref}/effects", json=order).raise_for_status()


def kinds(world: World, ref: str) -> Counter[str]:
    events: list[dict[str, Any]] = world.api.get(f"/runs/{ref}/events").json()["results"]
    return Counter(event["kind"] for event in events)


def test_a_double_click_and_a_second_tab_cancel_once(world: World, sign_in: SignIn) -> None:
    ref, _ = held(world)
    page = sign_in()
    page.goto(f"{world.url}/runs/{ref}/")
    second = page.context.new_page()
    second.goto(f"{world.url}/runs/{ref}/cancel")
    page.click("#run-head [data-cancel]")
    page.dblclick("#cancel-go")
    expect(page.locator("#dialogs dialog")).to_have_count(0)
    expect(page.locator(".chip-big")).to_have_text("Cancelling")
    assert kinds(world, ref)["cancel.accepted"] == 1

    second.fill("#cancel-reason", "from the other tab")
    second.click("#cancel-go")
    expect(second.locator("main")).to_contain_text("Your click changed nothing.")
    assert kinds(world, ref)["cancel.accepted"] == 1
    expect(page.locator(".chip-big")).to_have_text("Cancelling")


def test_a_click_shows_at_once_while_its_question_is_on_the_way(world: World, sign_in: SignIn) -> None:
    ref, _ = held(world)
    page = sign_in()
    on_the_way: list[Route] = []
    page.route("**/cancel", lambda route: on_the_way.append(route))  # Playwright cannot wrap a method of a list
    for path, asks in ((f"/runs/{ref}/", "#run-head [data-cancel]"), ("/runs/?status=running", "[data-row] [data-cancel]")):
        page.goto(f"{world.url}{path}")
        button = page.locator(asks).first
        expect(button).to_have_css("opacity", "1")
        button.click()
        expect(button).to_have_css("opacity", "0.55")
        expect(page.locator("#dialogs dialog")).to_have_count(0)
        on_the_way.pop().continue_()
        expect(page.locator("#dialogs dialog")).to_be_visible()
        expect(button).to_have_css("opacity", "1")


def test_a_termination_on_an_old_question_is_asked_again(world: World, sign_in: SignIn) -> None:
    ref, lease = held(world)
    page = sign_in()
    page.goto(f"{world.url}/runs/{ref}/")
    page.click("#run-head summary")
    page.click("#run-head [href$='/terminate']")
    page.fill("#terminate-reason", "It hangs")
    page.fill("#terminate-typed", ref)
    send(world, ref, lease)
    page.click("#terminate-go")
    problem = page.locator("#dialog-body [data-problem]")
    expect(problem).to_contain_text("Something changed while you were reading.")
    expect(problem).to_be_focused()
    expect(page.locator("#dialog-body mark").first).to_have_text("order started")
    expect(page.locator("#terminate-reason")).to_have_value("It hangs")
    assert not kinds(world, ref)["terminate.accepted"]
    page.fill("#terminate-typed", ref)
    page.click("#terminate-go")
    expect(page.locator(".chip-big")).to_contain_text("Terminated")
    assert kinds(world, ref)["terminate.accepted"] == 1


@pytest.fixture
def case(world: World) -> str:
    return disagreement("PO-9").ref


def test_two_people_on_one_case(world: World, case: str, sign_in: SignIn) -> None:
    first, second = sign_in("support"), sign_in("support2")
    for page in (first, second):
        page.goto(f"{world.url}/cases/{case}/")
        expect(page.locator("#conn")).to_have_text("Live")
    second.keyboard.press("p")  # the second sees nothing new until they act
    expect(second.locator("#conn")).to_have_text("Paused")
    first.click("#case-claim")
    expect(first.locator("#case-head")).to_contain_text(re.compile("(You|Support) claimed this"))  # a push says the name
    second.click("#case-claim")
    expect(second.locator("main")).to_contain_text("Support has claimed")
    expect(second.locator("#case-head")).to_contain_text("Support claimed this.")
    expect(second.locator("#finding-save")).to_have_count(0)

    first.fill("#finding-notes", "on page 2 of their list")
    second.click("#case-take-over")
    expect(second.locator("#dialog-body")).to_contain_text("Support has claimed this and may be writing.")
    expect(second.locator("#take-over-leave")).to_be_focused()
    second.click("#take-over-go")
    expect(second.locator("#case-head")).to_contain_text(re.compile("(You|Support2) claimed this"))
    expect(first.locator("#case-head")).to_contain_text("Support2 claimed this.")  # told without a reload
    expect(first.locator("#finding-notes")).to_have_value("on page 2 of their list")
    first.check("#verdict-happened")
    first.fill("#finding-external", "SO-8")
    first.click("#finding-save")
    expect(first.locator("#finding [data-problem]")).to_contain_text("Support2 has claimed")
    assert world.api.get(f"/cases/{case}").json()["state"] == "claimed"
