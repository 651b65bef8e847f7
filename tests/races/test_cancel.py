"""Cancel against everything that a run does at the same moment: whoever is first in the lock's queue wins, and the other is told so."""

from __future__ import annotations

import pytest

from ledger import intents
from ledger.models import Effect
from runs import cancellation, leases, lifecycle, waiting
from runs.cancellation import Answer
from runs.errors import Cancelled
from runs.models import Event
from tests.makers import (
    SUPPORT,
    WORKER,
    assert_counters,
    cancel,
    child_of,
    fresh,
    intent,
    new_run,
    nonce,
    send,
    step,
    tell,
)
from tests.races.line import KEY, RUN

TIMES = 100


def sendings_after(run, position):
    return Event.objects.filter(run=run, kind="effect.sending", seq__gt=position).count()


def declare(run, token, ref):
    return lambda: intents.declare(WORKER, run.pk, token, nonce(), intent(ref))


def finish(run, token):
    return lambda: lifecycle.finish(WORKER, run.pk, token, "completed", {"done": 1})


def begin_then_cancel(contenders, ref):
    run, token = new_run()
    step(run, token)
    begun, cancelled = contenders.race(RUN, (run.pk,), declare(run, token, ref), lambda: cancel(run))
    assert begun.kind == "sending"
    assert cancelled.kind == "accepted"
    assert [line["operation_id"] for line in cancelled.request.receipt["in_flight"]] == [str(begun.effect.pk)]
    assert begun.attempt.position < cancelled.request.position
    assert sendings_after(run, cancelled.request.position) == 0
    assert fresh(run).status == "cancelling"
    assert_counters(run)


def cancel_then_begin(contenders, ref):
    run, token = new_run()
    step(run, token)
    cancelled, refused = contenders.race(RUN, (run.pk,), lambda: cancel(run), declare(run, token, ref))
    assert cancelled.kind == "accepted"
    assert isinstance(refused, Cancelled)
    assert refused.facts["position"] == cancelled.request.position
    assert cancelled.request.receipt["in_flight"] == []
    assert not Effect.objects.filter(run=run).exists()
    assert sendings_after(run, 0) == 0
    assert fresh(run).refused_after_cancel == 1
    assert_counters(run)


def finish_then_cancel(contenders, ref):
    run, token = new_run()
    finished, late = contenders.race(RUN, (run.pk,), finish(run, token), lambda: cancel(run))
    assert finished.state == "completed"
    assert (late.kind, late.run.state, late.run.result) == ("already_closed", "completed", {"done": 1})
    assert fresh(run).status == "completed"
    assert_counters(run)


def cancel_then_finish(contenders, ref):
    run, token = new_run()
    cancelled, refused = contenders.race(RUN, (run.pk,), lambda: cancel(run), finish(run, token))
    assert cancelled.kind == "accepted"
    assert isinstance(refused, Cancelled)
    assert fresh(run).result is None
    leases.stopped(WORKER, run.pk, token)
    assert fresh(run).status == "cancelled"
    assert_counters(run)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("once", [begin_then_cancel, cancel_then_begin, finish_then_cancel, cancel_then_finish])
def test_exactly_one_wins_and_the_other_is_told_so(contenders, once):
    """A hundred times each; nothing is ever sent after the cancel's position."""
    for number in range(TIMES):
        once(contenders, f"PO-{number}")


def test_two_cancels_one_is_the_first(contenders):
    run, _ = new_run()
    first, second = contenders.race(RUN, (run.pk,), lambda: cancel(run, reason="one"), lambda: cancel(run, reason="two"))
    assert (first.kind, second.kind) == ("accepted", "repeat")
    assert second.request.pk == first.request.pk
    assert second.request.reason == "one"
    assert_counters(run)


@pytest.mark.parametrize("cancel_first", [True, False])
def test_an_outcome_that_arrives_with_the_cancel_is_never_lost(contenders, cancel_first):
    run, token = new_run()
    sent = send(run, token)
    acts = [lambda: cancel(run), lambda: tell(sent, "landed", amount=12500, currency="EUR")]
    answers = contenders.race(RUN, (run.pk,), *(acts if cancel_first else reversed(acts)))
    answer = next(a for a in answers if isinstance(a, Answer))
    assert "applied" in answers
    line = "in_flight" if cancel_first else "landed"
    assert [one["ref"] for one in answer.request.receipt[line]] == [sent.effect.ref]
    assert fresh(run).landed == 1
    assert_counters(run)


@pytest.mark.parametrize("stopped_first", [True, False])
def test_stopped_against_an_outcome(contenders, stopped_first):
    """Either way the outcome is kept, the attempt's sender is known to have stopped, and the run closes."""
    run, token = new_run()
    sent = send(run, token)
    cancel(run)
    acts = [lambda: leases.stopped(WORKER, run.pk, token), lambda: tell(sent, "landed")]
    contenders.race(RUN, (run.pk,), *(acts if stopped_first else reversed(acts)))
    run = fresh(run)
    assert (run.state, run.landed, run.quiet_basis) == ("cancelled", 1, "stopped")
    assert run.status == ("cancelled_reconciled" if stopped_first else "cancelled")
    assert_counters(run)


@pytest.mark.parametrize("cancel_first", [True, False])
def test_cancel_against_suspend(contenders, cancel_first):
    run, token = new_run()
    sent = send(run, token)
    tell(sent, "unknown")
    acts = [lambda: cancel(run), lambda: waiting.suspend(WORKER, run.pk, token, "evidence")]
    answers = contenders.race(RUN, (run.pk,), *(acts if cancel_first else reversed(acts)))
    run = fresh(run)
    assert isinstance(answers[1], Cancelled) == cancel_first
    assert run.waits_for is None
    assert run.state == ("cancelling" if cancel_first else "cancelled")
    assert_counters(run)


@pytest.mark.parametrize("cancel_first", [True, False])
def test_cancel_against_the_start_of_a_child(contenders, cancel_first):
    """A child that was being created is cancelled with its parent; one that comes too late is never created."""
    run, token = new_run()
    acts = [lambda: cancel(run), lambda: child_of(run, token, "w-3")]
    answers = contenders.race(RUN, (run.pk,), *(acts if cancel_first else reversed(acts)))
    if cancel_first:
        assert isinstance(answers[1], Cancelled)
        assert not run.children.exists()
    else:
        child = fresh(answers[0][0])
        assert child.cancel_position is not None
        assert [one["run"] for one in answers[1].request.receipt["children"]] == [child.ref]
    assert_counters()


@pytest.mark.parametrize("cancel_first", [True, False])
def test_create_against_a_cancel_that_may_come_before_it(contenders, cancel_first):
    """The row of the client key decides; either way the run never does a step."""
    contenders.holder.execute("INSERT INTO runs_clientkey (agent, key, cancel_reason) VALUES ('purchase-order', 'k-1', '')")
    contenders.holder.commit()
    acts = [
        lambda: cancellation.cancel_by_key(SUPPORT, "purchase-order", "k-1", "too late"),
        lambda: new_run(client_key="k-1"),
    ]
    answers = contenders.race(KEY, ("purchase-order", "k-1"), *(acts if cancel_first else reversed(acts)))
    run, token = next(fresh(a[0]) and a for a in answers if isinstance(a, tuple))
    run = fresh(run)
    assert run.cancel_position is not None
    assert run.cancel_requests.get(answer="accepted").reason == "too late"
    assert bool(token) != cancel_first
    assert run.state == ("cancelled" if cancel_first else "cancelling")
    assert_counters(run)
