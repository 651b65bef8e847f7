"""Whether an undo is owed: one pure function of the rule, the effect's facts and what is asked. People decide whether it is done.

No row, no clock, no model is read here; every sentence of the verdict is kept with the request.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from ledger import states
from ledger.money import UnknownCurrency, money_text

NOT_ELIGIBLE = "not_eligible"
EXCEEDS_LANDED = "exceeds_landed"


@dataclass(frozen=True)
class Terms:
    """One version of a rule. Amounts are minor units of its currency; None: no limit. `second_from`: two people from this amount on."""

    version: int
    active: bool = True
    max_amount: int | None = None
    days_after_landing: int | None = None
    approvals: int = 1
    second_from: int | None = None


@dataclass(frozen=True)
class Asked:
    """What is asked, and how its original stands. `committed`: undone, being undone or allowed to be; `landed` is None without money.

    `undo_action` is what undoes it ('' when the provider cannot); `why_never` says why not; `partly`: a part of it can be undone.
    """

    state: str
    what: str
    provider_name: str
    undo_action: str
    target: str
    amount: int | None
    currency: str
    landed: int | None
    landed_currency: str
    landed_at: datetime | None
    now: datetime
    committed: int = 0
    taken: bool = False
    partly: bool = False
    surplus: frozenset[str] = frozenset()
    why_never: str = ""


@dataclass(frozen=True)
class Reason:
    """One sentence of a verdict: whether it speaks for the undo, and the code of the refusal if not."""

    holds: bool
    says: str
    code: str = NOT_ELIGIBLE

    def as_json(self) -> dict[str, Any]:
        return {"holds": self.holds, "says": self.says}


@dataclass(frozen=True)
class Verdict:
    """Whether the rules allow it, by which version, with how many approvals, and why."""

    rule_version: int
    approvals: int
    reasons: tuple[Reason, ...] = field(default_factory=tuple)

    @property
    def eligible(self) -> bool:
        return all(reason.holds for reason in self.reasons)

    @property
    def refusal(self) -> Reason | None:
        """The first sentence that speaks against it."""
        return next((reason for reason in self.reasons if not reason.holds), None)


def judge(terms: Terms | None, asked: Asked) -> Verdict:
    """The verdict with every sentence of its reasons. What makes later questions meaningless ends the list."""
    reasons: list[Reason] = []
    for step in (_has_landed, _can_be_undone, _has_a_rule, _fits_the_money, _within_the_sum, _under_the_maximum, _in_time):
        said = step(terms, asked)
        reasons += said
        if any(not reason.holds for reason in said) and step in _DECISIVE:
            break
    needed = approvals_needed(terms, asked.amount)
    if all(reason.holds for reason in reasons):
        reasons.append(Reason(True, _approvals_words(terms, needed)))
    return Verdict(terms.version if terms else 0, needed, tuple(reasons))


def approvals_needed(terms: Terms | None, amount: int | None) -> int:
    """How many different people must approve; at least one."""
    if terms is None:
        return 1
    second = terms.second_from is not None and (amount is None or amount >= terms.second_from)
    return max(terms.approvals, 2 if second else 1)


def _has_landed(terms: Terms | None, asked: Asked) -> list[Reason]:
    if asked.state == states.DUPLICATED:
        if not asked.surplus:
            return [Reason(False, f"This {asked.what} happened more than once, and nobody has named yet which ones are too many.")]
        if asked.target not in asked.surplus:
            return [Reason(False, f"{asked.target or 'That object'} is not one of those that were found to be too many.")]
        return [Reason(True, f"{asked.target} was found to be one too many.")]
    if asked.state != states.LANDED:
        return [Reason(False, f"Only what has landed can be undone, and this {asked.what} is {asked.state}.")]
    return [Reason(True, f"This {asked.what} has landed and is in effect.")]


def _can_be_undone(terms: Terms | None, asked: Asked) -> list[Reason]:
    if not asked.undo_action:
        why = asked.why_never or f"{asked.provider_name} has no way to undo this {asked.what} that we may use"
        return [Reason(False, f"{why.rstrip('.')}.")]
    if not asked.target:
        return [Reason(False, f"{asked.provider_name}'s own reference of it is not on record, so nothing names what to undo.")]
    return [Reason(True, f"{asked.provider_name} can undo it.")]


def _has_a_rule(terms: Terms | None, asked: Asked) -> list[Reason]:
    money = f" in {asked.landed_currency}" if asked.landed_currency else ""
    if terms is None or not terms.active:
        return [Reason(False, f"No rule allows this {asked.what} at {asked.provider_name}{money} to be undone.")]
    return [Reason(True, f"Rule version {terms.version} is about this {asked.what}{money}.")]


def _fits_the_money(terms: Terms | None, asked: Asked) -> list[Reason]:
    if asked.landed is None:
        whole = asked.amount is None and not asked.currency
        return [] if whole else [Reason(False, "It moved no money, so it can only be undone as a whole, without an amount.")]
    if asked.amount is None or asked.currency != asked.landed_currency:
        return [Reason(False, f"It landed in {asked.landed_currency}, so what is given back is an amount in {asked.landed_currency}.")]
    if asked.amount < 1:
        return [Reason(False, "The amount to give back must be more than nothing.")]
    if not asked.partly and asked.amount != asked.landed:
        return [Reason(False, f"{asked.provider_name} undoes it only whole: {_text(asked.landed, asked.landed_currency)}.")]
    return []


def _within_the_sum(terms: Terms | None, asked: Asked) -> list[Reason]:
    if asked.landed is None or asked.amount is None:
        if asked.taken:
            return [Reason(False, "It is undone or being undone already.", EXCEEDS_LANDED)]
        return []
    left = max(0, asked.landed - asked.committed)
    landed, rest = _text(asked.landed, asked.landed_currency), _text(left, asked.landed_currency)
    if asked.amount > left:
        taken = _text(asked.committed, asked.landed_currency)
        used = f", and {taken} of it is undone or being undone already" if asked.committed else ""
        return [Reason(False, f"It landed for {landed}{used}: {rest} can still be given back.", EXCEEDS_LANDED)]
    return [Reason(True, f"Of {landed} that landed, {rest} can still be given back.")]


def _under_the_maximum(terms: Terms | None, asked: Asked) -> list[Reason]:
    if terms is None or terms.max_amount is None or asked.amount is None:
        return []
    most = _text(terms.max_amount, asked.landed_currency)
    return [Reason(asked.amount <= terms.max_amount, f"The rule allows up to {most} at a time.")]


def _in_time(terms: Terms | None, asked: Asked) -> list[Reason]:
    if terms is None or terms.days_after_landing is None:
        return []
    days = f"{terms.days_after_landing:,} day{'' if terms.days_after_landing == 1 else 's'}"
    in_time = asked.landed_at is not None and asked.now <= asked.landed_at + timedelta(days=terms.days_after_landing)
    return [Reason(in_time, f"The rule allows it for {days} after it landed{'' if in_time else ', which are over'}.")]


def _approvals_words(terms: Terms | None, needed: int) -> str:
    return "One other person must approve it." if needed == 1 else f"{needed} other people must approve it."


def _text(amount: int, currency: str) -> str:
    try:
        return money_text(amount, currency)
    except UnknownCurrency:
        return f"{amount} minor units of {currency}"


Step = Callable[[Terms | None, Asked], list[Reason]]
_DECISIVE: tuple[Step, ...] = (_has_landed, _can_be_undone, _has_a_rule, _fits_the_money)
