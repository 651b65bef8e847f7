"""What stopping, claiming and waiting ask of the ledger."""

from __future__ import annotations

import pytest

from ledger.models import Effect
from ledger.runbook import RunBook
from runs import book, leases, waiting
from tests.makers import WORKER, claim, fresh, let_time_pass, new_run, send, tell

pytestmark = pytest.mark.usefixtures("counters")


def test_the_ledger_provides_the_book():
    assert isinstance(book.book(), RunBook)


def test_whoever_takes_over_is_told_of_every_effect():
    run, token = new_run()
    tell(send(run, token, ref="a"), "landed")
    tell(send(run, token, ref="b", ordinal=1), "refused")
    leases.release(WORKER, run.pk, token)
    run, _ = claim("w-2")
    told = {line["business_ref"]: line["state"] for line in book.book().effects_of(run)}
    assert told == {"a": "landed", "b": "refused"}


def test_until_when_an_attempt_may_still_act():
    run, token = new_run(ttl_s=600)
    ledger = book.book()
    assert ledger.may_act_until(run) is None
    first = send(run, token, ref="a", answer_within_s=60)
    second = send(run, token, ref="b", ordinal=1, answer_within_s=90)
    assert ledger.may_act_until(run) == second.attempt.answer_by
    tell(second, "unknown")
    assert ledger.may_act_until(run) == first.attempt.answer_by
    let_time_pass(61)
    assert ledger.may_act_until(run) is None


@pytest.mark.parametrize(
    ("verdict", "open_"), [(None, True), ("unknown", True), ("pending", True), ("landed", False), ("refused", False), ("not_sent", False)]
)
def test_whether_a_step_is_open(verdict, open_):
    run, token = new_run()
    sent = send(run, token)
    if verdict:
        tell(sent, verdict)
    assert book.book().step_open(run, "order") is open_
    assert book.book().step_open(run, "other") is False


def test_an_old_epochs_stop_leaves_the_new_epochs_sending_alone():
    """The first worker's effect is still in doubt when a second one sends another; the first is then reaped."""
    run, token = new_run("w-1")
    first = send(run, token, ref="a")
    tell(first, "unknown")
    waiting.suspend(WORKER, run.pk, token, "operation", operation_id=send(*new_run("w-9"), ref="z").effect.pk)
    tell(Effect.objects.get(business_ref="z"), "landed")
    waiting.wake_due()
    run, second_token = claim("w-2")
    second = send(run, second_token, ref="b", ordinal=1)
    leases.stopped(WORKER, run.pk, token)
    leases.gone(WORKER, "w-1", "killed")
    assert Effect.objects.get(pk=second.effect.pk).state == "sending"
    assert fresh(run).in_flight == 1
