"""Agents that run inside Celery: the same plan, the same fence, claimed only by Celery's own worker."""

import uuid

import pytest

from console import runtime
from countermand.errors import RunCancelled
from runs import cancellation, leases
from runs.models import Delivery, Step
from tests.makers import SUPPORT, WORKER, fresh, new_run

pytestmark = pytest.mark.usefixtures("database")


def plan_that_is_cancelled(run):
    """A plan in whose first step a person cancels the run."""
    run.step("first", lambda: cancellation.request_cancel(SUPPORT, uuid.UUID(run.id)).kind)
    run.step("second", lambda: "must not happen")


def plan(run):
    return run.step("only", lambda: {"seen": run.input["n"]})


@pytest.fixture
def celery_agents(settings, tmp_path):
    settings.CELERY_AGENTS = {"plain": f"{__name__}:plan", "cancelled": f"{__name__}:plan_that_is_cancelled"}
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
