"""The rules of undoing as they are kept: versions that are never edited, written by administrators with a reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from django.db import transaction

from ledger import catalogue
from ledger.models import CompensationRule
from ledger.money import UnknownCurrency, exponent
from ledger.rules import Terms
from runs import actors, timeline, transition
from runs.actors import Actor
from runs.errors import Invalid, Stale
from runs.turns import take_turn

Key = tuple[str, str, str]
AMOUNT_MAX = 10**15
DAYS_MAX = 3650
APPROVALS_MAX = 5


@dataclass(frozen=True)
class NewTerms:
    """What a rule shall say from now on. Amounts are minor units of the rule's currency."""

    active: bool = True
    max_amount: int | None = None
    days_after_landing: int | None = None
    approvals: int = 1
    second_from: int | None = None


def current(provider: str, action: str, currency: str) -> Terms | None:
    """The terms that hold now for undoing that action in that currency, or None."""
    rule = CompensationRule.objects.filter(provider=provider, action=action, currency=currency).order_by("-version").first()
    return terms(rule) if rule is not None else None


def all_current() -> list[CompensationRule]:
    """The latest version of every rule, withdrawn ones too."""
    return list(CompensationRule.objects.order_by("provider", "action", "currency", "-version").distinct("provider", "action", "currency"))


def by_key(rules: Iterable[CompensationRule]) -> dict[Key, Terms]:
    """Terms by provider, action and currency."""
    return {(rule.provider, rule.action, rule.currency): terms(rule) for rule in rules}


def terms(rule: CompensationRule) -> Terms:
    """The terms of a stored version."""
    return Terms(rule.version, rule.active, rule.max_amount, rule.days_after_landing, rule.approvals, rule.second_from)


def versions(provider: str, action: str, currency: str) -> list[CompensationRule]:
    """Every version of one rule, the newest first."""
    return list(CompensationRule.objects.filter(provider=provider, action=action, currency=currency).order_by("-version"))


def change(
    actor: Actor, provider: str, action: str, currency: str, new: NewTerms, reason: str, seen_version: int | None = None
) -> CompensationRule:
    """Write the next version of a rule, recorded in the system stream. Requests that rest on the one before it become stale.

    `seen_version`: the version that the administrator was shown (0: none). Raises `NotAllowed`, `ProviderUnknown`, `Invalid`, `Stale`.
    """
    actor.require(actors.RULE_CHANGE, None, "change the rules of undoing")
    _check(provider, action, currency, new, reason)
    actor.require_recent("change the rules of undoing")
    with transaction.atomic(durable=True):
        take_turn("undo rule " + "\x1f".join((provider, action, currency)))  # the first version has no row to lock
        before = CompensationRule.objects.filter(provider=provider, action=action, currency=currency).order_by("-version").first()
        version = before.version if before else 0
        if seen_version is not None and seen_version != version:
            raise Stale(f"You saw version {seen_version} of this rule; it is version {version} now. Look again.", version=version)
        rule = CompensationRule(
            provider=provider,
            action=action,
            currency=currency,
            version=version + 1,
            **asdict(new),
            reason=reason.strip(),
            changed_by=actor.id,
            changed_name=actor.name,
            changed_at=transition.clock(),
        )
        rule.save()
        data = {"before": asdict(terms(before)) if before else None, "after": asdict(terms(rule)), "reason": rule.reason}
        timeline.append_system("undo_rule.changed", actor, f"{provider}.{action} {currency}".strip(), data)
        return rule


def _check(provider: str, action: str, currency: str, new: NewTerms, reason: str) -> None:
    record = catalogue.capability(provider)
    if action not in record.compensable:
        possible = ", ".join(sorted(record.compensable)) or "nothing"
        raise Invalid(f"{provider} cannot undo {action!r}. What it can undo: {possible}.", field="action")
    if currency:
        try:
            exponent(currency)
        except UnknownCurrency as unknown:
            raise Invalid(f"currency: {unknown}. Use an ISO 4217 code such as EUR.", field="currency") from unknown
    for name in ("max_amount", "second_from"):
        value = getattr(new, name)
        if value is not None and not currency:
            raise Invalid(f"{name} needs a currency.", field=name)
        if value is not None and not 1 <= value <= AMOUNT_MAX:
            raise Invalid(f"{name} must be a whole number of minor units, from 1.", field=name)
    if new.days_after_landing is not None and not 0 <= new.days_after_landing <= DAYS_MAX:
        raise Invalid(f"days_after_landing must be from 0 to {DAYS_MAX}, or none.", field="days_after_landing")
    if not 1 <= new.approvals <= APPROVALS_MAX:
        raise Invalid(f"approvals must be from 1 to {APPROVALS_MAX}.", field="approvals")
    if not reason.strip():
        raise Invalid("Changing a rule needs a reason, which auditors see.", field="reason")
