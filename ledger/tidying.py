"""Effects of cleanup: begun under the cleanup's own lease and budget, and limited to what the provider lists as safe to tidy.

Money, and anything that needs a compensation, is refused here: a cleanup never undoes.
"""

from __future__ import annotations

import uuid

from django.db import transaction

from ledger import catalogue, outcomes, policies, states
from ledger.models import Effect
from ledger.operations import Intent, Permission, holder_of, new_attempt, new_effect, operation_id
from runs import cleaning, cleanup, transition
from runs.actors import Actor
from runs.errors import AlreadyLanded, InDoubt, NeedsCompensation, PayloadMismatch
from runs.models import Cleanup, Run


def declare(actor: Actor, run_id: uuid.UUID, token: str, nonce: str, intent: Intent) -> Permission:
    """Begin an effect of a cleanup item (its key is the step). Each operation is begun at most once.

    Raises `LeaseLost`, `Cancelled` (budget used up), `NeedsCompensation`, `InDoubt`, `AlreadyLanded`.
    """
    with transaction.atomic(durable=True):
        run = transition.lock(run_id)
        item = cleaning.fence(actor, run, token, intent.step)
        _allow(run, item, intent)
        existing = Effect.objects.filter(pk=operation_id(run_id, intent.step, intent.ordinal)).first()
        if existing is not None:
            return _again(outcomes.lock_in(run, existing.pk), nonce, intent)
        _refuse_if_held(intent)
        cleanup.spend_call(run, item)
        return _begin(actor, run, item, nonce, intent)


def _allow(run: Run, item: Cleanup, intent: Intent) -> None:
    record = catalogue.capability(intent.provider)
    listed = intent.action in record.cleanup_ok and intent.action not in record.compensable.values()
    if not listed or intent.amount is not None or policies.needs_approval(new_effect(run.pk, intent, begin=True)):
        raise NeedsCompensation(
            f"A cleanup may not {intent.action} at {intent.provider}: it moves money, needs an approval or is not listed as safe."
            " Ask for a compensation.",
            field="action",
        )
    cleaned = Effect.objects.filter(pk=item.cleans).first() if item.cleans else None
    if cleaned is not None and cleaned.state in states.LANDED_LIKE and cleaned.action not in record.cleanable:
        raise NeedsCompensation(
            f"{cleaned.ref} has landed and {cleaned.action} may not be removed by a cleanup. Ask for a compensation.", effect=cleaned.ref
        )


def _again(held: outcomes.Locked, nonce: str, intent: Intent) -> Permission:
    effect, attempt = held.effect, held.attempts[-1]
    if effect.request_digest != intent.request_digest():
        raise PayloadMismatch(f"{effect.ref} stands for another payload. Use another ordinal.", effect=effect.ref)
    if effect.state == states.SENDING and attempt.nonce == nonce and attempt.epoch == held.run.lease_epoch:
        return Permission("sending", effect, attempt, transition.clock())
    if effect.state in states.KNOWN:
        return Permission("known", effect)
    raise InDoubt(f"{effect.ref} is {effect.state}: it is being looked up, never sent again.", effect=effect.ref)


def _refuse_if_held(intent: Intent) -> None:
    holder = holder_of(intent)
    if holder is None:
        return
    kind = InDoubt if holder.state in states.DOUBT | {states.DECLARED, states.SENDING} else AlreadyLanded
    raise kind(f"{intent.action} {intent.business_ref} is held by {holder.ref} of {holder.run.ref}.", effect=holder.ref)


def _begin(actor: Actor, run: Run, item: Cleanup, nonce: str, intent: Intent) -> Permission:
    now = transition.clock()
    assert run.lease_holder is not None and run.lease_expires_at is not None
    effect = new_effect(run.pk, intent, begin=True)
    attempt = new_attempt(effect, 1, run.lease_epoch, run.lease_holder, nonce, run.version + 1, now, run.lease_expires_at, intent)
    effect.created_at = effect.sent_at = now
    effect.answer_by = attempt.answer_by
    effect.acts_on_id = item.cleans
    run.in_flight += 1
    transition.record(
        run, "effect.sending", actor, subject=effect.ref, data={"attempt": 1, "epoch": run.lease_epoch, "role": states.CLEANUP}
    )
    effect.save()
    attempt.save(force_insert=True)
    return Permission("sending", effect, attempt, now)
