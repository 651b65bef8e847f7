"""What a person may do to an effect now: the one function behind its buttons, for page and push alike. Every verb checks again."""

from __future__ import annotations

from ledger import absences, states
from runs import actors
from runs.actors import Actor

AGAIN, CASE = "again", "case"


def allowed_actions(state: str, role: str, release: str, actor: Actor | None, unknowable: bool = False) -> frozenset[str]:
    """Nothing without an actor (a push). Doing it again is offered for what happened, and for what a person left unsent; opening its case
    for what is being checked, and for what could not be known."""
    if actor is None or role != states.WORK:
        return frozenset()
    settled = state in (states.LANDED, states.DUPLICATED, states.REVERSED) or release == absences.LEFT
    doubtful = state in (states.UNKNOWN, states.PENDING) or unknowable
    again = {AGAIN} if settled and actor.may(actors.OCCURRENCE_OPEN) else set()
    return frozenset(again | ({CASE} if doubtful and actor.may(actors.CASE_SETTLE) else set()))
