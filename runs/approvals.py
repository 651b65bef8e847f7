"""Approvals inside a run: asked under the fence, decided once by a person, spent once on exactly the action they allow.

No token decides here, and nothing here sends: the controller checks the digest when the effect begins, whatever the plan's text says.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from runs import actors, decisions, epochs, leases, states, transition, waiting
from runs.actors import Actor
from runs.book import book
from runs.errors import (
    AlreadyDecided,
    ApprovalMismatch,
    DigestChanged,
    EffectsInFlight,
    Expired,
    Invalid,
    NotAllowed,
    NotFound,
)
from runs.ids import digest
from runs.models import Approval, Run, Step

EXPIRES_AFTER = timedelta(hours=72)


@dataclass(frozen=True)
class Question:
    """What is asked. `action`: provider, action, business_ref, occurrence, amount, currency, request; None asks without allowing."""

    key: str
    question: str
    action: dict[str, Any] | None = None
    details: dict[str, Any] | None = None
    expires_at: datetime | None = None

    def digest(self) -> str:
        return action_digest(**self.action) if self.action else digest([self.question, self.details])


def action_digest(
    provider: str,
    action: str,
    business_ref: str,
    request: Any,
    occurrence: int = 1,
    amount: int | None = None,
    currency: str | None = "",
) -> str:
    """The digest that binds an approval to an effect: equal only for the same action, reference, amount, currency and request."""
    return digest([provider, action, business_ref, occurrence, amount, currency or "", request])


@leases.act("approval.request")
def request(actor: Actor, run_id: uuid.UUID, token: str, asked: Question) -> tuple[Approval, bool]:
    """Ask, and give the lease back until a person has decided. Returns the approval and whether the run waits now.

    A decided one comes back as it was decided (the run keeps its lease). Raises `EffectsInFlight`, `DigestChanged`.
    """
    run = leases.fence(actor, run_id, token)
    approval = Approval.objects.select_for_update().filter(run=run, key=asked.key).first()
    if approval is not None and approval.digest != asked.digest():
        raise DigestChanged(f"Approval {asked.key} of {run.ref} was asked for another action. Use another key.", key=asked.key)
    if approval is not None and _lapse(run, approval).state != "requested":
        return approval, False
    if run.in_flight:
        raise EffectsInFlight(f"{run.in_flight} effects of {run.ref} are in flight: report their outcomes first.", run=run.ref)
    approval = approval or _ask(run, asked)
    book().sender_stopped(run, run.lease_epoch, "worker", actor)
    epochs.end(run, "suspended", "worker")
    run.state = states.AWAITING_APPROVAL
    run.waits_for = {"kind": "approval", "approval": str(approval.pk)}
    transition.record(run, "approval.requested", actor, subject=asked.key, data={"digest": approval.digest})
    return approval, True


def _ask(run: Run, asked: Question) -> Approval:
    now = transition.clock()
    expires_at = asked.expires_at or now + EXPIRES_AFTER
    if expires_at <= now:
        raise Invalid("expires_at must be in the future.", field="expires_at")
    Step.objects.update_or_create(
        run=run,
        key=asked.key,
        defaults={
            "kind": "approval",
            "title": asked.question[:300],
            "state": "waiting",
            "epoch": run.lease_epoch,
            "position": run.version + 1,
            "started_at": now,
        },
    )
    return Approval.objects.create(
        run=run,
        key=asked.key,
        question=asked.question,
        details=asked.details,
        action=asked.action,
        digest=asked.digest(),
        requested_at=now,
        expires_at=expires_at,
    )


def decide(actor: Actor, approval_id: uuid.UUID, decision: str, comment: str = "", seen_digest: str | None = None) -> Approval:
    """A person approves or rejects. Raises `NotAllowed` (a token, or no permission), `AlreadyDecided`, `Expired`, `Invalid`."""
    if not actor.is_person:
        raise NotAllowed("Only a person may decide an approval.", needs=actors.APPROVAL_DECIDE)
    actor.require(actors.APPROVAL_DECIDE, None, "decide approvals")
    if decision not in ("approved", "rejected"):
        raise Invalid("decision must be approved or rejected.", field="decision")
    if decision == "rejected" and not comment.strip():
        raise Invalid("Rejecting needs a reason.", field="comment")
    actor.require_recent("decide this")
    with transaction.atomic(durable=True):
        run, approval = _lock(approval_id)
        if approval.state != "requested":
            raise AlreadyDecided(_already(approval), state=approval.state, by=approval.decided_name)
        if seen_digest is not None and seen_digest != approval.digest:
            raise AlreadyDecided("What you saw is not what is asked now. Look again.", state=approval.state)
        if _lapse(run, approval).state == "requested":
            decisions.record(run, approval, decision, actor, comment)
        waiting.reconsider(run, actor)
    if approval.state == "expired":  # that is kept, whoever found it
        raise Expired("Nobody decided in time: this approval has expired. The run's plan is told so.")
    return approval


def _lock(approval_id: uuid.UUID) -> tuple[Run, Approval]:
    found = Approval.objects.filter(pk=approval_id).values_list("run_id", flat=True).first()
    if found is None:
        raise NotFound("No such approval.")
    return transition.lock(found), Approval.objects.select_for_update().get(pk=approval_id)


def _already(approval: Approval) -> str:
    match approval.state:
        case "withdrawn":
            return f"Withdrawn: {approval.comment} Your decision changed nothing."
        case "expired":
            return "Nobody decided in time: it has expired."
        case _:
            return f"Already {approval.state} by {approval.decided_name}. Your decision changed nothing."


def _lapse(run: Run, approval: Approval) -> Approval:
    """Expiry is checked inline; at exactly `expires_at` it has expired."""
    if approval.state == "requested" and approval.expires_at <= transition.clock():
        decisions.record(run, approval, "expired", actors.system("deadline"), "Nobody decided in time.")
    return approval


def expire(approval_id: uuid.UUID) -> bool:
    """Expire one approval if its time is over; returns whether it has expired now."""
    with transaction.atomic(durable=True):
        run, approval = _lock(approval_id)
        if approval.state != "requested" or _lapse(run, approval).state == "requested":
            return False
        waiting.reconsider(run, actors.system("deadline"))
        return True


def expire_due(limit: int = 100) -> int:
    """Expire what nobody decided in time; returns how many. The plan of each run is told so."""
    due = Approval.objects.filter(state="requested", expires_at__lte=transition.clock()).values_list("pk", flat=True)[:limit]
    return sum(expire(pk) for pk in list(due))


def spend(run_id: uuid.UUID, approval_id: uuid.UUID, wanted: str, operation_id: uuid.UUID) -> None:
    """Spend an approval on an operation, under the run's lock. Raises `ApprovalMismatch` with what does not fit."""
    approval = Approval.objects.select_for_update().filter(pk=approval_id, run_id=run_id).first()
    if approval is None:
        raise ApprovalMismatch("This run has no such approval.")
    if approval.spent_on == operation_id and approval.digest == wanted:
        return
    if approval.state != "approved":
        raise ApprovalMismatch(f"Approval {approval.key} is {approval.state}.", key=approval.key, state=approval.state)
    if approval.spent_on is not None:
        raise ApprovalMismatch(f"Approval {approval.key} was already used.", key=approval.key, state="spent")
    if approval.expires_at <= transition.clock():
        raise ApprovalMismatch(f"Approval {approval.key} has expired.", key=approval.key, state="expired")
    if approval.digest != wanted:
        raise ApprovalMismatch(
            f"Approval {approval.key} was given for another action, reference, amount or payload.", key=approval.key, state="other"
        )
    approval.spent_on, approval.spent_at = operation_id, transition.clock()
    approval.save(update_fields=["spent_on", "spent_at"])
