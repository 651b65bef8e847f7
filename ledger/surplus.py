"""What happened more than once: the objects found under one reference, and which of them a person has named as too many.

An undo may be asked for each named one; the remaining object stays what the effect did.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ledger import outcomes, settling, states
from ledger.models import Effect
from ledger.outcomes import Fact, Locked
from ledger.prospects import SURPLUS
from runs.actors import Actor


@dataclass(frozen=True)
class Found:
    """One object at the provider. `amount` is in minor units of `currency`; None where nobody has told it."""

    external_id: str
    amount: int | None = None
    currency: str = ""


def objects(effect: Effect) -> list[Found]:
    """Every object that was ever found for a duplicated effect, in the order in which we heard of them. One query."""
    found: dict[str, Found] = {}
    for evidence in effect.evidence.filter(verdict__in=[states.LANDED, states.DUPLICATED]).order_by("at", "id"):
        told = [Found(one["external_id"], one.get("amount"), one.get("currency") or "") for one in evidence.detail.get("objects", [])]
        told += [Found(str(one)) for one in evidence.detail.get("external_ids", [])]
        if evidence.external_id and evidence.source != "person":
            told.append(Found(evidence.external_id, evidence.amount, evidence.currency))
        for one in told:
            known = found.get(one.external_id)
            found[one.external_id] = one if known is None or known.amount is None else known
    return list(found.values())


def named(effect: Effect) -> list[Found]:
    """The objects of a duplicated effect that a person has named as surplus; empty before, and for any other effect. Two queries."""
    if effect.state != states.DUPLICATED:
        return []
    said = effect.evidence.filter(source="person", verdict=SURPLUS).order_by("-at", "-id").first()
    surplus = set(said.detail["external_ids"]) if said is not None else set()
    return [one for one in objects(effect) if one.external_id in surplus] if surplus else []


def name(held: Locked, surplus: tuple[str, ...], fact: Fact, actor: Actor) -> None:
    """Record which objects are too many, as evidence; when one remains, that is the effect's own."""
    ids = [one.external_id for one in objects(held.effect)]
    detail = {**fact.detail, "external_ids": list(surplus), "found": ids}
    outcomes.note(held, replace(fact, verdict=SURPLUS, detail=detail), actor, settling.APPLIED)
    kept = [one for one in ids if one not in surplus]
    if len(kept) == 1:
        held.effect.external_id = kept[0]
    outcomes.move(held, held.effect.state, actor, {"surplus": list(surplus)}, always=True)
