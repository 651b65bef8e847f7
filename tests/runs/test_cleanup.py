"""Cleanup: after quiet, once, within its budget, whatever interrupts it; what it does not reach is listed and a person is told."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest

from ledger import accounts
from ledger.models import Effect
from runs import approvals, cancellation, cleaning, leases, lifecycle, preview, transition, waiting
from runs.models import Cleanup, Run
from tests.makers import (
    ADMIN,
    OTHER,
    SUPPORT,
    WORKER,
    cancel,
    child_of,
    claim,
    fresh,
    kinds,
    let_time_pass,
    new_run,
    open_cases,
    refused,
    send,
    settle,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")

HANDLERS = ["release-hold"]


def register(run: Run, token: str, *keys: str, **values) -> None:
    for order, key in enumerate(keys or ("hold",)):
        cleaning.register(WORKER, run.pk, token, key, "release-hold", {"key": key}, order, **values)


def take(holder: str = "c-1", ttl_s: float = 30.0):
    """The next item with its lease token, or None."""
    taken = cleaning.claim(WORKER, holder, HANDLERS, ttl_s)
    return taken and (taken[0], taken[1].token)


def do(taken, outcome: str = "done") -> Cleanup:
    item, token = taken
    return cleaning.finish(WORKER, item.pk, token, outcome)


def states(run: Run) -> dict[str, str]:
    return dict(Cleanup.objects.filter(run=run).order_by("order").values_list("key", "state"))


def whys(run: Run) -> dict[str, str]:
    return dict(Cleanup.objects.filter(run=run, state="left_behind").order_by("order").values_list("key", "why"))


# Every way in which a run may stand when it is cancelled ------------------------------------------------------------


def running_then_stopped(run, token):
    cancel(run)
    assert take() is None, "not before it is quiet"
    leases.stopped(WORKER, run.pk, token)


def queued(run, token):
    leases.release(WORKER, run.pk, token)
    assert fresh(run).state == "scheduled"
    cancel(run)


def in_backoff(run, token):
    wake_at = transition.clock() + timedelta(hours=1)
    waiting.suspend(WORKER, run.pk, token, "time", wake_at=wake_at)
    cancel(run)
    assert (fresh(run).wake_at, fresh(run).waits_for) == (None, None)


def awaiting_approval(run, token):
    approvals.request(WORKER, run.pk, token, approvals.Question("confirm", "Send it?"))
    assert fresh(run).state == "awaiting_approval"
    cancel(run)


def awaiting_evidence(run, token):
    tell(send(run, token), "unknown")
    waiting.suspend(WORKER, run.pk, token, "evidence")
    assert fresh(run).state == "awaiting_evidence"
    cancel(run)


def awaiting_a_child(run, token):
    child, child_token = child_of(run, token, "w-2")
    waiting.suspend(WORKER, run.pk, token, "child", child=child.pk)
    cancel(run)
    leases.stopped(WORKER, child.pk, child_token)


def just_yielded(run, token):
    waiting.suspend(WORKER, run.pk, token, "evidence")
    assert fresh(run).state == "scheduled"
    cancel(run)


def crashed_before_the_cancel(run, token):
    let_time_pass(31)
    leases.expire_due()
    cancel(run)


def crashed_after_the_cancel(run, token):
    cancel(run)
    let_time_pass(31)
    leases.expire_due()


def reaped_after_the_cancel(run, token):
    cancel(run)
    leases.gone(WORKER, "w-1", "killed by SIGKILL")


@pytest.mark.parametrize(
    "stop",
    [
        running_then_stopped,
        queued,
        in_backoff,
        awaiting_approval,
        awaiting_evidence,
        awaiting_a_child,
        just_yielded,
        crashed_before_the_cancel,
        crashed_after_the_cancel,
        reaped_after_the_cancel,
    ],
)
def test_what_is_registered_runs_once_however_the_run_stood(stop):
    run, token = new_run()
    register(run, token)
    stop(run, token)
    assert fresh(run).state == "cancelling"
    taken = take()
    assert taken is not None
    assert fresh(run).quiet_at is not None
    assert take("c-2") is None, "handed out once"
    assert leases.claim(WORKER, "w-9", ["purchase-order"]) is None, "nothing else starts"
    assert do(taken).state == "done"
    assert take() is None
    sweep()
    sweep()
    assert (fresh(run).state, states(run)) == ("cancelled", {"hold": "done"})
    assert kinds(run).count("cleanup.claimed") == 1
    assert not {"run.woke", "run.claimed", "step.started"} & set(kinds(run)[fresh(run).cancel_position :])


def test_nothing_to_clean_and_nothing_left_closes_at_once():
    for stop in (queued, in_backoff, awaiting_approval, awaiting_evidence, just_yielded, crashed_before_the_cancel):
        run, token = new_run()
        stop(run, token)
        assert fresh(run).state == "cancelled", stop.__name__
        leases.expire_due()
        Effect.objects.filter(run=run).exists() and tell(Effect.objects.get(run=run), "landed")


def test_registering_takes_the_fence():
    run, token = new_run()
    cancel(run)
    with refused("cancelled"):
        register(run, token)
    assert not Cleanup.objects.exists()
    leases.stopped(WORKER, run.pk, token)
    assert fresh(run).state == "cancelled"


# Undisturbed --------------------------------------------------------------------------------------------------------


def test_a_second_cancel_by_another_person_changes_nothing():
    run, token = new_run()
    register(run, token, "one", "two")
    first = cancel(run, reason="Wrong price.").request
    leases.stopped(WORKER, run.pk, token)
    item = take()
    asked_at = fresh(run).asked_at
    again = cancel(run, actor=OTHER, reason="Me too!")
    assert (again.kind, again.request.pk) == ("repeat", first.pk)
    counted = cancellation.accepted(fresh(run), "cancel")
    assert (counted.actor_id, counted.at, counted.reason, fresh(run).asked_at) == (SUPPORT.id, first.at, "Wrong price.", asked_at)
    assert leases.heartbeat(WORKER, run.pk, item[1])["directive"] == "continue"
    assert do(item).state == "done"
    assert do(take()).state == "done"
    assert (fresh(run).state, states(run)) == ("cancelled", {"one": "done", "two": "done"})
    assert cancel(run, actor=OTHER).kind == "repeat", "also when it is over"


def test_a_worker_that_dies_in_the_middle_leaves_its_item_behind_and_the_next_go_on():
    run, token = new_run()
    register(run, token, "one", "two", "three")
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    do(take())
    item, lost = take("c-dead", ttl_s=5)
    let_time_pass(6)
    sweep()
    assert whys(run) == {"two": "its worker was lost; it is never run twice"}
    with refused("lease_lost"):
        leases.heartbeat(WORKER, run.pk, lost)
    assert cleaning.finish(WORKER, item.pk, lost, "done").state == "left_behind", "too late to say otherwise"
    assert take("c-2")[0].key == "three"


def test_a_supervisor_that_reaps_the_cleaner_does_not_run_it_again():
    run, token = new_run()
    register(run, token, "one", "two")
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    assert take("c-1")[0].key == "one"
    leases.gone(WORKER, "c-1", "killed by SIGKILL")
    assert states(run) == {"one": "left_behind", "two": "registered"}
    do(take("c-2"))
    sweep()
    assert (fresh(run).state, states(run)) == ("cancelled", {"one": "left_behind", "two": "done"})
    (case,) = open_cases()
    assert (case.kind, case.run_id) == ("left_behind", run.pk)


# Budget, deadlines, and what is left behind -------------------------------------------------------------------------


@pytest.fixture
def budget(owner_connection):
    def change(run: Run, column: str, value: float) -> None:
        owner_connection.execute(f"UPDATE runs_run SET {column} = %s WHERE id = %s", (value, run.pk))

    return change


def test_five_items_and_a_budget_of_three_calls(budget):
    run, token = new_run()
    register(run, token, "one", "two", "three", "four", "five")
    budget(run, "cleanup_calls_max", 3)
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    for _ in range(3):
        do(take())
    assert take() is None, "no fourth call"
    assert fresh(run).cleanup_calls == 3
    used_up = "its budget of 3 calls was used up"
    assert whys(run) == {"four": used_up, "five": used_up}
    sweep()
    assert fresh(run).state == "cancelled"
    account = accounts.latest(fresh(run))
    assert [(item["key"], item["state"]) for item in account["cleanups"]] == [
        ("one", "done"),
        ("two", "done"),
        ("three", "done"),
        ("four", "left_behind"),
        ("five", "left_behind"),
    ]
    (case,) = open_cases()
    assert case.why == f"Cleanup did not reach four: {used_up}; five: {used_up}."


def test_the_time_for_cleaning_ends(budget):
    run, token = new_run()
    register(run, token, "one", "two")
    budget(run, "cleanup_seconds_max", 60)
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    do(take())
    let_time_pass(61)
    assert take() is None
    assert whys(run) == {"two": "its budget of 60 s was used up"}
    sweep()
    assert fresh(run).state == "cancelled"


def test_a_failing_handler_is_listed_and_the_next_go_on():
    run, token = new_run()
    register(run, token, "one", "two")
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    do(take(), "failed")
    do(take())
    assert states(run) == {"one": "left_behind", "two": "done"}
    sweep()
    (case,) = open_cases()
    settle(case, "done_by_hand", actor=SUPPORT, notes="I released the hold.")
    assert not open_cases()
    assert fresh(run).status == "cancelled"


def test_unclaimed_for_ten_minutes_is_left_behind_with_one_case():
    run, token = new_run()
    register(run, token, "one", "two")
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    let_time_pass(9.5 * 60)
    sweep()
    assert fresh(run).state == "cancelling"
    let_time_pass(40)
    sweep()
    sweep()
    assert states(run) == {"one": "left_behind", "two": "left_behind"}
    assert (fresh(run).state, fresh(run).needs_person) == ("cancelled", 1)
    (case,) = open_cases()
    assert case.kind == "left_behind" and "one" in case.why and "two" in case.why
    assert take() is None


def test_one_case_lists_all_that_was_left_behind():
    """It is opened when nothing more is going to be cleaned, not at the first item."""
    run, token = new_run()
    register(run, token, "one", "two")
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    do(take(), "failed")
    sweep()
    assert not open_cases(), "it may be more"
    do(take(), "failed")
    sweep()
    (case,) = open_cases()
    assert [item["key"] for item in case.facts["items"]] == ["one", "two"]


def test_an_item_of_a_handler_that_nobody_has_does_not_take_the_others_with_it():
    run, token = new_run()
    cleaning.register(WORKER, run.pk, token, "odd", "nobody-has-this", {}, order=0)
    cleaning.register(WORKER, run.pk, token, "hold", "release-hold", {}, order=1)
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    assert take() is None, "in order"
    let_time_pass(601)
    sweep()
    assert states(run) == {"odd": "left_behind", "hold": "registered"}
    do(take())
    sweep()
    assert (fresh(run).state, states(run)) == ("cancelled", {"odd": "left_behind", "hold": "done"})


def test_many_that_wait_do_not_keep_others_from_being_cleaned():
    slow, token = new_run("w-1")
    sent = send(slow, token)
    tell(sent, "unknown")
    for number in range(25):
        register(slow, token, f"item-{number}", cleans=sent.effect.pk)
    cancel(slow)
    leases.stopped(WORKER, slow.pk, token)
    quick, token = new_run("w-2")
    register(quick, token)
    cancel(quick)
    leases.stopped(WORKER, quick.pk, token)
    assert do(take()).run_id == quick.pk
    tell(sent, "landed")


# The effect that it cleans ------------------------------------------------------------------------------------------


def test_it_waits_for_the_effect_it_cleans():
    run, token = new_run()
    sent = send(run, token)
    register(run, token, cleans=sent.effect.pk)
    cancel(run)
    tell(sent, "unknown")
    leases.stopped(WORKER, run.pk, token)
    assert fresh(run).quiet_at is not None
    assert take() is None
    tell(sent, "landed")
    assert do(take()).state == "done"
    assert fresh(run).state == "cancelled"


def test_it_does_not_wait_for_ever():
    run, token = new_run()
    sent = send(run, token)
    register(run, token, cleans=sent.effect.pk)
    cancel(run)
    tell(sent, "unknown")
    leases.stopped(WORKER, run.pk, token)
    let_time_pass(601)
    sweep()
    assert whys(run) == {"hold": "the effect that it cleans was still not known after 10 minutes"}
    assert fresh(run).state == "cancelled"


# Other ends ---------------------------------------------------------------------------------------------------------


def terminate(run):
    return cancel(run, actor=ADMIN, mode="terminate", reason="hangs", plan_digest=preview.preview(fresh(run))["plan_digest"])


def test_terminating_leaves_it_behind_and_lists_it():
    run, token = new_run()
    register(run, token, "one", "two")
    receipt = terminate(run).request.receipt
    assert [(line["key"], line["will_run"]) for line in receipt["cleanups"]] == [("one", False), ("two", False)]
    assert (fresh(run).state, take()) == ("terminated", None)
    assert whys(run) == dict.fromkeys(("one", "two"), "the run was terminated")
    assert [item["key"] for item in accounts.latest(fresh(run))["cleanups"]] == ["one", "two"]
    sweep()
    assert [case.kind for case in open_cases(run=run)] == ["left_behind"]
    leases.stopped(WORKER, run.pk, token)


def test_terminating_in_the_middle_of_a_cleanup():
    run, token = new_run()
    register(run, token, "one", "two")
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    item, lease = take()
    terminate(run)
    assert fresh(run).state == "terminated"
    with refused("lease_lost"):
        leases.heartbeat(WORKER, run.pk, lease)
    assert cleaning.finish(WORKER, item.pk, lease, "done").state == "left_behind"
    assert states(run) == {"one": "left_behind", "two": "left_behind"}


def test_completing_voids_it():
    run, token = new_run()
    register(run, token)
    lifecycle.finish(WORKER, run.pk, token, "completed", {})
    assert (fresh(run).state, states(run), take()) == ("completed", {"hold": "voided"}, None)
    sweep()
    assert not open_cases()


def test_a_run_that_fails_is_cleaned_and_then_failed():
    run, token = new_run()
    register(run, token)
    lifecycle.finish(WORKER, run.pk, token, "failed", error="no stock")
    assert fresh(run).state == "failing"
    late = cancel(run)
    assert (late.kind, fresh(run).state, fresh(run).cancel_position) == ("already_closed", "failing", None)
    do(take())
    assert (fresh(run).state, fresh(run).error, states(run)) == ("failed", "no stock", {"hold": "done"})


def test_once_per_key_and_never_with_other_arguments():
    run, token = new_run()
    assert cleaning.register(WORKER, run.pk, token, "hold", "release-hold", {"n": 1})[1]
    assert not cleaning.register(WORKER, run.pk, token, "hold", "release-hold", {"n": 1})[1]
    with refused("digest_changed"):
        cleaning.register(WORKER, run.pk, token, "hold", "release-hold", {"n": 2})
    leases.release(WORKER, run.pk, token)
    run, token = claim("w-2")
    assert not cleaning.register(WORKER, run.pk, token, "hold", "release-hold", {"n": 1})[1], "a worker that takes over says it again"
    with refused("lease_lost"):
        cleaning.register(WORKER, run.pk, uuid.uuid4().hex, "more", "release-hold", {})
