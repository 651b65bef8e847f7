"""What a person says who looks for themselves: only what they could know from outside."""

from __future__ import annotations

from typing import Any

from reconciliation import states as cs
from reconciliation.models import Case
from tests.twin.outside import Outside

IN_DOUBT = (cs.NOT_FOUND_SENDER_ALIVE, cs.CEILING, cs.CONFLICTING, cs.NO_LOOKUP)
"""The cases that ask whether an effect happened."""


def finding(outside: Outside, case: Case, again: bool) -> dict[str, Any] | None:
    """The finding of somebody who may look at the provider's own log; None while they can say nothing. `again`: what they would like."""
    if case.kind == cs.ABSENT_ASK:
        return {"verdict": cs.SEND_AGAIN if again else cs.LEAVE}
    if case.kind not in IN_DOUBT:
        return {"verdict": cs.SURPLUS_NAMED if case.kind == cs.DUPLICATED else cs.NOT_OURS}
    assert case.effect_id is not None
    if done := outside.executed(case.effect_id):
        return _happened(outside, done[0], case)
    if not outside.may_still_happen(case.effect_id):
        return {"verdict": cs.DID_NOT_HAPPEN, "sender_gone": "I ended it and waited for a minute."}
    asleep = not any(packet.operation == case.effect_id for packet in outside.under_way)
    return {"verdict": cs.DID_NOT_HAPPEN} if asleep else None  # kept, and no more: a sleeper may still write


def _happened(outside: Outside, external_id: str, case: Case) -> dict[str, Any]:
    money = outside.money_of(external_id)
    if money["amount"] == case.amount:
        return {"verdict": cs.HAPPENED, "external_id": external_id}
    return {"verdict": cs.HAPPENED_DIFFERENTLY, "external_id": external_id} | money
