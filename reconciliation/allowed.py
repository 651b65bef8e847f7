"""What a person may do to a case now: the one function behind every button. Every verb checks again."""

from __future__ import annotations

from datetime import datetime

from ledger import states as effect_states
from reconciliation import states
from reconciliation.models import Case
from runs import actors
from runs.actors import Actor

CLAIM, TAKE_OVER, SETTLE, CONFIRM, PASS_ON, CHECK_NOW = "claim", "take_over", "settle", "confirm", "pass_on", "check_now"


def allowed_actions(case: Case, actor: Actor | None, now: datetime) -> frozenset[str]:
    """Nothing without an actor (a push). A case that settles itself cannot be claimed; a claim is kept while it lasts."""
    if actor is None:
        return frozenset()
    allowed = {CHECK_NOW} if _can_be_checked(case) and actor.may(actors.CASE_READ) else set()
    if not actor.may(actors.CASE_SETTLE) or case.state == states.SETTLED:
        return frozenset(allowed)
    if case.state == states.AWAITING_SECOND:
        mine = case.finding is not None and case.finding["by"] == actor.id
        return frozenset(allowed if mine else allowed | {CONFIRM})
    if not states.VERDICTS[case.kind]:
        return frozenset(allowed)
    held = case.state == states.CLAIMED and case.claimed_until is not None and case.claimed_until > now
    if held and case.claimed_by != actor.id:
        return frozenset(allowed | {TAKE_OVER})
    return frozenset(allowed | ({SETTLE, PASS_ON} if held else {CLAIM}))


def _can_be_checked(case: Case) -> bool:
    return case.state != states.SETTLED and case.effect is not None and case.effect.state in effect_states.LOOKED_AT
