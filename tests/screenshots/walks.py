"""What each of the demo's people does and sees, by pressing what they would press. Each walk stands alone."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.screenshots.camera import Camera, ref_of

CHIP = "#run-head .chip-big"
LONG_MS = 240_000  # looks on the provider's own schedule


def start(eye: Camera, page: Page, situation: str) -> str:
    """Starts a situation of the practice page; the page is then that of its run."""
    page.goto(f"{eye.url}/demo/")
    page.click(f"#start-{situation}")
    page.wait_for_url(re.compile(r"/runs/R-\w+/$"))
    return ref_of(page)


def cancel(page: Page, reason: str) -> None:
    page.click("#run-head [data-cancel]")
    page.fill("#cancel-reason", reason)
    page.click("#cancel-go")
    expect(page.locator("#dialogs dialog")).to_have_count(0)


def release(eye: Camera, page: Page) -> None:
    """Lets the supplier go on, as the practice page does."""
    other = page.context.new_page()
    other.goto(f"{eye.url}/demo/")
    other.click("#release")
    other.wait_for_load_state()
    other.close()


def front_door(eye: Camera) -> None:
    page = eye.visitor()
    page.goto(f"{eye.url}/runs/")
    eye.take(page, "sign-in")
    page = eye.person("support")
    page.goto(f"{eye.url}/demo/")
    eye.take(page, "practice")
    page.goto(f"{eye.url}/runs/R-0000000000/")
    eye.take(page, "not-found")


def in_flight(eye: Camera) -> None:
    page = eye.person("support")
    start(eye, page, "in_flight")
    expect(page.locator(CHIP)).to_have_text("Writing — 1 in flight")
    eye.take(page, "run-writing")
    page.click("#run-head [data-cancel]")
    expect(page.locator("#dialog-body")).to_contain_text("1 action in flight")
    eye.take(page, "cancel-dialog", guide="#dialogs dialog")
    page.fill("#cancel-reason", "The customer withdrew the order")
    page.click("#cancel-go")
    expect(page.locator("#run-effects")).to_contain_text("It can't be called back.")
    eye.take(page, "run-cancelling", guide="screen")
    release(eye, page)
    expect(page.locator(CHIP)).to_have_text("Cancelled")
    expect(page.locator("#run-account")).to_contain_text("version")
    eye.take(page, "run-cancelled", guide="screen")
    eye.detail(page, "run-picture", "#run-picture")


def before_send(eye: Camera) -> None:
    page = eye.person("support")
    start(eye, page, "before_send")
    expect(page.locator("#run-doing")).to_contain_text("Wait before ordering")
    eye.take(page, "run-waiting")
    page.locator("#run-head details.menu summary").click()
    page.click("#run-head [href$='/terminate']")
    expect(page.locator("#dialogs dialog")).to_be_visible()
    eye.take(page, "terminate-dialog")
    page.keyboard.press("Escape")
    cancel(page, "Wrong supplier")
    expect(page.locator(CHIP)).to_have_text("Cancelled")
    eye.take(page, "run-cancelled-before")


def unknown(eye: Camera) -> None:
    """An answer that is lost while the supplier answers no questions: unknown, then a case, then a finding."""
    page = eye.person("support")
    ref = start(eye, page, "looks_down")
    expect(page.locator("#run-effects")).to_contain_text("We don't know yet.")
    cancel(page, "It takes too long")
    expect(page.locator(CHIP)).to_have_text("Cancelled — effects pending")
    eye.take(page, "run-unknown", guide="#run-effects")
    page.click("[id^=early-case-]")
    page.fill("#case-open-why", "The supplier rang us about it.")
    eye.take(page, "case-open-dialog")
    page.click("#case-open-go")
    page.wait_for_url(re.compile("/cases/Q-"))
    page.goto(f"{eye.url}/cases/")
    eye.take(page, "cases", guide="screen")
    page.click("[data-row-link]")
    page.click("#case-claim")
    page.check("#verdict-happened")
    eye.take(page, "case", guide="screen")
    page.goto(f"{eye.url}/cases/providers")
    eye.take(page, "providers")
    page.goto(f"{eye.url}/runs/{ref}/")
    expect(page.locator("#run-effects")).to_contain_text("Landed", timeout=LONG_MS)
    eye.take(page, "run-found")


def endings(eye: Camera) -> None:
    page = eye.person("support")
    start(eye, page, "refused")
    expect(page.locator(CHIP)).to_have_text("Failed")
    eye.take(page, "run-failed")
    start(eye, page, "answer_lost")
    expect(page.locator(CHIP)).to_have_text("Completed — reconciled", timeout=LONG_MS)
    eye.take(page, "run-completed")
    page.locator("#run-effects a", has_text="Ask for it to be undone").click()
    expect(page.locator("#undo-form")).to_be_visible()
    page.select_option("#undo-reason", "not_wanted")
    page.fill("#undo-note", "The customer withdrew the order.")
    eye.take(page, "undo-dialog", guide="#dialogs dialog")
    page.click("#undo-go")
    expect(page.locator("#run-effects")).to_contain_text("Undo waiting for approval")
    expect(page.locator("#dialogs dialog")).to_have_count(0)
    eye.take(page, "run-undo-asked")


def approver(eye: Camera) -> None:
    asker = eye.person("support")
    start(eye, asker, "plain")
    expect(asker.locator(CHIP)).to_have_text("Completed")
    asker.locator("#run-effects a", has_text="Ask for it to be undone").click()
    asker.select_option("#undo-reason", "duplicate")
    asker.click("#undo-go")
    expect(asker.locator("#run-effects")).to_contain_text("Undo waiting for approval")
    start(eye, asker, "needs_approval")
    expect(asker.locator(CHIP)).to_have_text("Awaiting approval")
    eye.take(asker, "run-awaiting-approval")

    page, other = eye.person("approver"), eye.person("approver2")
    page.goto(f"{eye.url}/approvals/")
    eye.take(page, "approvals", guide="screen")
    page.get_by_role("link", name=re.compile("^Approve €6,106")).click()
    eye.take(page, "approve-dialog", guide="#dialogs dialog")
    page.click("#decide-back")
    page.locator("[id^=undo-approve-]").first.click()
    eye.take(page, "approve-undo-dialog")
    page.click("#undo-back")
    other.goto(f"{eye.url}/approvals/")
    other.get_by_role("link", name=re.compile("^Approve €6,106")).click()
    other.click("#decide-go")
    expect(page.locator(".card.is-unmatched")).to_contain_text("Approved by Ben Approver")
    eye.take(page, "approvals-decided", guide="screen")
    page.locator("[id^=undo-approve-]").first.click()
    page.click("#undo-go")
    page.wait_for_url(f"{eye.url}/approvals/")
    page.goto(f"{eye.url}/approvals/?tab=decided")
    eye.take(page, "approvals-lately")
    asker.goto(f"{eye.url}/approvals/?tab=asked")
    expect(asker.locator("#approvals-list")).to_contain_text("Undone.", timeout=LONG_MS)
    eye.take(asker, "approvals-asked")


def auditor(eye: Camera) -> None:
    page = eye.person("auditor")
    eye.take(page, "runs")
    page.goto(f"{eye.url}/runs/?status=cancelled")
    ref = page.locator("[data-row-link]").last.inner_text()  # the first that was cancelled, with its order in flight
    page.goto(f"{eye.url}/audit/")
    eye.take(page, "audit", guide="screen")
    page.goto(f"{eye.url}/audit/runs/{ref}/")
    eye.take(page, "audit-run", guide="screen")
    page.goto(f"{eye.url}/audit/export?kind=cancel")
    eye.take(page, "audit-export")
    page.goto(f"{eye.url}/metrics/")
    eye.take(page, "metrics")


def everywhere(eye: Camera) -> None:
    page = eye.person("support")
    page.locator("[data-help]").click()
    eye.take(page, "help-dialog")
    page.keyboard.press("Escape")
    for name, path in (("search", "/search/?q=PO-"), ("profile", "/profile/"), ("rules-read", "/settings/undo-rules/")):
        page.goto(f"{eye.url}{path}")
        eye.take(page, name)
    page.goto(f"{eye.url}/runs/?status=scheduled&status=cancelling")
    page.locator("#runs-filters summary").click()
    eye.take(page, "runs-filtered")


def bulk(eye: Camera) -> None:
    page = eye.person("support")
    page.goto(f"{eye.url}/demo/")
    page.fill("#orders-first", "6")
    page.click("#orders-start")
    page.wait_for_url(re.compile("/runs/"))
    start(eye, page, "before_send")
    page.goto(f"{eye.url}/runs/")
    page.locator("input[name=run]").first.check()
    page.click("#bulk-picked")
    eye.take(page, "bulk-dialog")
    page.fill("#bulk-reason", "The supplier is closed today")
    page.click("#bulk-go")
    page.wait_for_url(re.compile(r"/bulk/"))
    expect(page.locator("#bulk-bar")).to_have_count(0)
    eye.take(page, "bulk-progress")


def administrator(eye: Camera) -> None:
    page = eye.person("admin")
    for name, path in (
        ("settings", "/settings/"), ("people", "/settings/people/"), ("person-new", "/settings/people/new"),
        ("machines", "/settings/machines/"), ("machine-new", "/settings/machines/new"), ("rules", "/settings/undo-rules/"),
        ("notifications", "/settings/notifications/"), ("notification-new", "/settings/notifications/new"),
    ):  # fmt: skip
        page.goto(f"{eye.url}{path}")
        eye.take(page, name)


WALKS: dict[str, Callable[[Camera], None]] = {
    walk.__name__.replace("_", "-"): walk
    for walk in (front_door, in_flight, before_send, unknown, endings, approver, bulk, everywhere, auditor, administrator)
}
