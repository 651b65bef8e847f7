"""A page left open sees what happens, through a real web process and a real socket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from asgiref.sync import sync_to_async
from websockets.exceptions import InvalidStatus

from console import people, signing_in
from ledger import compensations
from ledger.models import Compensation
from reconciliation import cases
from reconciliation.models import Case
from runs import actors, approvals
from runs.approvals import Question
from runs.models import Approval
from tests import makers, platform
from tests import undo as undoing
from tests.live.browser import Page, list_of, row, some_id
from tests.live.conftest import Site, person

do = sync_to_async  # the domain's verbs, in the test's own thread


def three_runs() -> list[tuple[Any, str]]:
    return [makers.new_run() for _ in range(3)]


async def test_a_page_left_open_sees_a_run_start_act_and_stop(site: Site):
    made, token = await do(makers.new_run)()
    session = await do(site.sign_in)()
    async with (
        Page(site.url, session, list="runs", rows=await do(list_of)([made])) as listed,
        Page(site.url, session, run=row(made)) as shown,
    ):
        await listed.synced()
        await shown.synced()
        assert {"run-head", "run-account", "run-effects"} <= set(shown.html)
        await do(makers.send)(made, token)
        await listed.until(lambda: "in flight" in listed.html.get(f"row-{row(made)}", ""))
        await shown.until(lambda: "PO-1042" in shown.html["run-effects"])
        await do(makers.cancel)(made)
        await listed.until(lambda: "Cancelling" in listed.html[f"row-{row(made)}"])
        await shown.until(lambda: "Sam Support" in shown.html["run-head"])
        last = (await do(makers.fresh)(made)).version
        await shown.until(lambda: shown.seq == last and shown.version == last)
        pushed = str([*listed.html.values(), *shown.html.values()])
        assert "csrf" not in pushed and "data-cancel" not in pushed, "a push is the same for everyone"


async def test_a_killed_socket_is_right_again_within_two_seconds(site: Site):
    runs = await do(three_runs)()
    session = await do(site.sign_in)()
    async with Page(site.url, session, list="runs", rows=await do(list_of)(run for run, _ in runs)) as page:
        await page.synced()
        page.socket.transport.abort()
        for run, _ in runs:
            await do(makers.cancel)(run)
        began = time.monotonic()
        await page.connect()
        await page.synced(2)
        assert time.monotonic() - began < 2
        assert page.rows == await do(list_of)(run for run, _ in runs)
        assert all("Cancelling" in page.html[f"row-{row(run)}"] for run, _ in runs)


async def test_an_event_that_commits_late_still_arrives(site: Site):
    """The older transaction commits after the newer one was seen by everybody, and after the page was compared."""
    (older, _), (newer, _) = await do(makers.new_run)(), await do(makers.new_run)()
    session = await do(site.sign_in)()
    async with await psycopg.AsyncConnection.connect(platform.APP_URL) as held:
        await held.execute("UPDATE runs_run SET version = version + 1, title = 'Told late' WHERE id = %s", (older.pk,))
        await held.execute(
            "INSERT INTO runs_event (run_id, seq, kind, subject, actor_type, actor_id, actor_name, channel, data)"
            " SELECT id, version, 'step.started', 'x', 'system', 't', 't', '', '{}' FROM runs_run WHERE id = %s",
            (older.pk,),
        )
        await do(makers.cancel)(newer)
        async with Page(site.url, session, list="runs", rows=await do(list_of)([older, newer])) as page:
            await page.synced()
            assert "Told late" not in str(page.html)
            await held.commit()
            await page.until(lambda: "Told late" in page.html.get(f"row-{row(older)}", ""))


async def test_rows_that_no_longer_match_are_marked_and_new_runs_are_counted(site: Site):
    made, _ = await do(makers.new_run)()
    mark = await do(newest_mark)()
    session = await do(site.sign_in)()
    async with Page(site.url, session, list="runs?status=running", newest=mark, rows=await do(list_of)([made])) as page:
        await page.synced()
        assert [frame["count"] for frame in page.frames if frame["type"] == "new"] == [0]
        await do(makers.new_run)()
        await do(makers.new_run)(holder="")
        await do(makers.cancel)(made)
        await page.until(lambda: page.matches.get(row(made)) is False)
        await page.until(lambda: [frame["count"] for frame in page.frames if frame["type"] == "new"][-1] == 1)
        await page.until(lambda: page.count("counts") > 1)
        counts = [frame for frame in page.frames if frame["type"] == "counts"][-1]
        assert counts["runs"]["cancelling"] == 1 and counts["runs"]["running"] == 1
        assert counts["nav"]["cases"] == 0


def newest_mark() -> str:
    from runs import listing
    from runs.listing import Wanted

    return listing.newest_mark(listing.page(makers.SUPPORT, Wanted(), None, 50))


async def test_a_long_timeline_arrives_whole_and_in_order(site: Site):
    made, token = await do(makers.new_run)()
    await do(lambda: [makers.step(made, token, f"step {n}") for n in range(250)])()
    async with Page(site.url, await do(site.sign_in)(), run=row(made)) as page:
        await page.synced()
        assert page.seq == (await do(makers.fresh)(made)).version
        assert [f"tl-{n}" in page.html for n in range(1, page.seq + 1)] == [True] * page.seq


async def test_a_parent_page_sees_its_child_change(site: Site):
    parent, token = await do(makers.new_run)()
    child, _ = await do(makers.child_of)(parent, token, holder="w-3")
    version = (await do(makers.fresh)(parent)).version
    async with Page(site.url, await do(site.sign_in)(), run=row(parent), version=version, seq=version) as page:
        await page.synced()
        await do(makers.step)(child, await do(lease_of)(child))
        await do(makers.cancel)(child)
        await page.until(lambda: "Cancelling" in page.html.get("run-children", ""))


def lease_of(run: Any) -> str:
    return makers.fresh(run).lease_token or ""


async def test_a_case_that_is_opened_claimed_and_settled_is_seen_on_its_pages(site: Site, fake: Any):
    fake.promise(lookup="none")
    case = await do(ask_a_person)()
    case_id, session = str(case.pk), await do(site.sign_in)()
    listed = Page(site.url, session, list="cases?tab=unclaimed", rows={case_id: case.version})
    async with listed, Page(site.url, session, list=f"cases?id={case_id}") as shown:
        await listed.synced()
        await shown.synced()
        assert "claimed this" not in shown.html["case-head"]
        await do(cases.claim)(makers.SUPPORT, case.pk)
        await listed.until(lambda: "Sam Support" in listed.html.get(f"row-{case_id}", ""))
        assert listed.matches[case_id] is False, "it is no longer unclaimed"
        await shown.until(lambda: "Sam Support claimed this" in shown.html["case-head"])
        await do(makers.settle)(case, "happened")
        await shown.until(lambda: "Sam Support" in shown.html["case-known"])


def ask_a_person() -> Case:
    """A provider that cannot be asked, and a worker that went silent."""
    made, token = makers.new_run()
    makers.send(made, token, provider="fake")
    makers.let_time_pass(31)
    makers.sweep()
    (case,) = makers.open_cases()
    return case


async def test_an_inbox_left_open_sees_decisions_and_counts_what_is_new(site: Site, refunding: Any):
    approval, undo = await do(ask_approvers)()
    rows = await do(cards)()
    session = await do(site.sign_in)("approver")
    async with Page(site.url, session, list="approvals?tab=to_decide", rows=rows) as page:
        await page.synced()
        assert not page.html and last_new(page) == 0
        later, _ = await do(ask_approvers)("PO-2")
        await page.until(lambda: last_new(page) == 2)
        await do(approvals.decide)(makers.APPROVER, approval.pk, "approved", "", approval.digest)
        await page.until(lambda: "Approved by " in page.html.get(f"row-{approval.pk}", ""))
        assert page.matches[str(approval.pk)] is False and last_new(page) == 2
        await do(compensations.decide)(makers.APPROVER, undo.pk, "rejected", undo.version, "It was right")
        await page.until(lambda: "Rejected by " in page.html.get(f"row-{undo.pk}", ""))
        assert page.matches[str(undo.pk)] is False
        pushed = str(page.html)
        assert "csrf" not in pushed and "/approve" not in pushed and "someone else must" not in pushed, "a push is the same for everyone"
        page.rows = await do(cards)()  # it shows what is new
        await page.watch()
        await page.synced()
        assert last_new(page) == 0
        await do(makers.cancel)(later.run)
        await page.until(lambda: "Withdrawn" in page.html.get(f"row-{later.pk}", ""))


def last_new(page: Page) -> int:
    return [int(frame["count"]) for frame in page.frames if frame["type"] == "new"][-1]


def ask_approvers(ref: str = "PO-1") -> tuple[Approval, Compensation]:
    """A run that asks, and a person who asks for an undo."""
    run, token = makers.new_run()
    approval, _ = approvals.request(makers.WORKER, run.pk, token, Question("ask", "Order 12 pumps?"))
    approval.run = run
    return approval, undoing.ask(undoing.landed(ref)[1])


def cards() -> dict[str, int]:
    """The cards of an inbox opened now, with their versions."""
    found = [*Approval.objects.filter(state="requested"), *Compensation.objects.filter(state="requested")]
    return {str(one.pk): one.run.version for one in found}


async def test_beats_carry_the_position_and_the_lag(site: Site):
    async with Page(site.url, await do(site.sign_in)()) as page:
        await page.synced()
        beat = next(frame for frame in page.frames if frame["type"] == "beat")
        assert beat["lag_s"] < 5 and beat["at"].endswith("Z") and beat["position"]


async def test_a_tail_that_lags_is_said(site: Site):
    async with await psycopg.AsyncConnection.connect(platform.OWNER_URL) as held:
        await held.execute("SELECT pg_current_xact_id()")
        async with Page(site.url, await do(site.sign_in)()) as page:
            await page.until(lambda: any(frame["type"] == "beat" and frame["lag_s"] > 5 for frame in page.frames), 9)
            await held.commit()
            await page.until(lambda: page.frames[-1]["type"] == "beat" and page.frames[-1]["lag_s"] < 5, 3)


# Who may look


async def test_a_stranger_is_told_4401(site: Site):
    for session in ("", "no-such-session"):
        page = Page(site.url, session)
        await page.connect()
        assert await page.closed() == 4401


async def test_somebody_of_no_group_is_told_4403(site: Site):
    session = await do(site.sign_in)("auditor")
    await do(people.set_groups)(actors.system("test"), await do(person)("auditor"), [])
    page = Page(site.url, session)
    await page.connect()
    assert await page.closed() == 4403


async def test_another_site_is_refused(site: Site):
    session = await do(site.sign_in)()
    for origin in ("http://evil.example", "http://127.0.0.1:1", "null", ""):
        with pytest.raises(InvalidStatus) as refused:
            await Page(site.url, session, origin=origin).connect()
        assert refused.value.response.status_code == 403
    with pytest.raises(InvalidStatus):
        page = Page(site.url, session)
        page._socket_url = page._socket_url.replace("/ws/ui/", "/ws/other/")
        await page.connect()


@pytest.mark.parametrize("change", ["signed out", "deactivated", "left the group", "new password"])
async def test_losing_the_right_to_look_ends_it_before_anything_more_is_shown(site: Site, change: str):
    made, _ = await do(makers.new_run)()
    with site.browser("support") as client:
        async with Page(site.url, client.cookies["sessionid"], list="runs", rows=await do(list_of)([made])) as page:
            await page.synced()
            admin, support = actors.system("test"), await do(person)("support")
            match change:
                case "signed out":
                    form = {"csrfmiddlewaretoken": client.cookies["csrftoken"]}
                    answer = await asyncio.to_thread(client.post, "/accounts/logout/", data=form, headers={"Referer": site.url})
                    assert answer.status_code == 302
                case "deactivated":
                    await do(people.set_active)(admin, support, False)
                case "left the group":
                    await do(people.set_groups)(admin, support, [])
                case "new password":
                    await do(signing_in.ClosedSignup().set_password)(support, "another long password")
            await do(makers.cancel)(made)
            assert await page.closed(30) == (4403 if change == "left the group" else 4401)
            assert not page.count("fragments"), "nothing that happened afterwards was shown"


async def test_somebody_elses_sign_out_disturbs_nobody(site: Site):
    made, _ = await do(makers.new_run)()
    async with Page(site.url, await do(site.sign_in)("auditor"), list="runs", rows=await do(list_of)([made])) as page:
        await page.synced()
        await do(people.set_active)(actors.system("test"), await do(person)("support"), False)
        await do(makers.cancel)(made)
        await page.until(lambda: "Cancelling" in page.html.get(f"row-{row(made)}", ""))


# What a stranger may send


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        '{"type":"other"}',
        '{"type":"watch","rows":[1]}',
        '{"type":"watch","rows":{"x":1}}',
        '{"type":"watch","run":"x"}',
        '{"type":"watch","run":7}',
        '{"type":"watch","seq":-1}',
        '{"type":"watch","seq":1e300}',
        '{"type":"watch","version":true}',
        '{"type":"watch","list":["runs"]}',
        '{"type":"watch","newest":"\\u0000"}',
        "[" * 60_000,
        " " * 70_000,
    ],
)
async def test_what_is_no_watch_closes_the_socket(site: Site, text: str):
    page = Page(site.url, await do(site.sign_in)())
    await page.connect(watch=False)
    await page.socket.send(text)
    assert await page.closed() in (1007, 1009)


async def test_unknown_ids_and_lists_are_ignored(site: Site):
    async with Page(site.url, await do(site.sign_in)(), list="other?x=1", newest="x", run=some_id(), rows={some_id(): 1}) as page:
        await page.synced()
        page.list = "runs?status=nonsense&started_from=never"
        await page.watch()
        await page.synced()


@pytest.fixture(autouse=True)
async def _web_process_stays_clean(site: Site) -> AsyncIterator[None]:
    yield
    log = site.running.log("web").read_text("utf-8", "replace")
    assert "Traceback" not in log, log[-3000:]


async def test_a_look_that_moves_nothing_is_seen_by_a_page_that_asks_again(site: Site, fake: Any):
    """No event tells of it, so no push does; when its time is over the page sends what it shows once more."""
    run, token = await do(makers.new_run)()
    sent = await do(makers.send)(run, token, provider="fake")
    await do(makers.tell)(sent, "unknown")
    async with Page(site.url, await do(site.sign_in)(), run=row(run)) as page:
        await page.synced()
        first, version = page.html["run-effects"], page.version
        assert (await do(makers.look)(3600))[0] in ("empty", "unreachable")
        assert (await do(makers.fresh)(run)).version == version
        await page.watch()
        await page.until(lambda: page.html["run-effects"] != first)
