"""What proved absent, and who may send it after all. Leaving it is a person's decision; that a run ended decides nothing.

`release` of an absent effect: *asked* (a person is asked), *resend* (policy lets its own run send it again), *released* (a person does),
*left* (a person said no, for every run), *unasked* (its run ended before anybody was asked: another run asks, or policy decides).
"""

from __future__ import annotations

import uuid

from django.db import transaction
from django.db.models import Q

from ledger import outcomes, states, timetable
from ledger.models import Effect
from runs import transition
from runs.actors import Actor
from runs.errors import AlreadyDecided

ASKED, LEFT, UNASKED = "asked", "left", "unasked"


def barring(effect: Effect) -> Effect | None:
    """The absent effect of another operation that bars this business action, with its run; what a person decided comes first."""
    asks = Q(release__in=[ASKED, LEFT]) | Q(
        release=UNASKED, sent_at__lte=timetable.asks_when_sent_before(effect.provider, transition.clock())
    )
    others = Effect.objects.filter(asks, **effect.action_key).exclude(pk=effect.pk).select_related("run")
    return min(others, key=lambda one: (LEFT, ASKED, UNASKED).index(one.release), default=None)


def ask(actor: Actor, operation_id: uuid.UUID) -> None:
    """Another run wants what a run that ended left undecided: now a person is asked."""
    with transaction.atomic(durable=True):
        held = outcomes.lock(operation_id)
        if held.effect.state == states.ABSENT and held.effect.release == UNASKED:
            held.effect.release = ASKED
            outcomes.move(held, held.effect.state, actor, {"release": ASKED}, always=True)


def left(effect: Effect) -> AlreadyDecided:
    """The refusal for what a person left unsent. Waiting changes nothing; doing it on purpose is a new occurrence."""
    return AlreadyDecided(
        f"{effect.action} {effect.business_ref} did not happen, and a person decided to leave it unsent ({effect.ref} of {effect.run.ref})."
        " A person may open a new occurrence of it.",
        effect=effect.ref,
        run=effect.run.ref,
        operation_id=str(effect.pk),
    )
