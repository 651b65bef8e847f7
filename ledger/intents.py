"""Permission to send: declare an effect and begin it under the run's fence, durably, for the owner of one nonce.

The lock comes first and every decision after it, each statement with a snapshot of its own. A caller that cannot read a confirmed
"sending, mine" sends nothing.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import IntegrityError, connection, transaction
from psycopg.types.json import Jsonb

from ledger import absences, occurrences, outcomes, policies, states, tidying, timetable
from ledger.models import Attempt, Effect, Reliance
from ledger.operations import (
    DECLARED,
    KNOWN,
    RELIED,
    SENDING,
    Intent,
    Permission,
    check,
    check_nonce,
    holder_of,
    new_attempt,
    new_effect,
    operation_id,
)
from runs import actors, approvals, leases, transition
from runs.actors import Actor
from runs.errors import (
    AbsentAsk,
    AlreadyLanded,
    ApprovalRequired,
    Cancelled,
    Conflict,
    InDoubt,
    LeaseLost,
    NotFound,
    PayloadMismatch,
)
from runs.models import Step
from runs.timeline import INSERT_EVENT, event_values


def declare(actor: Actor, run_id: uuid.UUID, token: str, nonce: str, intent: Intent, begin: bool = True) -> Permission:
    """Declare an effect and, with `begin`, its sending: one commit, or nothing.

    A raised commit is an unknown commit: ask again with the same nonce. Raises `Cancelled`, `LeaseLost`, `InDoubt`, `AlreadyLanded`,
    `PayloadMismatch`, `AbsentAsk`, `OccurrenceNotOpen`, `ProviderUnknown`, `Invalid`.
    """
    check(intent, nonce)
    if intent.role == states.CLEANUP:
        return tidying.declare(actor, run_id, token, nonce, intent)
    try:
        with transaction.atomic(durable=True):
            return _insert(actor, run_id, token, nonce, intent, begin)
    except (Cancelled, LeaseLost) as refusal:
        leases.note_refusal(actor, run_id, "effect.begin", refusal)
        raise
    except AbsentAsk as refusal:
        absences.ask(actor, uuid.UUID(refusal.facts["operation_id"]))
        raise
    except IntegrityError as clash:
        return _classify(actor, run_id, token, nonce, intent, begin, clash)


# The hot path: the fence's own UPDATE takes the lock, and each later statement decides with a snapshot taken after it.
_FENCE = """
UPDATE runs_run SET version = version + 1, effects_total = effects_total + 1, in_flight = in_flight + %s,
       changed_at = clock_timestamp()
WHERE id = %s AND state = 'running' AND lease_token = %s AND lease_expires_at > clock_timestamp()
RETURNING version, lease_epoch, lease_holder, agent, clock_timestamp(), lease_expires_at
"""
_EFFECT = f"""
INSERT INTO ledger_effect (operation_id, ref, run_id, step_key, ordinal, role, provider, action, business_ref, occurrence,
    holds_action, amount, currency, request, request_digest, state, approval_id, version, unknowable, doubted, release, withheld_why,
    landed_currency, external_id, how_we_know, known_by, provider_message, created_at, sent_at, answer_by, looks)
SELECT %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, true, %s, %s, %s, %s, %s, %s, 1, false, false, '', '', '', '', '', '', '', %s, %s, %s, 0
WHERE EXISTS (SELECT 1 FROM runs_step WHERE run_id = %s AND key = %s AND state = 'running')
  AND (%s OR NOT {policies.NEEDS_APPROVAL})
  AND NOT EXISTS (SELECT 1 FROM ledger_effect a WHERE (a.provider, a.action, a.business_ref, a.occurrence) = (%s, %s, %s, %s)
                  AND a.operation_id <> %s AND (a.release IN ('asked', 'left') OR (a.release = 'unasked' AND a.sent_at <= %s)))
"""  # noqa: S608 - a constant of the policies module
_ATTEMPT = """
INSERT INTO ledger_attempt (id, effect_id, run_id, number, epoch, holder, nonce, state, position, sent_at, send_by, answer_by, stopped_how)
VALUES (%s, %s, %s, %s, %s, %s, %s, 'sending', %s, %s, %s, %s, '')
"""


def _insert(actor: Actor, run_id: uuid.UUID, token: str, nonce: str, intent: Intent, begin: bool) -> Permission:
    """The usual case: a new operation of a run that may act."""
    effect = new_effect(run_id, intent, begin)
    with connection.cursor() as cursor:
        cursor.execute(_FENCE, (int(begin), run_id, token))
        row = cursor.fetchone()
        if row is None:
            raise _why_fenced(actor, run_id, token)
        version, epoch, holder, agent, now, expires_at = row
        if now >= expires_at:  # the lease ended while the UPDATE waited for the lock: its WHERE had read the clock before that
            raise _why_fenced(actor, run_id, token)
        actor.require(actors.RUN_WORK, agent, f"work for {agent}")
        attempt = new_attempt(effect, 1, epoch, holder, nonce, version, now, expires_at, intent) if begin else None
        effect.created_at = now
        if attempt is not None:
            effect.sent_at, effect.answer_by = attempt.sent_at, attempt.answer_by
        if effect.occurrence != 1 and not Effect.objects.filter(pk=effect.pk).exists():  # a replay of the one that spent it is known below
            occurrences.spend(effect)
        allowed = not begin or spent(effect, intent)
        kind = "effect.sending" if begin else "effect.declared"
        data = {"attempt": 1, "epoch": epoch, "operation_id": str(effect.pk)}
        if effect.occurrence != 1:
            data["occurrence"] = effect.occurrence
        # The writes travel together: they need nothing of each other's answers, and the lock is held.
        with connection.wrap_database_errors, connection.connection.pipeline():
            cursor.execute(
                _EFFECT,
                (
                    *_effect_values(effect),
                    allowed,
                    *policies.parameters(effect),
                    *effect.action_key.values(),
                    effect.pk,
                    timetable.asks_when_sent_before(effect.provider, now),
                ),
            )
            inserted = cursor.connection.cursor()
            if attempt is not None:
                inserted.execute(_ATTEMPT, _attempt_values(attempt))
            inserted.execute(INSERT_EVENT, event_values(run_id, version, kind, actor, effect.ref, data))
        if cursor.rowcount != 1:  # after *absent* a person may have been asked: no other run goes round them
            raise _why_not_inserted(effect)
    return Permission(SENDING if begin else DECLARED, effect, attempt, now)


def _why_fenced(actor: Actor, run_id: uuid.UUID, token: str) -> Exception:
    """Raises `NotAllowed` first: what somebody tried who may not work for the run is not counted as an act of its worker."""
    run = transition.lock(run_id)
    actor.require(actors.RUN_WORK, run.agent, f"work for {run.agent}")
    return leases.why_refused(run, token)


def spent(effect: Effect, intent: Intent) -> bool:
    """Spend the approval that the intent names, if any, on this operation. Returns whether it named one."""
    if intent.approval is None:
        return False
    approvals.spend(effect.run_id, intent.approval, effect.request_digest, effect.operation_id)
    effect.approval_id = intent.approval
    return True


def _why_not_inserted(effect: Effect) -> Conflict:
    if not _step_runs(effect):
        return Conflict(f"Step {effect.step_key} is not running: start the step before its effects.", field="step")
    barred = absences.barring(effect)
    if barred is None:
        return _approval_required(effect)
    return absences.left(barred) if barred.release == absences.LEFT else _ask(barred)


def _step_runs(effect: Effect) -> bool:
    return Step.objects.filter(run_id=effect.run_id, key=effect.step_key, state="running").exists()


def _approval_required(effect: Effect) -> ApprovalRequired:
    return ApprovalRequired(
        f"{effect.action} at {effect.provider} needs an approval of exactly this action: ask for one and name it.", field="approval"
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
    what = (e.amount, e.currency, Jsonb(e.request), e.request_digest, e.state, e.approval_id)
    return (*key, *what, e.created_at, e.sent_at, e.answer_by, e.run_id, e.step_key)


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
    holder = holder_of(intent)
    if holder is None:
        raise InDoubt("The same business action has just been let go: ask again.")
    facts = _facts(holder)
    what = f"{intent.action} {intent.business_ref} at {intent.provider}"
    if holder.unknowable:
        raise InDoubt(f"Nobody can find out whether {what} happened in {holder.run.ref} ({holder.ref}): it stays taken.", **facts)
    if holder.state not in (states.LANDED, states.DUPLICATED, states.REVERSED):
        raise InDoubt(f"{what} is under way or unknown in {holder.run.ref} ({holder.ref}). Wait for that operation.", **facts)
    if intent.if_exists != "reuse":
        raise AlreadyLanded(f"{what} has already happened in {holder.run.ref} ({holder.ref}).", **facts)
    if holder.state == states.REVERSED:
        raise AlreadyLanded(
            f"{what} happened in {holder.run.ref} and was undone since ({holder.ref}): there is nothing to rely on.", **facts
        )
    if holder.request_digest != intent.request_digest():
        raise PayloadMismatch(f"{what} happened in {holder.run.ref} with another payload ({holder.ref}).", **facts)
    Reliance.objects.get_or_create(run=run, step_key=intent.step, ordinal=intent.ordinal, defaults={"effect": holder})
    transition.record(run, "effect.relied_on", actor, subject=holder.ref, data={"step": intent.step})
    return Permission(RELIED, holder)


def begin(actor: Actor, op: uuid.UUID, token: str, nonce: str, approval: uuid.UUID | None = None) -> Permission:
    """Begin an effect that was declared before, or that is absent and released. Answers and refusals as `declare`."""
    effect = Effect.objects.filter(pk=op).first()
    if effect is None:
        raise NotFound(f"No effect with operation id {op}.")
    check_nonce(nonce)
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
        approval=approval,
    )
    return _again(actor, effect.run_id, token, nonce, intent, True)


def _again(actor: Actor, run_id: uuid.UUID, token: str, nonce: str, intent: Intent, begin: bool) -> Permission:
    """The operation exists: the same call again, a replay by another worker, or its next attempt."""
    try:
        permission = _again_fenced(actor, run_id, token, nonce, intent, begin)
    except IntegrityError as clash:
        if "effect_action_held_once" not in str(clash):
            raise
        return _held_elsewhere(actor, run_id, token, intent)
    if permission.effect.release == "asked":
        raise _ask(permission.effect)
    return permission


def _ask(effect: Effect) -> AbsentAsk:
    return AbsentAsk(f"{effect.ref} of {effect.run.ref} did not happen; a person decides whether it is sent again.", **_facts(effect))


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
            **_facts(effect),
        )
    if effect.release == "resend" and not timetable.may_resend(effect, transition.clock()):
        effect.release = "asked"
        outcomes.move(held, effect.state, actor, {"release": "asked"}, always=True)
    if effect.release in ("resend", "released") and begin:
        return _begin(actor, held, nonce, intent)
    return Permission(KNOWN, effect)


def _facts(effect: Effect) -> dict[str, Any]:
    """What a refusal names, so that the worker can wait for exactly that operation, or be told that waiting is in vain."""
    named = {"effect": effect.ref, "run": effect.run.ref, "operation_id": str(effect.pk)}
    return named | ({"unknowable": True} if effect.unknowable else {})


def _mine(held: outcomes.Locked, nonce: str) -> Permission:
    """A lost answer asked again: only the owner of the nonce gets the go-ahead, with what is left of its time."""
    attempt = held.attempts[-1]
    if attempt.nonce != nonce or attempt.epoch != held.run.lease_epoch:
        raise InDoubt(
            f"{held.effect.ref} is being sent under another permission. Wait for its outcome.",
            **_facts(held.effect),
        )
    return Permission(SENDING, held.effect, attempt, transition.clock())


def _begin(actor: Actor, held: outcomes.Locked, nonce: str, intent: Intent) -> Permission:
    """The next attempt of a declared or released effect, under the fence that the caller holds."""
    run, effect = held.run, held.effect
    if not _step_runs(effect):
        raise Conflict(f"Step {effect.step_key} is not running: start the step before its effects.", field="step")
    if not spent(effect, intent) and effect.approval_id is None and policies.needs_approval(effect):
        raise _approval_required(effect)
    now, number = transition.clock(), len(held.attempts) + 1
    position = run.version + 1
    assert run.lease_holder is not None and run.lease_expires_at is not None
    attempt = new_attempt(effect, number, run.lease_epoch, run.lease_holder, nonce, position, now, run.lease_expires_at, intent)
    effect.holds_action = True
    effect.release = ""
    effect.sent_at = effect.sent_at or now
    effect.answer_by = attempt.answer_by
    effect.how_we_know = ""
    outcomes.move(held, states.SENDING, actor, {"attempt": number, "epoch": run.lease_epoch, "operation_id": str(effect.pk)})
    attempt.save(force_insert=True)
    return Permission(SENDING, effect, attempt, now)
