"""What becomes of a request to undo, written once with its event on the original's run, which the caller has locked. It judges nothing."""

from __future__ import annotations

from typing import Any

from ledger import states, undo_states
from ledger.models import Compensation, Effect
from runs import transition
from runs.actors import Actor
from runs.models import Run


def end(run: Run, request: Compensation, state: str, actor: Actor, why: str) -> None:
    """A locked request ends without anything being sent: rejected, withdrawn, expired or stale. The row stays, with who, when and why."""
    request.state = state
    request.ended_at, request.ended_by, request.ended_name, request.ended_why = transition.clock(), actor.id, actor.name, why
    write(request, "state", "ended_at", "ended_by", "ended_name", "ended_why")
    record(run, request, state, actor, {"why": why})


def follow(run: Run, effect: Effect, actor: Actor) -> None:
    """An undo's own effect has changed: its request is executed once its sending is over; done, failed and undone again are told."""
    if effect.state in (states.DECLARED, states.SENDING):
        return
    request = Compensation.objects.select_for_update().get(effect=effect)
    if request.state == undo_states.EXECUTING:
        request.state = undo_states.EXECUTED
        write(request, "state")
    told = {"effect": effect.ref, "state": effect.state, "external_id": effect.external_id, "message": effect.provider_message}
    if effect.state == states.LANDED:
        record(run, request, "undone", actor, told)
    elif effect.state in undo_states.FAILED:
        record(run, request, "failed", actor, told)


def record(run: Run, request: Compensation, what: str, actor: Actor, data: dict[str, Any] | None = None) -> None:
    """One event about the request in the stream of its run."""
    about = {
        "original": request.original.ref,
        "amount": request.amount,
        "currency": request.currency or None,
        "version": request.version,
        "digest": request.digest,
    }
    transition.record(run, f"compensation.{what}", actor, subject=request.ref, data=about | (data or {}))


def write(request: Compensation, *names: str) -> None:
    """Write these columns of a locked request."""
    changed = Compensation.objects.filter(pk=request.pk).update(**{name: getattr(request, name) for name in names})
    if changed != 1:
        raise AssertionError(f"{request.ref} is gone although it was locked")
