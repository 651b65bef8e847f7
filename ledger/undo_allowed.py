"""What a person may do about undoing now: the one function behind every button. Every verb checks again."""

from __future__ import annotations

from collections.abc import Mapping

from ledger import undo_states
from ledger.models import Compensation
from ledger.prospects import Prospect
from runs import actors
from runs.actors import Actor

ASK, APPROVE, REJECT, WITHDRAW = "undo", "approve", "reject", "withdraw"


def allowed_on_effect(prospect: Prospect, actor: Actor | None) -> frozenset[str]:
    """`undo` while one could be asked for, for people who may ask."""
    if actor is None or not actor.is_person or not prospect.possible or not actor.may(actors.COMPENSATION_REQUEST):
        return frozenset()
    return frozenset({ASK})


def allowed_on_request(request: Compensation, actor: Actor | None, excluded: Mapping[str, str]) -> frozenset[str]:
    """Nothing to decide for whoever is excluded (`ledger.undoing.excluded`); taking it back is for all who may ask or approve."""
    if actor is None or not actor.is_person:
        return frozenset()
    allowed = set()
    approves = actor.may(actors.COMPENSATION_APPROVE)
    if request.state == undo_states.REQUESTED and approves and actor.id not in excluded:
        allowed |= {APPROVE, REJECT}
    if request.state in undo_states.UNDECIDED_OR_DUE and (approves or actor.may(actors.COMPENSATION_REQUEST)):
        allowed.add(WITHDRAW)
    return frozenset(allowed)
