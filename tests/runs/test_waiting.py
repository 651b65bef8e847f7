"""Waiting is a condition: checked under the lock when it is stored, and woken by what is, not by what was said."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from runs import cancellation, leases, transition, waiting
from runs.models import Run
from tests.makers import (
    WORKER,
    cancel,
    child_of,
    claim,
    fresh,
    let_time_pass,
    new_run,
    refused,
    send,
    tell,
)
from tests.races.conftest import contenders  # noqa: F401
from tests.races.line import RUN

pytestmark = pytest.mark.usefixtures("counters")


def suspend(run, token, until="evidence", **values):
    return waiting.suspend(WORKER, run.pk, token, until, **values)


def unknown(holder="w-1", **values):
    run, token = new_run(holder)
    sent = send(run, token, **values)
    tell(sent, "unknown")
    return run, token, sent


def test_until_its_own_effects_are_known():
    run, token, sent = unknown()
    assert suspend(run, token).state == "awaiting_evidence"
    assert fresh(run).lease_token is None
    assert leases.claim(WORKER, "w-2", ["purchase-order"]) is None
    tell(sent, "landed")
    assert (fresh(run).state, fresh(run).waits_for) == ("scheduled", None)
    assert claim()[0].pk == run.pk


def test_what_is_met_already_is_scheduled_at_once():
    run, token, sent = unknown()
    tell(sent, "landed")
    assert suspend(run, token).state == "scheduled"


@pytest.mark.parametrize("suspend_first", [True, False])
def test_no_wake_up_is_lost_when_the_outcome_comes_at_the_same_moment(contenders, suspend_first):  # noqa: F811
    run, token, sent = unknown()
    acts = [lambda: suspend(run, token), lambda: tell(sent, "landed")]
    contenders.race(RUN, (run.pk,), *(acts if suspend_first else reversed(acts)))
    assert (fresh(run).state, fresh(run).waits_for) == ("scheduled", None)


def test_nothing_in_flight_is_left_behind():
    run, token = new_run()
    send(run, token)
    with refused("effects_in_flight"):
        suspend(run, token)
    assert fresh(run).lease_token == token


def test_until_another_runs_operation_is_known():
    holder, holder_token, sent = unknown("w-1")
    run, token = new_run("w-2")
    with refused("in_doubt") as told:
        send(run, token)
    op = uuid.UUID(told.value.facts["operation_id"])
    assert suspend(run, token, "operation", operation_id=op).state == "awaiting_evidence"
    assert waiting.wake_due() == 0
    tell(sent, "refused")
    assert waiting.wake_due() == 1
    assert fresh(run).state == "scheduled"
    run, token = claim("w-3")
    assert send(run, token).kind == "sending"


@pytest.mark.parametrize("suspend_first", [True, False])
def test_nor_when_the_other_runs_outcome_comes_at_the_same_moment(contenders, suspend_first):  # noqa: F811
    _, _, sent = unknown("w-1")
    run, token = new_run("w-2")
    if not suspend_first:
        tell(sent, "landed")
    suspend(run, token, "operation", operation_id=sent.effect.pk)
    if suspend_first:
        contenders.race(RUN, (sent.effect.run_id,), lambda: tell(sent, "landed"))
    waiting.wake_due()
    assert fresh(run).state == "scheduled"


def test_until_a_time():
    run, token = new_run()
    assert suspend(run, token, "time", wake_at=transition.clock() + timedelta(seconds=60)).state == "scheduled"
    assert leases.claim(WORKER, "w-2", ["purchase-order"]) is None, "not claimable until it is met"
    assert waiting.wake_due() == 0
    let_time_pass(61)
    # The stored condition is JSON and stands still while the columns move, so the time is one that has passed in both.
    assert Run.objects.get(pk=run.pk).wake_at < transition.clock()


def test_a_time_that_has_passed_is_met():
    run, token = new_run()
    suspend(run, token, "time", wake_at=transition.clock() - timedelta(seconds=1))
    assert claim("w-2")[0].pk == run.pk


def test_a_time_that_comes_is_met():
    run, token = new_run()
    suspend(run, token, "time", wake_at=transition.clock() + timedelta(milliseconds=300))
    until = transition.clock() + timedelta(seconds=10)
    while not waiting.wake_due():
        assert transition.clock() < until
    assert claim("w-2")[0].pk == run.pk


def test_until_a_child_is_closed():
    run, token = new_run()
    child, _ = child_of(run, token)
    assert suspend(run, token, "child", child=child.pk).state == "scheduled"
    assert waiting.wake_due() == 0
    cancel(child)
    assert waiting.wake_due() == 1
    taken, _ = claim("w-2")
    assert taken.pk == run.pk


@pytest.mark.parametrize(
    "values",
    [
        {"until": "tomorrow"},
        {"until": "operation"},
        {"until": "time"},
        {"until": "child"},
        {"until": "child", "child": uuid.uuid4()},
    ],
)
def test_a_condition_that_can_never_be_met_is_refused(values):
    run, token = new_run()
    with pytest.raises(Exception, match="needs|must be|No effect"):
        suspend(run, token, **values)
    assert fresh(run).lease_token == token


def test_those_that_wait_long_do_not_keep_the_others_asleep():
    """More runs than one sweep looks at wait for an operation that nobody knows; the one behind them is woken all the same."""
    _, _, never = unknown("w-0", ref="PO-NEVER")
    for n in range(6):
        run, token = new_run(f"w-{n}")
        suspend(run, token, "operation", operation_id=never.effect.pk)
    _, _, sent = unknown("w-9", ref="PO-9")
    run, token = new_run("w-8")
    suspend(run, token, "operation", operation_id=sent.effect.pk)
    tell(sent, "landed")
    waiting.wake_due(limit=3)
    assert fresh(run).state == "scheduled"


def test_a_cancelled_run_is_not_woken():
    run, token, sent = unknown()
    suspend(run, token)
    cancel(run)
    tell(sent, "landed")
    assert waiting.wake_due() == 0
    assert fresh(run).state == "cancelled"


def test_suspending_stops_the_sender():
    run, token, sent = unknown()
    suspend(run, token)
    receipt = cancel(run).request.receipt
    assert receipt["in_flight"] == []
    assert cancellation.accepted(fresh(run), "cancel").receipt == receipt
