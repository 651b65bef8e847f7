"""Which events are told, in which words, and that none is missed or told twice."""

from __future__ import annotations

import json
import threading

import psycopg
import pytest
from django.db import connection, transaction

from console.notifications import following, states
from console.notifications.models import Cursor, Delivery, Message
from ledger.models import Effect
from ledger.providers.base import Answer
from reconciliation import health, integrity
from runs import actors, approvals, transition
from tests import platform, undo
from tests.fakes import FAKE
from tests.makers import WORKER, cancel, new_run, open_cases, send, sweep, tell

HOSTILE = "<script>alert(1)</script> jane@example.com"


def told(kind: str) -> list[Message]:
    return list(Message.objects.filter(kind=kind).order_by("event_id"))


def test_a_case_is_told_with_its_reference_version_and_link(hook, fake, settings):
    settings.PUBLIC_URL = "https://cm.example.com"
    fake.promise(lookup="none")
    run, token = new_run(title=HOSTILE, business_ref=HOSTILE, agent="agent-secret")
    tell(send(run, token, provider=FAKE, ref=HOSTILE), "unknown")
    hook()
    sweep()
    assert following.follow() == 1
    message, case = told(states.NEEDS_PERSON)[0], open_cases()[0]
    data = message.body["data"]
    assert message.body["type"] == "needs_person"
    assert data["reference"] == case.ref and data["version"] == case.version and data["run"] == run.ref
    assert data["url"] == f"https://cm.example.com/cases/{case.ref}/"
    assert data["says"] == "A person must find out: this provider can't be asked."
    spread = json.dumps(message.body)
    assert not any(words in spread for words in ("script", "jane", "agent-secret", "125"))


def test_landing_after_the_cancel_is_told_and_before_it_is_not(hook):
    hook()
    run, token = new_run()
    early, late = send(run, token, ref="PO-1"), send(run, token, ref="PO-2", step="two")
    tell(early, "landed")
    cancel(run)
    tell(late, "landed", external_id="S-2")
    following.follow()
    message = told(states.LANDED_AFTER_CANCEL)
    assert [one.reference for one in message] == [late.effect.ref]
    assert message[0].body["data"]["version"] == Effect.objects.get(pk=late.effect.pk).version
    assert Delivery.objects.filter(message=message[0]).count() == 1


def test_a_question_to_an_approver_is_told(hook):
    hook()
    run, token = new_run()
    approvals.request(WORKER, run.pk, token, approvals.Question(key="ok", question=HOSTILE))
    following.follow()
    assert [one.reference for one in told(states.NEEDS_APPROVAL)] == [run.ref]


def test_a_provider_that_is_down_is_told_once(hook):
    hook()
    for _ in range(5):
        health.not_reached("supplier", "connection refused", denied=False)
    following.follow()
    assert [one.reference for one in told(states.PROVIDER_DOWN)] == ["supplier"]


def test_records_that_disagree_are_told(hook, owner_connection):
    hook()
    run, _ = new_run()
    owner_connection.execute("UPDATE runs_run SET landed = 7 WHERE id = %s", (run.pk,))
    integrity.check([run.pk])
    following.follow()
    one = told(states.RECORDS_DISAGREE)[0]
    assert one.reference == integrity.open_ones()[0].ref and one.body["data"]["run"] == run.ref


def test_only_those_who_chose_the_kind_are_told(hook):
    hook(states.PROVIDER_DOWN, name="Ops")
    hook(states.NEEDS_PERSON, name="Support")
    health.not_reached("supplier", "401", denied=True)
    following.follow()
    assert [one.endpoint.name for one in Delivery.objects.select_related("endpoint")] == ["Ops"]


def test_nothing_is_told_twice_when_the_log_is_followed_again(hook):
    hook()
    health.not_reached("supplier", "401", denied=True)
    assert [following.follow() for _ in range(3)] == [1, 0, 0]


def test_what_happened_before_anybody_followed_is_not_told(database):
    health.not_reached("supplier", "401", denied=True)
    assert following.follow() == 0 and following.follow() == 0


def test_an_event_that_commits_late_is_not_missed(hook):
    """Its number is lower than that of an event which was read before it committed."""
    hook()
    slow = psycopg.connect(platform.APP_URL)
    with slow:
        slow.execute(
            "INSERT INTO runs_event (kind, subject, actor_type, actor_id, actor_name, channel, data)"
            " VALUES ('provider.down', 'slow', 'system', 'x', 'x', '', '{}')"
        )
        health.not_reached("supplier", "401", denied=True)
        assert following.follow() == 0, "nothing above an open transaction is read"
    slow.close()
    following.follow()
    assert sorted(one.reference for one in told(states.PROVIDER_DOWN)) == ["slow", "supplier"]


def test_two_followers_take_turns(hook):
    hook()
    health.not_reached("supplier", "401", denied=True)
    with psycopg.connect(platform.APP_URL) as other:
        other.execute("SELECT 1 FROM notifications_cursor FOR UPDATE")
        assert following.follow() == 0
    made: list[int] = []

    def follow() -> None:
        made.append(following.follow())
        connection.close()

    threads = [threading.Thread(target=follow) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(made) == 1 == Message.objects.count()


def test_more_than_a_batch_is_followed_in_one_go(hook, monkeypatch):
    monkeypatch.setattr(following, "BATCH", 3)
    hook()
    for name in "abcdefg":
        health.not_reached(name, "401", denied=True)
    assert following.follow() == 7


def test_a_cursor_ahead_of_the_database_starts_anew(hook, caplog):
    hook()
    Cursor.objects.update(tx=2**62)
    assert following.follow() == 0 and "starts anew" in caplog.text
    health.not_reached("supplier", "401", denied=True)
    assert following.follow() == 1


@pytest.mark.parametrize(
    ("state", "said"), [("refused", "still in effect"), ("absent", "still in effect"), ("reversed", "in effect again")]
)
def test_an_undo_that_failed_is_told(hook, state, said):
    hook()
    run, _ = new_run()
    with transaction.atomic(durable=True):
        locked = transition.lock(run.pk)
        data = {"version": 3, "state": state, "message": HOSTILE}
        transition.record(locked, "compensation.failed", actors.system("sweep"), subject="C-7K2M9Q4TXA", data=data)
    following.follow()
    (message,) = told(states.UNDO_FAILED)
    assert message.body["data"] | {"reference": "C-7K2M9Q4TXA", "version": 3, "run": run.ref, "about": state} == message.body["data"]
    assert said in message.body["data"]["says"] and "script" not in json.dumps(message.body)


def test_an_undo_that_was_asked_for_is_told_to_approvers(hook, refunding):
    hook(states.NEEDS_APPROVAL)
    run, effect = undo.landed()
    request = undo.ask(effect, 4250)
    following.follow()
    (message,) = told(states.NEEDS_APPROVAL)
    data = message.body["data"]
    assert (data["reference"], data["version"], data["run"], data["about"]) == (request.ref, 1, run.ref, "undo")
    assert "4250" not in json.dumps(message.body)


def test_a_refund_that_is_refused_is_told_and_one_that_works_is_not(hook, refunding):
    hook()
    _, effect = undo.landed("PO-1")
    undo.undo(effect)
    refunding.undo_answer = lambda send: Answer("refused", detail="card closed")
    _, other = undo.landed("PO-2")
    failed = undo.undo(other)
    following.follow()
    assert [one.reference for one in told(states.UNDO_FAILED)] == [failed.ref]
