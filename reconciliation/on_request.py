"""A person asks for the case of an effect before its ceiling, or for one that could not be known: they know something, or will find out."""

from __future__ import annotations

import uuid

from django.db import transaction

from ledger import outcomes, states
from reconciliation import cases
from reconciliation import states as cs
from reconciliation.models import Case
from runs import actors
from runs.actors import Actor
from runs.errors import Conflict


def open_case(actor: Actor, operation_id: uuid.UUID, why: str) -> tuple[Case, bool]:
    """The open case of an effect in doubt, made when there is none. Returns it and whether it was opened now.

    Looks go on as before. Raises `NotAllowed`, `NotFound`, and `Conflict` for what is known or still in flight.
    """
    actor.require(actors.CASE_SETTLE, None, "open cases")
    with transaction.atomic(durable=True):
        held = outcomes.lock(operation_id)
        effect = held.effect
        open_one = Case.objects.filter(effect=effect).exclude(state=cs.SETTLED).order_by("opened_at").first()
        if open_one is not None:
            return open_one, False
        said = why.strip() or f"{actor.name} asked for it to be settled by a person."
        if effect.unknowable:
            _take_up_again(held, actor)
        elif effect.state in (states.UNKNOWN, states.PENDING):
            outcomes.move(held, states.AMBIGUOUS, actor, {"why": said})
        elif effect.state not in (states.AMBIGUOUS, states.CONFLICTED):
            raise Conflict(f"{effect.ref} is {effect.state}: there is nothing in doubt for a person to settle.", state=effect.state)
        kind = cs.CONFLICTING if effect.state == states.CONFLICTED else cs.CEILING
        return cases.open_for_effect(held, kind, said, actor), True


def _take_up_again(held: outcomes.Locked, actor: Actor) -> None:
    """Two people had found that it cannot be known; somebody knows where to look after all."""
    held.effect.unknowable = False
    held.run.unknowable -= 1
    held.run.in_doubt += 1
    outcomes.move(held, held.effect.state, actor, {"unknowable": False}, always=True)
