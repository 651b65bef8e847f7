"""The runtime's own cancel is a recorded hint: handed over, acknowledged, unsupported or failed, and never what a stop depends on."""

from __future__ import annotations

import pytest

from runs import cancellation, leases
from runs.models import Delivery, Run
from tests.makers import WORKER, cancel, child_of, fresh, let_time_pass, new_run, send, sweep

pytestmark = pytest.mark.usefixtures("counters")


def told(run: Run) -> tuple[str, str]:
    one = Delivery.objects.get(run=run)
    return one.state, one.why


def test_handed_over_with_the_heartbeat_and_then_acknowledged():
    run, token = new_run(runtime="celery")
    assert not Delivery.objects.exists()
    cancel(run)
    assert told(run) == ("pending", "")
    assert leases.heartbeat(WORKER, run.pk, token)["directive"] == "cancel"
    assert told(run) == ("delivered", "")
    cancellation.heard(WORKER, run.pk, token)
    assert told(run) == ("acknowledged", "")
    leases.stopped(WORKER, run.pk, token)
    assert (told(run), fresh(run).state) == (("acknowledged", ""), "cancelled")


def test_every_time_it_is_told_is_counted():
    run, _ = new_run(runtime="celery")
    cancel(run)
    for _ in range(2):
        assert [line["directive"] for line in leases.where([(run.pk, 1)])] == ["cancel"]
    assert (told(run)[0], Delivery.objects.get(run=run).tries) == ("delivered", 2)


def test_a_worker_that_stops_without_a_word_of_hearing():
    run, token = new_run(runtime="celery")
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    assert told(run) == ("acknowledged", "It stopped without saying that it had heard.")


def test_a_worker_that_was_reaped():
    run, _ = new_run(runtime="celery")
    cancel(run)
    leases.gone(WORKER, "w-1", "killed by SIGKILL")
    assert told(run) == ("failed", "Its process had ended before it said that it had heard.")


def test_a_worker_that_never_answers_and_one_that_does_at_last(fake):
    run, token = new_run(runtime="celery")
    send(run, token, provider="fake")
    cancel(run)
    let_time_pass(60)
    sweep()
    assert fresh(run).quiet_basis == "presumed"
    assert told(run) == ("failed", "Its worker never answered: whether it heard is not known.")
    cancellation.heard(WORKER, run.pk, token)
    assert told(run) == ("acknowledged", "")


def test_nothing_to_deliver_where_nobody_works():
    run, _ = new_run("", runtime="celery")
    cancel(run)
    assert fresh(run).state == "cancelled"
    assert not Delivery.objects.exists()


def test_a_runtime_that_nobody_can_tell_says_why():
    run, token = new_run(runtime="temporal")
    cancel(run)
    assert told(run) == ("unsupported", "Nobody delivers a native cancel to temporal yet; its worker is refused every further act.")
    leases.heartbeat(WORKER, run.pk, token)
    leases.stopped(WORKER, run.pk, token)
    assert told(run)[0] == "unsupported"


def test_one_for_each_run_of_the_tree_that_says_where_it_executes():
    run, token = new_run(runtime="celery")
    plain, plain_token = child_of(run, token, "w-2")
    far, far_token = child_of(run, token, "w-3", runtime="temporal")
    cancel(run)
    cancel(run)
    assert {d.run_id: d.state for d in Delivery.objects.all()} == {run.pk: "pending", far.pk: "unsupported"}
    for one, its in ((run, token), (plain, plain_token), (far, far_token)):
        leases.stopped(WORKER, one.pk, its)
