"""Steps: started under the fence, finished once, their results kept for the worker that takes over."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from runs import actors, epochs, leases, states, sweeps, transition
from runs.actors import Actor
from runs.book import book
from runs.errors import DigestChanged, EffectsInFlight, Invalid, NotFound
from runs.models import Event, Run, Step

FINISHED = frozenset({"done", "failed", "timed_out", "stopped", "discarded"})


@dataclass(frozen=True)
class NewStep:
    key: str
    kind: str = "tool"
    title: str = ""
    hears_cancel_every_s: float | None = None
    deadline_s: float | None = None
    input_digest: str = ""


@leases.act("step.start")
def start(actor: Actor, run_id: uuid.UUID, token: str, new: NewStep) -> tuple[Step, bool]:
    """Start a step, or start it again under a new lease. Returns it, and whether it was started now (a finished one was not).

    Raises `Cancelled`, `LeaseLost`, `DigestChanged` when the same key had another input.
    """
    run = leases.fence(actor, run_id, token)
    step = Step.objects.filter(run=run, key=new.key).first()
    if step is not None and step.input_digest and new.input_digest and step.input_digest != new.input_digest:
        raise DigestChanged(f"Step {new.key} of {run.ref} was started with another input. Use another key.", step=new.key)
    if step is not None and step.state in FINISHED:
        return step, False
    now = transition.clock()
    position = transition.record(
        run, "step.started", actor, subject=new.key, data={"kind": new.kind, "title": new.title, "epoch": run.lease_epoch}
    )
    values = {
        "kind": new.kind,
        "title": new.title,
        "state": "running",
        "epoch": run.lease_epoch,
        "position": position,
        "hears_cancel_every_s": new.hears_cancel_every_s,
        "deadline_at": now + timedelta(seconds=new.deadline_s) if new.deadline_s is not None else None,
        "input_digest": new.input_digest,
        "started_at": now,
        "answered_at": now,
        "progress": None,
        "message": "",
    }
    step, _ = Step.objects.update_or_create(run=run, key=new.key, defaults=values)
    return step, True


def finish(
    actor: Actor,
    run_id: uuid.UUID,
    token: str,
    key: str,
    outcome: str,
    result: Any = None,
    error: str = "",
    cost: dict[str, Any] | None = None,
) -> tuple[Step, str]:
    """What came of a step: always kept, from whoever it comes. Returns the step and how it was recorded: done, failed, late or discarded.

    A model's answer that comes after the cancel, or under an old lease, is kept with its cost and never given to the plan (`discarded`).
    Raises `EffectsInFlight` when it would be done while one of its effects is open.
    """
    if outcome not in ("done", "failed"):
        raise Invalid("outcome must be done or failed.", field="outcome")
    with transaction.atomic(durable=True):
        run = transition.lock(run_id)
        actor.require(actors.RUN_WORK, run.agent)
        lease = epochs.lease_of(run, token)
        step = Step.objects.select_for_update().filter(run=run, key=key).first()
        if step is None:
            raise NotFound(f"{run.ref} has no step {key}. Start it first.", field="key")
        if step.state in FINISHED and step.epoch == lease.epoch and step.state == outcome:
            return step, outcome
        recorded = _how_recorded(run, step, lease.epoch, outcome)
        if recorded in ("late", "discarded") and _kept_before(run, key, lease.epoch, outcome):
            return step, recorded
        if recorded == "done" and book().step_open(run, key):
            raise EffectsInFlight(f"An effect of step {key} of {run.ref} is still open: suspend until evidence.", step=key)
        late = {"outcome": outcome, "result": result, "error": error, "cost": cost, "epoch": lease.epoch}
        _keep(run, step, recorded, late)
        _add_cost(run, cost)
        data = {"title": step.title, "outcome": outcome, "recorded": recorded, "epoch": lease.epoch, "cost": cost}
        transition.record(run, "step.finished", actor, subject=key, data=data)
        return step, recorded


def _how_recorded(run: Run, step: Step, epoch: int, outcome: str) -> str:
    current = step.epoch == epoch and step.state not in FINISHED
    if current and run.state == states.RUNNING and run.lease_epoch == epoch:
        return outcome
    return "discarded" if step.kind == "model_call" else "late"


def _kept_before(run: Run, key: str, epoch: int, outcome: str) -> bool:
    """A late report that comes again (a lost answer, a spool) is no news and costs nothing."""
    told = {"epoch": epoch, "outcome": outcome}
    return Event.objects.filter(run=run, kind="step.finished", subject=key, data__contains=told).exists()


def _keep(run: Run, step: Step, recorded: str, told: dict[str, Any]) -> None:
    values: dict[str, Any] = {}
    if recorded in ("done", "failed"):
        values = {name: told[name] for name in ("result", "error", "cost")} | {"state": recorded, "finished_at": transition.clock()}
    else:
        values = {"late_result": told, "cost": step.cost or told["cost"]}
        if step.state in ("running", "waiting") and _is_over(run):
            ended = "discarded" if recorded == "discarded" else told["outcome"]
            values |= {"state": ended, "finished_at": transition.clock()}
        elif step.state == "stopped" and recorded == "discarded":
            values |= {"state": "discarded"}
    for name, value in values.items():
        setattr(step, name, value)
    step.save(update_fields=list(values))


def _is_over(run: Run) -> bool:
    """No worker will do its steps again. (A run that only waits between two leases will: a late result must not finish its step.)"""
    return run.is_closed or run.cancel_position is not None or run.state in states.STOPPING


def _add_cost(run: Run, cost: dict[str, Any] | None) -> None:
    """Sum what a model call cost on the run, apart for what was reported after the cancel. What is no number (a currency) is kept."""
    if not cost:
        return
    name = "cost_before_cancel" if run.cancel_position is None else "cost_after_cancel"
    sums = dict(getattr(run, name))
    for key, value in cost.items():
        before = sums.get(key, 0)
        sums[key] = before + value if _is_number(value) and _is_number(before) else value
    setattr(run, name, sums)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def progress(run_id: uuid.UUID, token: str, beats: list[dict[str, Any]]) -> None:
    """Keep the progress (0 to 1) and message that a heartbeat carried for running steps of the lease's epoch."""
    for beat in beats:
        values = {name: beat[name] for name in ("progress", "message") if beat.get(name) is not None}
        Step.objects.filter(run_id=run_id, run__lease_token=token, key=beat["key"], state="running").update(
            answered_at=transition.clock(), **values
        )


def time_out_due(limit: int = 100) -> int:
    """Steps past their deadline are *timed out while waiting*; that never moves an effect. Returns how many."""
    due = Step.objects.filter(state="running", deadline_at__lte=transition.clock()).values_list("run_id", "pk")[:limit]
    return sweeps.each(due, _time_out_one)


def _time_out_one(due: tuple[uuid.UUID, uuid.UUID]) -> bool:
    run_id, pk = due
    with transaction.atomic(durable=True):
        run = transition.lock(run_id)
        if not Step.objects.filter(pk=pk, state="running").update(state="timed_out", finished_at=transition.clock()):
            return False
        step = Step.objects.get(pk=pk)
        transition.record(run, "step.timed_out", actors.system("deadline"), subject=step.key, data={"title": step.title})
        return True
