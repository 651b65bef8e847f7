"""Permission to send: declare an effect and begin it under the run's fence, durably, for the owner of one nonce.

The lock comes first and every decision after it, each statement with a snapshot of its own. A caller that cannot read a confirmed
"sending, mine" sends nothing.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction
from psycopg.types.json import Jsonb

from ledger import catalogue, outcomes, states
from ledger.models import Attempt, Effect, Reliance, effect_ref
from ledger.money import UnknownCurrency, exponent
from runs import actors, leases, transition
from runs.actors import Actor
from runs.errors import (
    AbsentAsk,
    AlreadyLanded,
    Cancelled,
    Conflict,
    InDoubt,
    Invalid,
    LeaseLost,
    NotFound,
    OccurrenceNotOpen,
    PayloadMismatch,
)
from runs.ids import digest
from runs.models import Step
from runs.timeline import INSERT_EVENT, event_values

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
    send_within_s: float = SEND_WITHIN_S
    answer_within_s: float = ANSWER_WITHIN_S
    role: str = states.WORK

    def request_digest(self) -> str:
        """The digest of what would be done: same operation with another digest is another payload."""
        return digest([self.provider, self.action, self.business_ref, self.occurrence, self.amount, self.currency, self.request])


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


def declare(actor: Actor, run_id: uuid.UUID, token: str, nonce: str, intent: Intent, begin: bool = True) -> Permission:
    """Declare an effect and, with `begin`, its sending: one commit, or nothing.

    A raised commit is an unknown commit: ask again with the same nonce. Raises `Cancelled`, `LeaseLost`, `InDoubt`, `AlreadyLanded`,
    `PayloadMismatch`, `AbsentAsk`, `OccurrenceNotOpen`, `ProviderUnknown`, `Invalid`.
    """
    _check(intent, nonce)
    try:
        with transaction.atomic(durable=True):
            return _insert(actor, run_id, token, nonce, intent, begin)
    except (Cancelled, LeaseLost) as refusal:
        leases.note_refusal(actor, run_id, "effect.begin", refusal)
        raise
    except IntegrityError as clash:
        return _classify(actor, run_id, token, nonce, intent, begin, clash)


def _check(intent: Intent, nonce: str) -> None:
    catalogue.provider(intent.provider)
    if not 16 <= len(nonce) <= 64:
        raise Invalid("nonce must be 16 to 64 random characters, made for this one call.", field="nonce")
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
    if intent.occurrence != 1:
        raise OccurrenceNotOpen(
            f"Nobody has opened occurrence {intent.occurrence} of {intent.business_ref}. A person opens it, with a reason.",
            occurrence=intent.occurrence,
        )
    if intent.if_exists not in ("refuse", "reuse"):
        raise Invalid("if_exists must be refuse or reuse.", field="if_exists")
    if intent.role != states.WORK:
        raise Invalid("role must be work.", field="role")


# The hot path: the fence's own UPDATE takes the lock, and each later statement decides with a snapshot taken after it.
_FENCE = """
UPDATE runs_run SET version = version + 1, effects_total = effects_total + 1, in_flight = in_flight + %s,
       changed_at = clock_timestamp()
WHERE id = %s AND state = 'running' AND lease_token = %s AND lease_expires_at > clock_timestamp()
RETURNING version, lease_epoch, lease_holder, agent, clock_timestamp(), lease_expires_at
"""
_EFFECT = """
INSERT INTO ledger_effect (operation_id, ref, run_id, step_key, ordinal, role, provider, action, business_ref, occurrence,
    holds_action, amount, currency, request, request_digest, state, version, unknowable, doubted, release, withheld_why,
    landed_currency, external_id, how_we_know, known_by, provider_message, created_at, sent_at, answer_by, looks)
SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, true, %s, %s, %s, %s, %s, 1, false, false, '', '', '', '', '', '', '', %s, %s, %s, 0
WHERE EXISTS (SELECT 1 FROM runs_step WHERE run_id = %s AND key = %s AND state = 'running')
"""
_ATTEMPT = """
INSERT INTO ledger_attempt (id, effect_id, run_id, number, epoch, holder, nonce, state, position, sent_at, send_by, answer_by, stopped_how)
VALUES (%s, %s, %s, %s, %s, %s, %s, 'sending', %s, %s, %s, %s, '')
"""


def _insert(actor: Actor, run_id: uuid.UUID, token: str, nonce: str, intent: Intent, begin: bool) -> Permission:
    """The usual case: a new operation of a run that may act."""
    effect = _new_effect(run_id, intent, begin)
    with connection.cursor() as cursor:
        cursor.execute(_FENCE, (int(begin), run_id, token))
        row = cursor.fetchone()
        if row is None:
            raise leases.why_refused(transition.lock(run_id), token)
        version, epoch, holder, agent, now, expires_at = row
        actor.require(actors.RUN_WORK, agent, f"work for {agent}")
        _ask_if_absent_elsewhere(effect)
        attempt = _new_attempt(effect, 1, epoch, holder, nonce, version, now, expires_at, intent) if begin else None
        effect.created_at, effect.sent_at, effect.answer_by = (
            now,
            attempt and attempt.sent_at,
            attempt and attempt.answer_by,
        )
        cursor.execute(_EFFECT, _effect_values(effect))
        if cursor.rowcount != 1:
            raise Conflict(f"Step {intent.step} is not running: start the step before its effects.", field="step")
        if attempt is not None:
            cursor.execute(_ATTEMPT, _attempt_values(attempt))
        kind = "effect.sending" if begin else "effect.declared"
        data = {"attempt": 1, "epoch": epoch, "operation_id": str(effect.pk)}
        cursor.execute(INSERT_EVENT, event_values(run_id, version, kind, actor, effect.ref, data))
    return Permission(SENDING if begin else DECLARED, effect, attempt, now)


def _new_effect(run_id: uuid.UUID, intent: Intent, begin: bool) -> Effect:
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


def _effect_values(e: Effect) -> tuple[Any, ...]:
    key = (
        e.operation_id,
        e.ref,
        e.run_id,
        e.step_key,
        e.ordinal,
        e.role,
        e.provider,
        e.action,
        e.business_ref,
        e.occurrence,
    )
    what = (e.amount, e.currency, Jsonb(e.request), e.request_digest, e.state)
    return (*key, *what, e.created_at, e.sent_at, e.answer_by, e.run_id, e.step_key)


def _new_attempt(
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


def _attempt_values(a: Attempt) -> tuple[Any, ...]:
    return (
        a.id,
        a.effect_id,
        a.run_id,
        a.number,
        a.epoch,
        a.holder,
        a.nonce,
        a.position,
        a.sent_at,
        a.send_by,
        a.answer_by,
    )


def _ask_if_absent_elsewhere(effect: Effect) -> None:
    """After *absent* the action's policy holds for every run alike: where a person is asked, nobody else may go round them."""
    if catalogue.capability(effect.provider).after_absent != "ask":
        return
    asked = Effect.objects.filter(**effect.action_key, release="asked").exclude(pk=effect.pk).select_related("run").first()
    if asked is not None:
        raise AbsentAsk(
            f"{asked.ref} of {asked.run.ref} did not happen; a person decides whether it is sent again.",
            effect=asked.ref,
        )


def _classify(actor: Actor, run_id: uuid.UUID, token: str, nonce: str, intent: Intent, begin: bool, clash: IntegrityError) -> Permission:
    """A constraint has spoken: read which one, in a second transaction, and answer what it means."""
    name = getattr(getattr(clash.__cause__, "diag", None), "constraint_name", "") or ""
    if name == "effect_action_held_once":
        return _held_elsewhere(actor, run_id, token, intent)
    if name in ("ledger_effect_pkey", "effect_step_ordinal_once"):
        return _again(actor, run_id, token, nonce, intent, begin)
    if name == "ledger_effect_ref_key":
        return declare(actor, run_id, token, nonce, intent, begin)
    raise clash


@leases.act("effect.reuse")
def _held_elsewhere(actor: Actor, run_id: uuid.UUID, token: str, intent: Intent) -> Permission:
    """Another operation holds this business action: in doubt, or landed (then refused, or relied on)."""
    run = leases.fence(actor, run_id, token)
    holder = _holder(intent)
    if holder is None:
        raise InDoubt("The same business action has just been let go: ask again.")
    facts = {"effect": holder.ref, "run": holder.run.ref, "operation_id": str(holder.pk)}
    what = f"{intent.action} {intent.business_ref} at {intent.provider}"
    if holder.state not in (states.LANDED, states.DUPLICATED, states.REVERSED):
        raise InDoubt(f"{what} is under way or unknown in {holder.run.ref} ({holder.ref}). Wait for that operation.", **facts)
    if intent.if_exists != "reuse":
        raise AlreadyLanded(f"{what} has already happened in {holder.run.ref} ({holder.ref}).", **facts)
    if holder.request_digest != intent.request_digest():
        raise PayloadMismatch(f"{what} happened in {holder.run.ref} with another payload ({holder.ref}).", **facts)
    Reliance.objects.get_or_create(run=run, step_key=intent.step, ordinal=intent.ordinal, defaults={"effect": holder})
    transition.record(run, "effect.relied_on", actor, subject=holder.ref, data={"step": intent.step})
    return Permission(RELIED, holder)


def _holder(intent: Intent) -> Effect | None:
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


def begin(actor: Actor, op: uuid.UUID, token: str, nonce: str) -> Permission:
    """Begin an effect that was declared before, or that is absent and released. Answers and refusals as `declare`."""
    effect = Effect.objects.filter(pk=op).first()
    if effect is None:
        raise NotFound(f"No effect with operation id {op}.")
    if not 16 <= len(nonce) <= 64:
        raise Invalid("nonce must be 16 to 64 random characters, made for this one call.", field="nonce")
    intent = Intent(
        step=effect.step_key,
        ordinal=effect.ordinal,
        provider=effect.provider,
        action=effect.action,
        business_ref=effect.business_ref,
        occurrence=effect.occurrence,
        amount=effect.amount,
        currency=effect.currency,
        request=effect.request,
        role=effect.role,
    )
    return _again(actor, effect.run_id, token, nonce, intent, True)


def _again(actor: Actor, run_id: uuid.UUID, token: str, nonce: str, intent: Intent, begin: bool) -> Permission:
    """The operation exists: the same call again, a replay by another worker, or its next attempt."""
    try:
        return _again_fenced(actor, run_id, token, nonce, intent, begin)
    except IntegrityError as clash:
        if "effect_action_held_once" not in str(clash):
            raise
        return _held_elsewhere(actor, run_id, token, intent)


@leases.act("effect.begin")
def _again_fenced(actor: Actor, run_id: uuid.UUID, token: str, nonce: str, intent: Intent, begin: bool) -> Permission:
    run = leases.fence(actor, run_id, token)
    held = outcomes.lock_in(run, operation_id(run_id, intent.step, intent.ordinal))
    effect = held.effect
    if effect.request_digest != intent.request_digest():
        raise PayloadMismatch(
            f"{effect.ref} stands for another payload. Use another step key or ordinal for another effect.",
            effect=effect.ref,
        )
    if effect.state == states.SENDING:
        return _mine(held, nonce)
    if effect.state == states.DECLARED:
        return _begin(actor, held, nonce, intent) if begin else Permission(DECLARED, effect)
    if effect.state in states.DOUBT and not effect.unknowable:
        raise InDoubt(
            f"{effect.ref} is {effect.state}: it is being looked up. Wait for it, never send it again.",
            effect=effect.ref,
            run=run.ref,
            operation_id=str(effect.pk),
        )
    if effect.state == states.ABSENT and effect.release == "asked":
        raise AbsentAsk(f"{effect.ref} did not happen; a person decides whether it is sent again.", effect=effect.ref)
    if effect.state == states.ABSENT and effect.release == "released" and begin:
        return _begin(actor, held, nonce, intent)
    return Permission(KNOWN, effect)


def _mine(held: outcomes.Locked, nonce: str) -> Permission:
    """A lost answer asked again: only the owner of the nonce gets the go-ahead, with what is left of its time."""
    attempt = held.attempts[-1]
    if attempt.nonce != nonce or attempt.epoch != held.run.lease_epoch:
        raise InDoubt(
            f"{held.effect.ref} is being sent under another permission. Wait for its outcome.",
            effect=held.effect.ref,
            run=held.run.ref,
            operation_id=str(held.effect.pk),
        )
    return Permission(SENDING, held.effect, attempt, transition.clock())


def _begin(actor: Actor, held: outcomes.Locked, nonce: str, intent: Intent) -> Permission:
    """The next attempt of a declared or released effect, under the fence that the caller holds."""
    run, effect = held.run, held.effect
    if not Step.objects.filter(run=run, key=effect.step_key, state="running").exists():
        raise Conflict(f"Step {effect.step_key} is not running: start the step before its effects.", field="step")
    now, number = transition.clock(), len(held.attempts) + 1
    position = run.version + 1
    assert run.lease_holder is not None and run.lease_expires_at is not None
    attempt = _new_attempt(effect, number, run.lease_epoch, run.lease_holder, nonce, position, now, run.lease_expires_at, intent)
    effect.holds_action = True
    effect.release = ""
    effect.sent_at = effect.sent_at or now
    effect.answer_by = attempt.answer_by
    effect.how_we_know = ""
    outcomes.move(held, states.SENDING, actor, {"attempt": number, "epoch": run.lease_epoch, "operation_id": str(effect.pk)})
    attempt.save(force_insert=True)
    return Permission(SENDING, effect, attempt, now)
