"""A mail is sent once, and when nobody can tell whether it was, a person is asked at once: never a second mail, whatever restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests import platform
from tests.console.browsing import text
from tests.flows.driver import SHORT_LEASE_S, Flow, Host, Json, until
from tests.flows.test_life import PROGRAM, create
from tests.mailserver import Kept, MailServer
from tests.proxy import Proxy
from tests.world import SERVERS

TO = "ada@example.com"


@pytest.fixture
def server(flow: Flow) -> Iterator[MailServer]:
    """A mail server whose mails are held against what is on record, by the operation in their Message-ID."""
    with MailServer() as made:
        flow.executions.append(lambda: [_executed(kept) for kept in made.mails])
        yield made


def _executed(kept: Kept) -> Json:
    return {"operation_id": kept.message["Message-ID"].split(".")[1].partition("@")[0], "attempt": None, "executed": True}


def mailing(flow: Flow, at: MailServer | Proxy, *points: str, lease_s: float = SHORT_LEASE_S) -> Host:
    """A worker host whose mails go to that server, or to the proxy before it."""
    told = json.dumps(platform.MAIL | {"port": at.port, "timeout_s": 5})
    return flow.host(*points, program=PROGRAM, lease_s=lease_s, FLOWS_MAIL=told)


def requested(flow: Flow, order: str, to: str = TO) -> str:
    """A run that tells `to` of `order` by mail; returns its reference."""
    return create(flow, "mails", {"order": order, "to": to}, business_ref=order)


def in_the_queue(flow: Flow, run: str) -> Json:
    """The run's one case, once it is there."""
    (case,) = until(lambda: flow.cases(run), f"a case of {run}")
    assert (case["kind"], flow.effect(run)["state"], flow.run(run)["status"]) == ("no_lookup", "ambiguous", "awaiting_evidence")
    return dict(case)


def subjects(server: MailServer) -> list[str]:
    return [kept.message["Subject"] for kept in server.mails]


def test_a_mail_that_is_taken_tells_the_requester(flow: Flow, server: MailServer) -> None:
    mailing(flow, server)
    run = requested(flow, "PO-1")
    ended = flow.wait_status(run, "completed")
    effect = flow.effect(run)
    (kept,) = server.mails
    assert kept.message["Message-ID"] == ended["result"]["mail"] == effect["external_id"]
    assert effect["operation_id"] in effect["external_id"] and "PO-1" in effect["external_id"]
    assert (effect["state"], effect["attempts"], effect["evidence"][0]["source"]) == ("landed", 1, "sender")


def test_a_refused_recipient_is_a_definite_no(flow: Flow, server: MailServer) -> None:
    server.replies[TO] = "550 5.1.1 no such user"
    mailing(flow, server)
    run = requested(flow, "PO-2")
    flow.wait_status(run, "failed")
    effect = flow.effect(run)
    assert effect["state"] == "refused" and "no such user" in json.dumps(effect["response"])
    assert server.mails == [] and flow.cases(run) == []
    corrected = requested(flow, "PO-2", "bob@example.com")
    flow.wait_status(corrected, "completed")
    assert [kept.recipients for kept in server.mails] == [["bob@example.com"]], "a refusal lets the reference go"


@pytest.mark.timeout(300)  # it starts two hosts and Celery twice, on a machine that may be busy
def test_a_mail_stored_and_the_connection_dropped_is_never_sent_again(flow: Flow, server: MailServer) -> None:
    server.drop_at = "after_store"
    host = mailing(flow, server)
    run = requested(flow, "PO-3")
    case = in_the_queue(flow, run)
    (kept,) = server.mails
    assert kept.message["Message-ID"] in text(flow.support.get(f"/cases/{case['ref']}/")), "what to search the server's log for"
    assert flow.effect(run)["looks"] == 0
    flow.shaken.update(SERVERS)
    for order in ("PO-3b", "PO-3c"):  # each of them has its case from a sweep that went over the first one too
        host.kill_all()
        for name in ("celery", "beat"):
            flow.world.kill(name)
            flow.world.start(name)
        host = mailing(flow, server)
        in_the_queue(flow, requested(flow, order))
    server.drop_at = None
    requested_again = requested(flow, "PO-3")
    flow.wait_status(requested_again, "awaiting_evidence")
    assert sorted(subjects(server)) == [f"Order {order} is placed" for order in ("PO-3", "PO-3b", "PO-3c")]
    assert flow.effect(run)["attempts"] == 1 and [one["ref"] for one in flow.cases(run)] == [case["ref"]]

    # Two people: it leaves the queue, both runs are told, and the action stays held.
    settlement = {"verdict": "cannot_be_known", "evidence": {"notes": "The mail server keeps no log."}}
    found = flow.support.post(f"/api/v1/cases/{case['ref']}/settlement", json=settlement)
    assert (found.status_code, found.json()["outcome"]) == (200, "awaiting_second"), found.text
    alone = flow.support.post(f"/api/v1/cases/{case['ref']}/confirmation", json={"agree": True})
    assert (alone.status_code, alone.json()["code"]) == (409, "same_person")
    second = flow.person("support2").post(f"/api/v1/cases/{case['ref']}/confirmation", json={"agree": True})
    assert second.status_code == 200 and second.json()["state"] == "settled", second.text
    for one in (run, requested_again):
        assert flow.wait_status(one, "completed", "completed_unresolved")["result"] == {"mail": "nobody knows"}
    effect = flow.effect(run)
    assert (effect["state"], effect["unknowable"], flow.run(run)["unknowable"]) == ("ambiguous", True, 1)
    assert flow.cases(run) == [] and flow.run(run)["status"] == "completed_unresolved"
    third = requested(flow, "PO-3")
    assert flow.wait_status(third, "completed")["result"] == {"mail": "nobody knows"}
    assert subjects(server).count("Order PO-3 is placed") == 1


def test_a_worker_killed_after_the_mail_was_taken_and_before_it_said_so(flow: Flow, server: MailServer) -> None:
    host = mailing(flow, server, "mailed")
    run = requested(flow, "PO-4")
    host.stands_at("mailed")
    host.kill_all()
    mailing(flow, server)
    in_the_queue(flow, run)
    assert subjects(server) == ["Order PO-4 is placed"] and flow.effect(run)["attempts"] == 1


@pytest.mark.parametrize(("mode", "what", "kept"), [("drop_request", "END", 0), ("lose_response", "END", 1)])
def test_whether_or_not_it_was_stored_a_lost_answer_looks_the_same(flow: Flow, server: MailServer, mode: str, what: str, kept: int) -> None:
    before = flow.proxy(server.url)
    before.arm(mode, what)  # type: ignore[arg-type]
    mailing(flow, before)
    run = requested(flow, "PO-5")
    in_the_queue(flow, run)
    assert len(server.mails) == kept and len(before.asked("END")) == 1


def test_a_connection_lost_before_the_mail_ended_has_sent_nothing(flow: Flow, server: MailServer) -> None:
    before = flow.proxy(server.url)
    before.arm("lose_response", "DATA")
    mailing(flow, before)
    run = requested(flow, "PO-6")
    flow.wait_status(run, "failed")
    assert flow.effect(run)["state"] in ("declared", "withheld", "absent") and flow.cases(run) == [] and server.mails == []
    again = requested(flow, "PO-6")
    flow.wait_status(again, "completed")
    assert subjects(server) == ["Order PO-6 is placed"]
