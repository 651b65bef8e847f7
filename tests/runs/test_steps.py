"""Steps: started under the fence, finished once, their results for whoever takes over."""

from __future__ import annotations

import pytest

from ledger import intents
from runs import leases, lifecycle, steps
from runs.models import Step
from tests.makers import (
    WORKER,
    again,
    cancel,
    claim,
    fresh,
    intent,
    let_time_pass,
    new_run,
    nonce,
    refused,
    send,
    step,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")


def start(run, token, key="a", **values):
    return steps.start(WORKER, run.pk, token, steps.NewStep(key, **values))


def finish(run, token, key="a", outcome="done", result=None, **values):
    return steps.finish(WORKER, run.pk, token, key, outcome, result, **values)


def test_a_finished_step_returns_what_it_stored_to_the_next_worker():
    run, token = new_run()
    start(run, token)
    finish(run, token, result={"n": 1})
    leases.release(WORKER, run.pk, token)
    run, token = claim("w-2")
    kept, started = start(run, token)
    assert (kept.result, kept.state, started) == ({"n": 1}, "done", False)


def test_an_unfinished_one_is_started_again():
    run, token = new_run()
    start(run, token)
    let_time_pass(31)
    run, token = claim("w-2")
    again_, started = start(run, token)
    assert (again_.epoch, started) == (2, True)
    assert Step.objects.count() == 1


@pytest.mark.parametrize("kind", ["tool", "model_call", "read"])
@pytest.mark.parametrize("between", [True, False])
def test_a_late_result_never_finishes_the_step_of_a_run_that_goes_on(kind, between):
    """Not while nobody has the lease, and not while another one has it: the plan would be given an empty result."""
    run, token = new_run()
    start(run, token, kind=kind)
    let_time_pass(31)
    leases.expire_due()
    if not between:
        run, _ = claim("w-2")
    late, recorded = finish(run, token, result={"n": 1}, cost={"tokens": 2})
    assert recorded == ("discarded" if kind == "model_call" else "late")
    assert (late.state, late.result, late.late_result["result"]) == ("running", None, {"n": 1})
    if between:
        run, second = claim("w-2")
        assert start(run, second, kind=kind)[1] is True


def test_the_same_finish_twice():
    run, token = new_run()
    start(run, token)
    finish(run, token, result=1)
    version = fresh(run).version
    assert finish(run, token, result=1)[1] == "done"
    assert fresh(run).version == version


def test_it_is_not_done_while_an_effect_of_it_is_open():
    run, token = new_run()
    sent = send(run, token)
    for verdict in (None, "unknown", "pending"):
        if verdict:
            tell(sent, verdict)
        with refused("effects_in_flight"):
            finish(run, token, "order")
    tell(sent, "landed")
    assert finish(run, token, "order")[1] == "done"


def test_another_input_under_the_same_key():
    run, token = new_run()
    start(run, token, input_digest="a" * 64)
    with refused("digest_changed"):
        start(run, token, input_digest="b" * 64)
    start(run, token)
    start(run, token, input_digest="a" * 64)


def test_a_deadline_ends_the_wait_and_moves_no_effect():
    run, token = new_run(ttl_s=600)
    step(run, token, "order", deadline_s=10)
    sent = intents.declare(WORKER, run.pk, token, nonce(), intent(answer_within_s=300))
    let_time_pass(11)
    assert steps.time_out_due() == 1
    assert (Step.objects.get().state, again(sent).state, fresh(run).in_flight) == ("timed_out", "sending", 1)
    tell(sent, "landed")
    assert again(sent).state == "landed"
    late, recorded = finish(run, token, "order", result=1)
    assert (late.state, recorded) == ("timed_out", "late")


def test_a_cancel_refuses_new_steps_and_keeps_what_comes():
    run, token = new_run()
    start(run, token, "think", kind="model_call")
    start(run, token, "fetch", kind="read")
    cancel(run)
    with refused("cancelled"):
        start(run, token, "more")
    thought, recorded = finish(run, token, "think", result={"call": "order"}, cost={"usd": 3})
    assert (recorded, thought.state, thought.result, thought.cost) == ("discarded", "discarded", None, {"usd": 3})
    fetched, recorded = finish(run, token, "fetch", result=[1])
    assert (recorded, fetched.result) == ("late", None)
    leases.stopped(WORKER, run.pk, token)
    assert set(Step.objects.values_list("state", flat=True)) <= {"discarded", "done", "stopped"}


def test_a_model_that_answers_after_the_run_has_closed():
    run, token = new_run()
    start(run, token, "think", kind="model_call")
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    assert Step.objects.get().state == "stopped"
    thought, recorded = finish(run, token, "think", result={"call": "order"}, cost={"usd": 3})
    assert (recorded, thought.state, thought.result) == ("discarded", "discarded", None)


def test_an_unknown_step_or_outcome():
    run, token = new_run()
    with refused("not_found"):
        finish(run, token, "never")
    start(run, token)
    with refused("invalid"):
        finish(run, token, outcome="maybe")


def test_no_step_starts_in_a_closed_run():
    run, token = new_run()
    lifecycle.finish(WORKER, run.pk, token, "completed")
    with refused("lease_lost"):
        start(run, token)
    assert not Step.objects.exists()


def test_progress_is_kept_for_the_current_lease_only():
    run, token = new_run()
    start(run, token)
    steps.progress(run.pk, token, [{"key": "a", "progress": 0.4, "message": "40 of 100"}])
    assert (Step.objects.get().progress, Step.objects.get().message) == (0.4, "40 of 100")
    steps.progress(run.pk, "old", [{"key": "a", "progress": 0.1}])
    assert Step.objects.get().progress == 0.4
