"""The beginning and the decided end of a run."""

from __future__ import annotations

import pytest

from runs import leases, lifecycle
from runs.lifecycle import NewRun
from runs.models import Run
from tests.makers import (
    WORKER,
    again,
    cancel,
    child_of,
    claim,
    fresh,
    kinds,
    new_run,
    refused,
    send,
    step,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")


def finish(run, token, outcome="completed", **values):
    return lifecycle.finish(WORKER, run.pk, token, outcome, **values)


def test_once_per_client_key():
    new = NewRun("purchase-order", "Order", {"n": 1}, client_key="k-1")
    first = lifecycle.create(WORKER, new, holder="w-1")
    second = lifecycle.create(WORKER, new, holder="w-2")
    assert (first.created, second.created, second.run.pk) == (True, False, first.run.pk)
    assert second.grant is None, "a repeated creation never carries a lease"
    with refused("client_key_reused") as told:
        lifecycle.create(WORKER, NewRun("purchase-order", "Order", {"n": 2}, client_key="k-1"))
    assert told.value.facts["run"] == first.run.ref
    assert lifecycle.create(WORKER, NewRun("refunds", "Order", {"n": 1}, client_key="k-1")).created
    assert Run.objects.count() == 2


def test_it_completes_only_when_everything_is_known():
    run, token = new_run()
    sent = send(run, token)
    with refused("effects_in_flight"):
        finish(run, token)
    with refused("effects_in_flight"):
        finish(run, token, "failed")
    tell(sent, "unknown")
    with refused("effects_in_flight") as told:
        finish(run, token)
    assert (told.value.facts["in_flight"], told.value.facts["in_doubt"]) == (0, 1)
    tell(sent, "landed")
    assert finish(run, token, result={"ok": True}).status == "completed_reconciled" or fresh(run).status == "completed_reconciled"
    assert fresh(run).result == {"ok": True}


def test_it_may_fail_in_doubt_and_settles_later():
    run, token = new_run()
    sent = send(run, token)
    tell(sent, "unknown")
    finish(run, token, "failed", error="gave up")
    run = fresh(run)
    assert (run.status, run.error, run.settled_at) == ("failed_pending", "gave up", None)
    tell(sent, "landed")
    assert fresh(run).status == "failed_reconciled"


def test_finishing_withholds_what_was_only_declared():
    run, token = new_run()
    declared = send(run, token, begin=False)
    finish(run, token)
    assert (again(declared).state, again(declared).holds_action) == ("withheld", False)


def test_the_same_finish_again_changes_nothing():
    run, token = new_run()
    finish(run, token, result=1)
    version = fresh(run).version
    assert finish(run, token, result=1).state == "completed"
    assert fresh(run).version == version
    with refused("lease_lost"):
        finish(run, token, "failed")
    with refused("invalid"):
        finish(run, token, "cancelled")


def test_another_worker_does_not_finish_for_it():
    run, token = new_run()
    leases.release(WORKER, run.pk, token)
    run, second = claim("w-2")
    with refused("lease_lost"):
        finish(run, token)
    finish(run, second)
    with refused("lease_lost"):
        finish(run, token)


def test_the_loser_of_the_race_gets_the_winners_answer():
    run, token = new_run()
    cancel(run)
    with refused("cancelled"):
        finish(run, token)
    run, token = new_run("w-2")
    finish(run, token)
    assert cancel(run).kind == "already_closed"


def test_a_child_starts_under_its_parents_fence():
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    assert (child.parent_id, child.root_id, child.depth) == (run.pk, run.pk, 1)
    grandchild, _ = child_of(child, child_token)
    assert (grandchild.root_id, grandchild.depth) == (run.pk, 2)
    assert (fresh(run).children_open, fresh(child).children_open) == (1, 1)
    assert kinds(run)[-1] == "child.created"
    with refused("lease_lost"):
        child_of(run, "not the lease")
    cancel(run)
    with refused("cancelled"):
        child_of(run, token)
    assert Run.objects.count() == 3


def test_a_childs_key_belongs_to_its_parent():
    run, token = new_run()
    child, _ = child_of(run, token, client_key="c-1")
    assert child_of(run, token, client_key="c-1")[0].pk == child.pk
    other, other_token = new_run("w-2")
    with refused("client_key_reused"):
        child_of(other, other_token, client_key="c-1")
    assert fresh(run).children_open == 1


def test_running_steps_end_with_the_run():
    run, token = new_run()
    step(run, token, "a")
    finish(run, token, "failed")
    assert run.steps.get().state == "stopped"
