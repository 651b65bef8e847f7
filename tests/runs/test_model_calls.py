"""What a model says after the cancel, or to a worker that has lost the run: kept, costed once, and never given to the plan."""

from __future__ import annotations

import pytest

from ledger import accounts
from runs import leases, steps
from runs.models import Event, Run, Step
from tests.makers import WORKER, cancel, claim, fresh, let_time_pass, new_run, refused, step, sweep

pytestmark = pytest.mark.usefixtures("counters")

COST = {"currency": "EUR", "micros": 1200, "output_tokens": 40}
PROPOSAL = {"tool": "create_order", "arguments": {"ref": "PO-9"}}


def thinking(**values) -> tuple[Run, str]:
    run, token = new_run(**values)
    step(run, token, "think", kind="model_call")
    return run, token


def answer(run: Run, token: str, cost: dict | None = None) -> str:
    return steps.finish(WORKER, run.pk, token, "think", "done", PROPOSAL, cost=cost or COST)[1]


def thought(run: Run) -> Step:
    return Step.objects.get(run=run, key="think")


def test_five_seconds_after_the_cancel():
    run, token = thinking()
    receipt = cancel(run).request.receipt
    assert [(line["step"], line["kind"]) for line in receipt["running"]] == [("think", "model_call")]
    let_time_pass(5)
    assert answer(run, token) == "discarded"
    kept = thought(run)
    assert (kept.state, kept.result, kept.cost) == ("discarded", None, COST)
    assert kept.late_result == {"outcome": "done", "result": PROPOSAL, "error": "", "cost": COST, "epoch": 1}
    assert (fresh(run).cost_before_cancel, fresh(run).cost_after_cancel) == ({}, COST)
    with refused("cancelled"):
        step(run, token, "order")
    leases.stopped(WORKER, run.pk, token)
    account = accounts.latest(fresh(run))
    assert account["cost"] == {"before_cancel": {}, "after_cancel": COST}
    assert account["steps"]["discarded"] == 1


def test_told_twice_it_is_kept_and_costed_once():
    """A spool delivers at least once."""
    run, token = thinking()
    cancel(run)
    assert [answer(run, token) for _ in range(3)] == ["discarded"] * 3
    assert fresh(run).cost_after_cancel["micros"] == 1200
    assert Event.objects.filter(run=run, kind="step.finished").count() == 1
    leases.stopped(WORKER, run.pk, token)


def test_from_a_worker_whose_lease_is_over_while_nobody_has_the_run():
    run, token = thinking(ttl_s=5)
    let_time_pass(6)
    sweep()
    assert answer(run, token) == "discarded"
    assert thought(run).state == "running", "whoever takes over asks again"
    run, token = claim("w-2")
    assert steps.start(WORKER, run.pk, token, steps.NewStep("think", "model_call"))[1]
    assert answer(run, token, {"currency": "EUR", "micros": 5}) == "done"
    assert (thought(run).result, fresh(run).cost_before_cancel["micros"]) == (PROPOSAL, 1205)


def test_from_a_worker_whose_lease_is_over_while_another_one_thinks():
    run, old = thinking(ttl_s=5)
    let_time_pass(6)
    run, token = claim("w-2")
    step(run, token, "think", kind="model_call")
    mine = {"currency": "EUR", "micros": 5}
    assert steps.finish(WORKER, run.pk, token, "think", "done", {"said": "mine"}, cost=mine)[1] == "done"
    assert answer(run, old) == "discarded"
    kept = thought(run)
    assert (kept.state, kept.result, kept.cost) == ("done", {"said": "mine"}, mine)
    assert (kept.late_result["result"], kept.late_result["cost"]) == (PROPOSAL, COST)
    assert fresh(run).cost_before_cancel["micros"] == 1205


def test_from_an_old_lease_after_the_cancel():
    run, old = thinking(ttl_s=5)
    let_time_pass(6)
    run, token = claim("w-2")
    cancel(run)
    assert answer(run, old) == "discarded"
    assert (fresh(run).cost_after_cancel, thought(run).state) == (COST, "discarded")
    leases.stopped(WORKER, run.pk, token)


def test_costs_before_and_after_the_cancel_stand_apart():
    run, token = thinking()
    answer(run, token)
    step(run, token, "again", kind="model_call")
    cancel(run)
    steps.finish(WORKER, run.pk, token, "again", "done", PROPOSAL, cost={"currency": "EUR", "micros": 7, "output_tokens": 1})
    leases.stopped(WORKER, run.pk, token)
    run = fresh(run)
    assert run.cost_before_cancel == COST
    assert run.cost_after_cancel == {"currency": "EUR", "micros": 7, "output_tokens": 1}
    assert run.status == "cancelled"
