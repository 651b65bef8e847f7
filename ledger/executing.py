"""Carrying out what was approved: one commit spends the approval on an effect that is *sending*, then the provider is asked once.

The answer comes in by the door of every outcome. There is no second try: what got no answer is looked up like any other effect.
"""

from __future__ import annotations

import os
import socket
import time
import uuid
from datetime import timedelta

from django.db import transaction

from ledger import catalogue, compensations, endings, outcomes, states, undo_states
from ledger.compensations import Held
from ledger.models import Attempt, Compensation, Effect, effect_ref
from ledger.outcomes import Fact
from ledger.providers.base import Answer, Send
from runs import actors, people, sweeps, transition
from runs.approvals import action_digest
from runs.ids import new_id

EXECUTOR = actors.system("undoing")
SEND_WITHIN = timedelta(seconds=10)
ANSWER_WITHIN = timedelta(seconds=60)
NO_EPOCH = 0  # an undo has a lease of its own; the epochs of a run begin at 1


def execute_due(limit: int = 20) -> int:
    """Carry out what is approved, oldest first; returns how many were sent."""
    due = Compensation.objects.filter(state=undo_states.APPROVED).order_by("approved_at").values_list("pk", flat=True)
    return sweeps.each(due[:limit], execute)


def execute(request_id: uuid.UUID) -> bool:
    """Carry out one approved request, if it still may be. Returns whether anything was sent."""
    asked_at = _awake_s()
    send = begin(request_id, uuid.uuid4().hex)
    if send is None:
        return False
    operation_id = uuid.UUID(send.operation_id)
    provider = catalogue.provider(Effect.objects.values_list("provider", flat=True).get(pk=operation_id))
    if _awake_s() - asked_at >= SEND_WITHIN.total_seconds():
        outcomes.hear(EXECUTOR, operation_id, send.attempt, _fact(Answer("not_sent", detail="It was too late to begin writing.")))
        return False
    try:
        answer = provider.compensate(send)
    except Exception as error:  # an adapter never raises; if one does, its bytes may have left
        outcomes.hear(EXECUTOR, operation_id, send.attempt, _fact(Answer("unknown", detail=f"{type(error).__name__} in the adapter")))
        raise
    outcomes.hear(EXECUTOR, operation_id, send.attempt, _fact(answer))
    return True


def _awake_s() -> float:
    """Seconds on a clock that goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def begin(request_id: uuid.UUID, nonce: str) -> Send | None:
    """Spend the approval: `executing`, the undo's own effect and its durable *sending*, in one commit; or end the request as what it is.

    None: nothing may be sent (not approved, spent already, expired, stale). A commit that raised sends nothing either.
    """
    with transaction.atomic(durable=True):
        held = compensations.hold(request_id)
        one = held.request
        if one.state != undo_states.APPROVED or compensations.end_if_over(held):
            return None
        if why := _no_longer_approved(held):
            endings.end(held.run, one, undo_states.STALE, EXECUTOR, why)
            return None
        effect, attempt = _rows(held, nonce)
        transition.record(
            held.run,
            "effect.sending",
            EXECUTOR,
            subject=effect.ref,
            data={"attempt": 1, "role": states.COMPENSATION, "operation_id": str(effect.pk), "request": one.ref},
        )
        effect.save()
        attempt.save(force_insert=True)
        one.state, one.effect, one.begun_at = undo_states.EXECUTING, effect, attempt.sent_at
        endings.write(one, "state", "effect", "begun_at")
        endings.record(held.run, one, "executing", EXECUTOR, {"effect": effect.ref})
        return Send(
            operation_id=str(effect.pk),
            provider_reference=effect.provider_reference,
            action=effect.action,
            amount=effect.amount,
            currency=effect.currency or None,
            request=effect.request,
            external_id=one.target,
            attempt=1,
        )


def _no_longer_approved(held: Held) -> str:
    """Whether those who approved may still do so: permission is checked when it is used, not only when it was given."""
    directory = people.directory()
    given = compensations.valid_approvals(held)
    able = []
    for told in given:
        person = directory.person(told.by)
        if person is not None and person.may(actors.COMPENSATION_APPROVE):
            able.append(told.by)
    if len(able) >= held.request.approvals_needed:
        return ""
    lost = ", ".join(sorted(told.by_name for told in given if told.by not in able)) or "Somebody who approved it"
    return f"{lost} may not approve undoing any more, so too few approvals are left. Ask again."


def operation_id(request_id: uuid.UUID) -> uuid.UUID:
    """The stable id of the one operation that carries a request out."""
    return uuid.uuid5(request_id, "undo")


def _rows(held: Held, nonce: str) -> tuple[Effect, Attempt]:
    one, original, now = held.request, held.original, transition.clock()
    request = {"undoes": one.target, "of": original.provider_reference, "reason": one.reason}
    effect = Effect(
        operation_id=operation_id(one.pk),
        ref=effect_ref(),
        run=held.run,
        step_key=one.ref,
        role=states.COMPENSATION,
        acts_on=original,
        approval_id=one.pk,
        provider=one.provider,
        action=one.action,
        business_ref=one.ref,
        amount=one.amount,
        currency=one.currency,
        request=request,
        request_digest=action_digest(one.provider, one.action, one.ref, request, 1, one.amount, one.currency),
        state=states.SENDING,
        created_at=now,
        sent_at=now,
        answer_by=now + ANSWER_WITHIN,
    )
    attempt = Attempt(
        id=new_id(),
        effect=effect,
        run=held.run,
        number=1,
        epoch=NO_EPOCH,
        holder=f"undoing-{socket.gethostname()}-{os.getpid()}"[:200],
        nonce=nonce,
        position=held.run.version + 1,
        sent_at=now,
        send_by=now + SEND_WITHIN,
        answer_by=now + ANSWER_WITHIN,
    )
    return effect, attempt


def _fact(answer: Answer) -> Fact:
    found = answer.found
    return Fact(
        source="sender",
        verdict=answer.verdict,
        external_id=found.external_id if found else "",
        amount=found.amount if found else None,
        currency=(found.currency or "") if found else "",
        provider_time=found.at if found else None,
        http_status=answer.http_status,
        body=answer.body,
        body_sha256=answer.body_sha256,
        request_id=answer.request_id or "",
        detail={"message": answer.detail[:500]} if answer.detail else {},
    )
