"""Support, approver and auditor do their whole job on a small screen with nothing but a keyboard."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import OpenPage
from tests.browser.house import furnish
from tests.browser.keyboard import Keyboard
from tests.world import World

pytestmark = pytest.mark.browser

SMALL: dict[str, Any] = {"viewport": {"width": 360, "height": 780}, "reduced_motion": "reduce"}
STATIC = Path(__file__).resolve().parents[2] / "static"


@pytest.fixture
def house(world: World) -> dict[str, Any]:
    world.stop("beat")  # nothing settles itself meanwhile
    return furnish()


def sign_in(page: Page, world: World, name: str) -> Keyboard:
    """By the log-in page itself, typed."""
    keyboard = Keyboard(page)
    page.goto(f"{world.url}/accounts/login/")
    assert keyboard.has_focus("#id_login")
    keyboard.type(name)
    keyboard.press("Tab")
    keyboard.type(world.people[name]["password"])
    keyboard.press("Enter")
    page.wait_for_url(f"{world.url}/runs/")
    return keyboard


def dialog_is_shut(page: Page) -> None:
    expect(page.locator("#dialogs dialog")).to_have_count(0)


def test_support_stops_a_run_and_settles_a_case(world: World, house: dict[str, Any], open_page: OpenPage) -> None:
    page = open_page(**SMALL)
    keys = sign_in(page, world, "support")
    keys.press("/")
    assert keys.has_focus("#find-q")
    keys.type("C-4711")
    keys.press("Enter")
    page.wait_for_url(f"**/runs/{house['running']}/")
    head = page.locator("#run-head")
    expect(page.locator("#conn")).to_have_text("Live")

    keys.tab_to("[data-cancel]")
    keys.press("Enter")
    expect(page.locator("#dialog-title")).to_be_focused()
    keys.press("Enter", "Escape")
    dialog_is_shut(page)
    expect(head.locator("[data-cancel]")).to_be_focused()  # focus comes back, and Enter on the question did nothing
    expect(head.locator(".chip-big")).to_contain_text("Writing")
    keys.press("c")
    expect(page.locator("#dialog-title")).to_be_focused()
    keys.tab_to("#cancel-reason")
    keys.type("Ordered twice")
    keys.tab_to("#cancel-keep")
    keys.press("Enter")
    dialog_is_shut(page)
    expect(head.locator(".chip-big")).to_contain_text("Writing")
    keys.press("c")
    expect(page.locator("#dialog-title")).to_be_focused()
    keys.go("#cancel-go")
    dialog_is_shut(page)
    expect(head.locator(".chip-big")).to_have_text("Cancelling")
    expect(page.locator("#run-title")).to_be_focused()  # what opened the question is gone
    expect(page.locator("#announcer")).to_contain_text("Cancelling")

    keys.press("e")
    page.wait_for_url("**/cases/")
    keys.press("j")
    assert keys.has_focus("[data-row-link]")
    keys.seen()
    keys.press("Enter")
    page.wait_for_url(re.compile(r"/cases/Q-\w+/$"))
    keys.press("m")
    expect(page.locator("#case-head")).to_contain_text("You claimed this.")
    keys.tab_to("[name=verdict]")
    keys.press("Space")
    expect(page.locator("#verdict-happened")).to_be_checked()
    keys.tab_to("#finding-external")
    keys.type("SO-8")
    keys.tab_to("#finding-where")
    keys.press("ArrowDown")
    keys.tab_to("#finding-when")
    keys.type("01022026")
    keys.press("Tab")
    keys.type("101112AM")
    keys.go("#finding-save")
    expect(page.locator("#case-head")).to_contain_text("Settled by Support")


def test_an_approver_decides(world: World, house: dict[str, Any], open_page: OpenPage) -> None:
    page = open_page(**SMALL)
    keys = sign_in(page, world, "approver")
    keys.press("g", "a")
    page.wait_for_url("**/approvals/")
    keys.go(f"#approve-{house['approval']}")
    expect(page.locator("#dialog-title")).to_be_focused()
    keys.press("Enter", "Escape")
    dialog_is_shut(page)
    expect(page.locator(f"#approve-{house['approval']}")).to_be_focused()
    keys.press("Enter")
    expect(page.locator("#dialog-title")).to_be_focused()
    keys.go("#decide-go")
    expect(page.locator("main")).to_contain_text(f"Approved. {house['waiting']} goes on with exactly this action.")

    keys.tab_to("[id^=undo-reject-]")
    keys.press("Enter")
    expect(page.locator("#dialog-title")).to_be_focused()
    keys.tab_to("#dialog-body textarea")
    keys.type("It was ordered once")
    keys.press("Enter")
    expect(page.locator("#dialog-title")).to_be_visible()  # Enter writes a new line and sends nothing
    keys.tab_to("#dialog-body .btn-stop-main")
    keys.press("Enter")
    expect(page.locator("#approvals-list")).to_contain_text("Nothing waits for a decision.")


def test_an_auditor_reads_the_story_and_takes_it_along(world: World, house: dict[str, Any], open_page: OpenPage) -> None:
    page = open_page(**SMALL, accept_downloads=True)
    keys = sign_in(page, world, "auditor")
    keys.press("g", "u")
    page.wait_for_url("**/audit/")
    keys.tab_to("#a-run")
    keys.type(house["stopped"])
    keys.press("Enter")
    page.wait_for_url(f"**run={house['stopped']}**")
    keys.go(f"a[href='/audit/runs/{house['stopped']}/']")
    page.wait_for_url(f"**/audit/runs/{house['stopped']}/")
    expect(page.locator("main")).to_contain_text("The customer withdrew the order")
    keys.go(f"a[href='/audit/?run={house['stopped']}']")
    page.wait_for_url(f"**run={house['stopped']}**")
    keys.go("#audit-export")
    page.wait_for_url("**/audit/export**")
    keys.tab_to("#export-csv")
    with page.expect_download() as taken:
        keys.press("Enter")
    assert house["stopped"] in taken.value.path().read_text("utf-8")


def test_the_keys_are_listed_and_can_be_switched_off(world: World, house: dict[str, Any], open_page: OpenPage) -> None:
    page = open_page()
    keys = sign_in(page, world, "support")
    keys.press("?")
    expect(page.locator("#dialog-title")).to_be_focused()
    listed = set(page.locator("#dialog-body kbd").all_inner_texts())
    script = (STATIC / "app.js").read_text("utf-8")
    table = re.search(r"const keys = \{(.*?)\n  \};", script, re.S)
    places = re.search(r"const places = \{(.*?)\};", script)
    assert table and places
    known = set(re.findall(r'[\s,]"?([a-z/?])"?: ', table[1])) | set(re.findall(r"(\w): ", places[1])) | {"g"}
    assert {"/", "j", "k", "x", "c", "n", "p", "e", "m", "t", "y", "g"} <= known
    assert known - {"?"} <= listed, "every key is listed"
    keys.press("Escape")
    dialog_is_shut(page)

    page.goto(f"{world.url}/runs/{house['bare']}/")
    keys.tab_to("#user-menu summary")
    keys.press("Enter")
    keys.tab_to("#keys-choice")
    keys.press("Space", "Escape")
    assert keys.has_focus("#user-menu summary")
    keys.press("c", "?", "p")
    dialog_is_shut(page)
    expect(page.locator("#conn")).to_have_text("Live")


def test_focus_and_what_is_typed_survive_what_arrives(world: World, house: dict[str, Any], open_page: OpenPage) -> None:
    claim = {"holder": "host-9:1:abc", "ttl_s": 60}
    made = world.api.post("/runs", json={"agent": "nobody", "title": "Order 5 pipes", "claim": claim}).json()
    ref, lease = made["run"]["ref"], made["lease"]["token"]

    def happens(key: str) -> None:
        world.api.post(f"/runs/{ref}/steps", json={"lease": lease, "key": key, "kind": "tool"}).raise_for_status()

    page = open_page()
    keys = sign_in(page, world, "support")
    row = page.locator("[data-row]", has_text=ref)
    expect(page.locator("#conn")).to_have_text("Live")
    keys.press("j")
    link = row.locator("[data-row-link]")
    expect(link).to_be_focused()
    before = row.get_attribute("data-version")
    happens("one")
    expect(row).not_to_have_attribute("data-version", before or "")
    expect(link).to_be_focused()

    keys.press("Enter")
    page.wait_for_url(f"**/runs/{ref}/")
    expect(page.locator("#conn")).to_have_text("Live")
    keys.press("c")
    keys.tab_to("#cancel-reason")
    keys.type("half a sen")
    happens("two")
    expect(page.locator("#timeline-items")).to_contain_text("two")
    keys.type("tence")
    expect(page.locator("#cancel-reason")).to_have_value("half a sentence")
    expect(page.locator("#cancel-reason")).to_be_focused()
