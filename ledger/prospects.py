"""What can be asked of an effect: the facts on which the rules judge, and how it stands for screens, from rows that are read already."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ledger import catalogue, rules, states, undo_states
from ledger.models import Compensation, Effect, Evidence, Reversal
from ledger.naming import action_words, provider_name
from ledger.providers.base import Capability
from ledger.rules import Asked, Terms, Verdict
from runs.errors import ProviderUnknown

SURPLUS = "surplus"
"""The verdict of the evidence with which a person names the objects that are too many."""


@dataclass(frozen=True)
class Wanted:
    """What somebody asks for. `amount` is minor units of `currency`; `external_id` names one surplus object, '' the effect's own."""

    amount: int | None
    currency: str
    reason: str
    note: str = ""
    external_id: str = ""


@dataclass(frozen=True)
class Standing:
    """How much of an object is undone, being undone or allowed to be (minor units), and which objects are too many."""

    committed: int = 0
    taken: bool = False
    surplus: frozenset[str] = frozenset()


def capability(provider: str) -> Capability | None:
    """What the provider promises; None when it is not configured any more."""
    try:
        return catalogue.capability(provider)
    except ProviderUnknown:
        return None


def target_of(effect: Effect, external_id: str = "") -> str:
    """The provider's id of what would be undone. Of several objects one must be named."""
    return external_id or (effect.external_id if effect.state != states.DUPLICATED else "")


def asked(effect: Effect, wanted: Wanted, now: datetime, standing: Standing) -> Asked:
    """The facts on which the rules judge."""
    record = capability(effect.provider)
    return Asked(
        state=effect.state,
        what=action_words(effect.action),
        provider_name=provider_name(effect.provider),
        undo_action=record.compensable.get(effect.action, "") if record else "",
        target=target_of(effect, wanted.external_id),
        amount=wanted.amount,
        currency=wanted.currency,
        landed=effect.landed_amount,
        landed_currency=effect.landed_currency,
        landed_at=effect.provider_time or effect.known_at,
        now=now,
        committed=standing.committed,
        taken=standing.taken,
        partly=bool(record and effect.action in record.partly_compensable),
        surplus=standing.surplus,
        why_never=record.irreversible.get(effect.action, "") if record else f"{effect.provider} is not configured here any more",
    )


@dataclass(frozen=True)
class Prospect:
    """Whether an undo can be asked for now: `left` is what could be given back (minor units), `why_not` the rules' sentence against it.

    `open`: a request that waits for a decision. `target` is the object that would be undone.
    """

    verdict: Verdict
    target: str
    left: int | None
    open: Compensation | None = None

    @property
    def possible(self) -> bool:
        return self.verdict.eligible and self.open is None

    @property
    def used_up(self) -> bool:
        """All of it is undone or being undone: the only thing that speaks against another."""
        return self.verdict.refusal is not None and self.verdict.refusal.code == rules.EXCEEDS_LANDED

    @property
    def why_not(self) -> str:
        return self.verdict.refusal.says if self.verdict.refusal else ""


def prospect(
    effect: Effect,
    terms: Terms | None,
    undos: Sequence[Compensation],
    reversals: Sequence[Reversal],
    evidence: Sequence[Evidence],
    now: datetime,
) -> Prospect:
    """The prospect of undoing as much as is left of an effect; of a duplicated one, of the first surplus object that is left."""
    surplus = surplus_in(evidence) if effect.state == states.DUPLICATED else frozenset()
    free = [one for one in sorted(surplus) if not sum_of([u for u in undos if u.target == one])]
    target = target_of(effect, free[0] if free else next(iter(sorted(surplus)), ""))
    mine = [one for one in undos if one.target == target and is_alive(one)]
    committed = sum_of(mine) + sum(one.amount for one in reversals if one.failed_at is None)
    landed = effect.landed_amount
    left = None if landed is None else max(0, landed - committed)
    standing = Standing(committed, bool(mine), surplus)
    record = capability(effect.provider)
    partly = bool(record and effect.action in record.partly_compensable)
    most = terms.max_amount if terms is not None else None
    amount = left if not partly or most is None or left is None else min(left, most)
    wanted = Wanted(max(1, amount) if amount is not None else None, effect.landed_currency, "", external_id=target)
    waiting = next((one for one in undos if one.state == undo_states.REQUESTED), None)
    if landed is not None and not left:
        wanted = Wanted(landed, effect.landed_currency, "", external_id=target)
    return Prospect(rules.judge(terms, asked(effect, wanted, now, standing)), target, amount, waiting)


def surplus_in(evidence: Sequence[Evidence]) -> frozenset[str]:
    """The objects that a person named as too many; the last word counts."""
    named = [one for one in evidence if one.source == "person" and one.verdict == SURPLUS]
    return frozenset(named[-1].detail.get("external_ids", ())) if named else frozenset()


def is_alive(one: Compensation) -> bool:
    """Whether its sum is taken: approved, on its way, carried out and not failed, or unknown."""
    if one.state in (undo_states.APPROVED, undo_states.EXECUTING):
        return True
    return one.state == undo_states.EXECUTED and one.effect is not None and one.effect.state not in undo_states.FAILED


def sum_of(undos: Sequence[Compensation]) -> int:
    """Minor units of the requests whose sum is taken."""
    return sum(_amount(one) for one in undos if is_alive(one))


def _amount(one: Compensation) -> int:
    landed = one.effect.landed_amount if one.effect is not None else None
    return (landed if landed is not None else one.amount) or 0


def undone_amount(effect: Effect, acting: Sequence[Effect], reversals: Sequence[Reversal]) -> int:
    """Minor units of a landed effect that are undone for certain, by us or elsewhere."""
    done = [one for one in acting if one.role == states.COMPENSATION and one.state == states.LANDED]
    return sum(one.landed_amount or one.amount or 0 for one in done) + sum(one.amount for one in reversals if one.failed_at is None)


def is_undone(effect: Effect, acting: Sequence[Effect], reversals: Sequence[Reversal]) -> bool:
    """Whether nothing of a landed effect is in effect any more. Undoing a surplus object leaves the one that was wanted."""
    if effect.state != states.LANDED:
        return False
    if effect.landed_amount is None:
        return any(one.role == states.COMPENSATION and one.state == states.LANDED for one in acting)
    undone = undone_amount(effect, acting, reversals)
    return undone > 0 and undone >= effect.landed_amount
