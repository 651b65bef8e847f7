"""Agents that run inside Celery: the same plan, the same fence, claimed only by Celery's own worker."""

import uuid

import pytest

from console import runtime
from countermand.errors import ChildCancelled, RunCancelled
from runs import cancellation, children, leases, waiting
from runs.models import Delivery, Run, Step
from tests.makers import SUPPORT, WORKER, fresh, new_run

pytestmark = pytest.mark.usefixtures("database")


def plan_that_is_cancelled(run):
    """A plan in whose first step a person cancels the run."""
    run.step("first", lambda: cancellation.request_cancel(SUPPORT, uuid.UUID(run.id)).kind)
    run.step("second", lambda: "must not happen")


def plan(run):
    return run.step("only", lambda: {"seen": run.input["n"]})


def parent(run):
    """A plan that hands a part to a child, and says what became of it."""
    try:
        return {"got": run.child("plain", input={"n": 3}, key="part", runtime="celery")}
    except ChildCancelled as told:
        return {"told": told.facts}


@pytest.fixture
def celery_agents(settings, tmp_path):
    plans = {"plain": "plan", "cancelled": "plan_that_is_cancelled", "parent": "parent"}
    settings.CELERY_AGENTS = {name: f"{__name__}:{plan}" for name, plan in plans.items()}
    settings.COUNTERMAND_HOME = tmp_path
    runtime.client.cache_clear()
    yield
    runtime.client.cache_clear()


def test_a_run_that_executes_in_celery_is_run_there_and_nowhere_else(celery_agents):
    run, _ = new_run(holder="", agent="plain", runtime="celery", input={"n": 7})
    assert leases.claim(WORKER, "w-1", ["plain"]) is None
    assert runtime.work_off() == 1
    assert (fresh(run).status, fresh(run).result) == ("completed", {"seen": 7})


def test_celery_leaves_other_runs_alone(celery_agents):
    run, _ = new_run(holder="", agent="plain", input={"n": 1})
    assert runtime.work_off() == 0
    assert fresh(run).status == "scheduled"


def test_a_cancel_is_delivered_by_directive_and_acknowledged(celery_agents):
    run, _ = new_run(holder="", agent="cancelled", runtime="celery")
    try:
        runtime.work_off()
    except RunCancelled:
        pytest.fail("the worker must survive a cancelled run")
    run = fresh(run)
    assert (run.status, run.quiet_basis) == ("cancelled", "stopped")
    assert not Step.objects.filter(run=run, key="second").exists()
    assert Delivery.objects.get(run=run).state == "acknowledged"


def test_a_runtime_that_nobody_can_tell_says_so():
    run, _ = new_run(runtime="temporal")
    cancellation.request_cancel(SUPPORT, run.pk)
    delivery = Delivery.objects.get(run=run)
    assert delivery.state == "unsupported"
    assert "temporal" in delivery.why


def waits_for_its_child() -> tuple[Run, Run]:
    """A parent that has given its lease back for a child that nobody has taken yet."""
    run, _ = new_run(holder="", agent="parent", runtime="celery")
    assert runtime.client().claim_once() == "suspended"
    child = Run.objects.get(parent=run)
    assert (fresh(run).waits_for, fresh(run).lease_token) == ({"kind": "child", "child": str(child.pk)}, None)
    return run, child


def test_a_parent_is_entered_again_with_the_result_of_its_child(celery_agents):
    run, child = waits_for_its_child()
    assert runtime.work_off() == 1
    assert waiting.wake_due() == 1
    assert runtime.work_off() == 1
    children.recount_due()
    assert (fresh(child).status, fresh(run).status, fresh(run).result) == ("completed", "completed", {"got": {"seen": 3}})


def test_a_child_that_is_cancelled_alone_is_told_to_the_plan_with_its_account(celery_agents):
    run, child = waits_for_its_child()
    cancellation.request_cancel(SUPPORT, child.pk, reason="Not this part.")
    assert waiting.wake_due() == 1
    assert runtime.work_off() == 1
    children.recount_due()
    told = fresh(run).result["told"]
    assert (fresh(run).status, told["ref"], told["state"]) == ("completed", child.ref, "cancelled")
    assert (told["account"]["run"], told["account"]["state"], told["account"]["final"]) == (child.ref, "cancelled", True)
    assert Step.objects.get(run=run, key="part").state == "failed", "another worker's plan is told the same"
