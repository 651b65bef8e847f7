"""What a worker is about to do, and the rows that stand for it: intents, operation ids, new effects and attempts. It grants nothing."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ledger import catalogue, states
from ledger.models import Attempt, Effect, effect_ref
from ledger.money import UnknownCurrency, exponent
from runs.approvals import action_digest
from runs.errors import Invalid

SEND_WITHIN_S = 10.0
ANSWER_WITHIN_S = 30.0
WITHIN_S_MAX = 3600.0
AMOUNT_MAX = 10**15


SENDING = "sending"
DECLARED = "declared"
KNOWN = "known"
RELIED = "relied"


@dataclass(frozen=True)
class Intent:
    """What a worker is about to do. `amount` is an integer of minor units of `currency`; `request` is the canonical business payload."""

    step: str
    provider: str
    action: str
    business_ref: str
    request: dict[str, Any]
    ordinal: int = 0
    occurrence: int = 1
    if_exists: str = "refuse"
    amount: int | None = None
    currency: str = ""
    approval: uuid.UUID | None = None
    send_within_s: float = SEND_WITHIN_S
    answer_within_s: float = ANSWER_WITHIN_S
    role: str = states.WORK

    def request_digest(self) -> str:
        """The digest of what would be done: same operation with another digest is another payload."""
        return action_digest(self.provider, self.action, self.business_ref, self.request, self.occurrence, self.amount, self.currency)


@dataclass(frozen=True)
class Permission:
    """The answer to an intent: `sending` (the go-ahead, with its attempt), `declared`, `known` (replay) or `relied` (reuse)."""

    kind: str
    effect: Effect
    attempt: Attempt | None = None
    now: datetime | None = None


def operation_id(run_id: uuid.UUID, step: str, ordinal: int) -> uuid.UUID:
    """The stable id of an operation: of run, step key and ordinal only, never of time, attempt or model text."""
    return uuid.uuid5(run_id, f"{step}\x1f{ordinal}")


def check_nonce(nonce: str) -> None:
    """Refuse a nonce that cannot be one: 16 to 64 characters, made in memory for one call."""
    if not 16 <= len(nonce) <= 64:
        raise Invalid("nonce must be 16 to 64 random characters, made for this one call.", field="nonce")


def check(intent: Intent, nonce: str) -> None:
    """Refuse what could never be sent rightly. Raises `ProviderUnknown`, `Invalid`."""
    catalogue.provider(intent.provider)
    check_nonce(nonce)
    if intent.amount is not None and not 0 <= intent.amount <= AMOUNT_MAX:
        raise Invalid("amount must be a whole number of minor units, from 0.", field="amount")
    if (intent.amount is None) != (not intent.currency):
        raise Invalid("amount and currency go together.", field="currency" if intent.amount is not None else "amount")
    if intent.currency:
        try:
            exponent(intent.currency)
        except UnknownCurrency as unknown:
            raise Invalid(f"currency: {unknown}. Use an ISO 4217 code such as EUR.", field="currency") from unknown
    for name in ("send_within_s", "answer_within_s"):
        if not 0.1 <= getattr(intent, name) <= WITHIN_S_MAX:
            raise Invalid(f"{name} must be between 0.1 and {WITHIN_S_MAX:g} seconds.", field=name)
    if intent.occurrence < 1:
        raise Invalid("occurrence must be 1, or the number of one that a person opened.", field="occurrence")
    if intent.occurrence != 1 and intent.role == states.CLEANUP:
        raise Invalid("occurrence: a cleanup tidies once; leave it out.", field="occurrence")
    if intent.if_exists not in ("refuse", "reuse"):
        raise Invalid("if_exists must be refuse or reuse.", field="if_exists")
    if intent.role not in (states.WORK, states.CLEANUP):
        raise Invalid("role must be work or cleanup.", field="role")


def new_effect(run_id: uuid.UUID, intent: Intent, begin: bool) -> Effect:
    """The row of a new operation, not saved."""
    return Effect(
        operation_id=operation_id(run_id, intent.step, intent.ordinal),
        ref=effect_ref(),
        run_id=run_id,
        step_key=intent.step,
        ordinal=intent.ordinal,
        role=intent.role,
        provider=intent.provider,
        action=intent.action,
        business_ref=intent.business_ref,
        occurrence=intent.occurrence,
        amount=intent.amount,
        currency=intent.currency,
        request=intent.request,
        request_digest=intent.request_digest(),
        state=states.SENDING if begin else states.DECLARED,
    )


def new_attempt(
    effect: Effect,
    number: int,
    epoch: int,
    holder: str,
    nonce: str,
    position: int,
    now: datetime,
    lease_ends: datetime,
    intent: Intent,
) -> Attempt:
    """The row of an attempt, not saved. Writing must begin before `send_by`, which never outlasts the lease."""
    return Attempt(
        effect=effect,
        run_id=effect.run_id,
        number=number,
        epoch=epoch,
        holder=holder,
        nonce=nonce,
        position=position,
        sent_at=now,
        send_by=min(now + timedelta(seconds=intent.send_within_s), lease_ends),
        answer_by=now + timedelta(seconds=intent.answer_within_s),
    )


def holder_of(intent: Intent) -> Effect | None:
    """The effect that holds this business action over all runs, or None."""
    return (
        Effect.objects.filter(
            provider=intent.provider,
            action=intent.action,
            business_ref=intent.business_ref,
            occurrence=intent.occurrence,
            holds_action=True,
        )
        .select_related("run")
        .first()
    )
