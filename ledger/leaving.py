"""Left in place: a recorded decision not to undo what landed. It changes nothing about the effect and forbids nothing later."""

from __future__ import annotations

import uuid

from django.db import transaction

from ledger import outcomes, states
from ledger.models import Effect
from runs import actors, transition
from runs.actors import Actor
from runs.errors import Conflict, Invalid

REASON_MAX = 2000


def leave_in_place(actor: Actor, operation_id: uuid.UUID, reason: str) -> Effect:
    """Record that this landed effect stays, and why. Raises `NotAllowed`, `NotFound`, `Invalid`; `Conflict` for what is not in effect."""
    actor.require(actors.CASE_SETTLE, None, "decide that something is left in place")
    reason = reason.strip()
    if not reason or len(reason) > REASON_MAX:
        raise Invalid(f"reason: say why it is left in place, in at most {REASON_MAX:,} characters.", field="reason")
    with transaction.atomic(durable=True):
        held = outcomes.lock(operation_id)
        effect = held.effect
        if effect.state not in states.LANDED_LIKE:
            raise Conflict(f"{effect.ref} is {effect.state}: only what landed can be left in place.", effect=effect.ref, state=effect.state)
        effect.left_in_place_by, effect.left_in_place_at = actor.name, transition.clock()
        outcomes.move(held, effect.state, actor, {"left_in_place": True, "reason": reason}, always=True)
        return effect
