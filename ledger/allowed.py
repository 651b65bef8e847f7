"""What a person may do to an effect now: the one function behind its buttons, for page and push alike. Every verb checks again."""

from __future__ import annotations

from ledger import absences, states
from runs import actors
from runs.actors import Actor

AGAIN = "again"


def allowed_actions(state: str, role: str, release: str, actor: Actor | None) -> frozenset[str]:
    """Nothing without an actor (a push). Doing it again is offered for what happened, and for what a person left unsent."""
    if actor is None or role != states.WORK:
        return frozenset()
    settled = state in (states.LANDED, states.DUPLICATED, states.REVERSED) or release == absences.LEFT
    return frozenset({AGAIN}) if settled and actor.may(actors.OCCURRENCE_OPEN) else frozenset()
