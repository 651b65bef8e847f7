"""Waiting as a stored condition: re-checked under the run's lock when it is stored, and woken by condition, never only by an event."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from runs import actors, epochs, leases, states, sweeps, transition
from runs.actors import Actor
from runs.book import book
from runs.errors import EffectsInFlight, Invalid, NotFound
from runs.models import Approval, Run

UNTIL = ("evidence", "operation", "child", "time")


@leases.act("suspend")
def suspend(
    actor: Actor,
    run_id: uuid.UUID,
    token: str,
    until: str,
    operation_id: uuid.UUID | None = None,
    child: uuid.UUID | None = None,
    wake_at: datetime | None = None,
) -> Run:
    """Give the lease back until a condition is met. A condition that is met already leaves the run scheduled at once."""
    run = leases.fence(actor, run_id, token)
    if run.in_flight:
        raise EffectsInFlight(f"{run.in_flight} effects of {run.ref} are in flight: report their outcomes first.", run=run.ref)
    condition = _condition(run, until, operation_id, child, wake_at)
    book().sender_stopped(run, run.lease_epoch, "worker", actor)
    epochs.end(run, "suspended", "worker")
    waiting = not met(run, condition)
    awaiting = waiting and until in ("evidence", "operation")
    run.state = states.AWAITING_EVIDENCE if awaiting else states.SCHEDULED
    run.waits_for = condition if waiting else None
    run.wake_at = wake_at if waiting else None
    transition.record(run, "run.suspended", actor, data={"until": condition, "waiting": waiting})
    return run


def _condition(run: Run, until: str, operation_id: uuid.UUID | None, child: uuid.UUID | None, wake_at: datetime | None) -> dict[str, Any]:
    if until not in UNTIL:
        raise Invalid(f"until must be one of {', '.join(UNTIL)}.", field="until")
    if until == "operation":
        if operation_id is None:
            raise Invalid("Waiting for an operation needs operation_id.", field="operation_id")
        return {"kind": "operation", "operation_id": str(operation_id)}
    if until == "child":
        if child is None or not Run.objects.filter(pk=child, parent=run).exists():
            raise NotFound("Waiting for a child needs the id of a child of this run.", field="child")
        return {"kind": "child", "child": str(child)}
    if until == "time":
        if wake_at is None:
            raise Invalid("Waiting for a time needs wake_at.", field="wake_at")
        return {"kind": "time", "wake_at": wake_at.isoformat()}
    return {"kind": "evidence"}


def met(run: Run, condition: dict[str, Any]) -> bool:
    """Whether the stored condition is met now."""
    match condition["kind"]:
        case "time":
            return datetime.fromisoformat(condition["wake_at"]) <= transition.clock()
        case "child":
            return Run.objects.filter(pk=condition["child"], state__in=states.CLOSED).exists()
        case "approval":
            waits = Approval.objects.filter(pk=condition["approval"], state="requested", expires_at__gt=transition.clock())
            return not waits.exists()
        case _:
            return book().condition_met(run, condition)


def reconsider(run: Run, actor: Actor) -> bool:
    """Wake the locked run if what it waits for has come about; returns whether it did."""
    if run.waits_for is None or run.is_closed or run.state in states.STOPPING or not met(run, run.waits_for):
        return False
    was = run.waits_for
    run.state = states.SCHEDULED
    run.waits_for = None
    run.wake_at = None
    transition.record(run, "run.woke", actor, data={"waited_for": was})
    return True


def wake_due(limit: int = 200) -> int:
    """Wake waiting runs whose condition is met, `limit` at most; returns how many. Correctness rests on this, not on any event."""
    return sweeps.each(islice(_ready(), limit), _wake_one)


def _wake_one(run_id: uuid.UUID) -> bool:
    with transaction.atomic(durable=True):
        return any(reconsider(run, actors.system("sweep")) for run in transition.take(1, pk=run_id))


def _ready() -> Iterator[uuid.UUID]:
    """The runs whose condition looks met, those that wait for a person or a child found by one query: such a wait costs nothing."""
    waiting = Run.objects.filter(waits_for__isnull=False, closed_at__isnull=True).order_by("changed_at")
    sure = Q(waits_for__kind="time", wake_at__lte=transition.clock())
    yield from list(waiting.filter(sure).values_list("pk", flat=True))
    own = waiting.filter(waits_for__kind="evidence", in_flight=0, in_doubt=0)
    open_question = Approval.objects.filter(run=OuterRef("pk"), state="requested", expires_at__gt=transition.clock())
    answered = waiting.filter(waits_for__kind="approval").exclude(Exists(open_question))
    closed_child = Run.objects.filter(parent=OuterRef("pk"), closed_at__isnull=False)
    parents = waiting.filter(waits_for__kind="child").filter(Exists(closed_child))
    known: dict[str, bool] = {}
    for run in [*own, *answered, *parents, *waiting.filter(waits_for__kind="operation")]:
        assert run.waits_for is not None
        name = f"{run.pk}" if run.waits_for["kind"] == "evidence" else str(sorted(run.waits_for.items()))
        if name not in known:  # many runs may wait for one operation
            known[name] = met(run, run.waits_for)
        if known[name]:
            yield run.pk
