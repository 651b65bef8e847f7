"""The calls about undoing. Each parses, calls one domain function and renders; none knows a rule. Acting needs a person's session."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet

from ledger import compensations, queries, undo_pages, undo_schema
from ledger.models import Compensation
from ledger.prospects import Wanted
from runs import actors, transition
from runs import queries as run_queries
from runs.actors import Actor
from runs.calls import Answer, call, run_id
from runs.errors import NotAllowed
from runs.parsing import Given
from runs.shapes import iso
from runs.wording import plain

ASKING = ("not_eligible", "exceeds_landed")
DECIDING = ("already_decided", "same_person", "expired", "stale", "reauthentication_required")


@call(
    takes=undo_schema.AskBody,
    answers={201: undo_schema.CompensationShown, 200: undo_schema.CompensationShown},
    refuses=ASKING,
    tag="undoing",
    example={"effect": "E-7K2M9Q4TXA", "amount": 4250, "currency": "GBP", "reason": "duplicate", "note": "Charged twice on 2 March."},
)
def ask_compensation(actor: Actor, given: Given) -> Answer:
    """Ask for a landed effect to be undone. Somebody else must approve it.

    200: you had asked for exactly this already. One undo of an effect waits for a decision at a time.
    """
    compensations.require_asker(actor)
    effect = queries.read_effect(actor, given["effect"])
    wanted = Wanted(
        amount=given.get("amount"),
        currency=given.get("currency") or "",
        reason=given["reason"],
        note=given["note"],
        external_id=given.get("external_id") or "",
    )
    made, is_new = compensations.request(actor, effect.pk, wanted)
    return Answer(201 if is_new else 200, _fresh(made))


@call(takes=undo_schema.CompensationsQuery, answers={200: undo_schema.CompensationPage}, tag="undoing")
def list_compensations(actor: Actor, given: Given) -> Answer:
    """List undo requests, newest first."""
    rows = readable(actor)
    if given.get("state"):
        rows = rows.filter(state__in=given["state"])
    if given.get("run"):
        rows = rows.filter(run=run_id(given["run"]))
    if given.get("effect"):
        rows = rows.filter(original=queries.read_effect(actor, given["effect"]))
    page = run_queries.page(rows, "requested_at", "id", given.get("cursor"), given["limit"])
    return Answer(200, {"results": [shape(one) for one in page.items], "next": page.next, "previous": page.previous})


def readable(actor: Actor) -> QuerySet[Compensation]:
    """The requests about runs that the actor may read."""
    rows = Compensation.objects.select_related("run", "original", "effect").prefetch_related("decisions")
    return run_queries.readable(actor, rows, "run__agent")


@call(answers={200: undo_schema.CompensationShown}, tag="undoing")
def get_compensation(actor: Actor, compensation: str, given: Given) -> Answer:
    """Read an undo request, named by its id or its reference."""
    return Answer(200, shape(read(actor, compensation)))


def read(actor: Actor, text: str) -> Compensation:
    """The request, for those who may read its run. Raises `NotFound`, `NotAllowed`."""
    found = undo_pages.read(text)
    if not run_queries.may_read(actor, found.run.agent):
        raise NotAllowed(
            f"{actor.name} may not read undo requests of {found.run.agent}: it needs {actors.RUN_READ}.", needs=actors.RUN_READ
        )
    return found


@call(takes=undo_schema.EditBody, answers={200: undo_schema.CompensationShown}, refuses=(*ASKING, *DECIDING), tag="undoing")
def edit_compensation(actor: Actor, compensation: str, given: Given) -> Answer:
    """Change what is asked while it is undecided: the next version, which nobody has approved yet. Who edits cannot approve."""
    changes: dict[str, object] = {name: given[name] for name in ("amount", "reason", "note") if name in given}
    return Answer(200, _fresh(compensations.edit(actor, read(actor, compensation).pk, given["version"], changes)))


@call(takes=undo_schema.UndoDecisionBody, answers={200: undo_schema.CompensationShown}, refuses=DECIDING, tag="undoing")
def decide_compensation(actor: Actor, compensation: str, given: Given) -> Answer:
    """Approve or reject an undo request as you saw it.

    Not your own, nor one that you edited, nor one of an effect whose run you started or whose case you settled.
    """
    pk = read(actor, compensation).pk
    return Answer(200, _fresh(compensations.decide(actor, pk, given["decision"], given["version"], given["comment"])))


@call(takes=undo_schema.WithdrawalBody, answers={200: undo_schema.CompensationShown}, refuses=("already_decided",), tag="undoing")
def withdraw_compensation(actor: Actor, compensation: str, given: Given) -> Answer:
    """Take an undo request back, with a reason, while nothing of it has been sent."""
    return Answer(200, _fresh(compensations.withdraw(actor, read(actor, compensation).pk, given["reason"])))


def _fresh(one: Compensation) -> dict[str, Any]:
    return shape(undo_pages.read(str(one.pk)))


def shape(one: Compensation) -> dict[str, Any]:
    """A request (with its original, run and effect loaded)."""
    decisions = sorted(one.decisions.all(), key=lambda told: told.at)
    given = {told.by for told in decisions if (told.decision, told.version, told.digest) == ("approved", one.version, one.digest)}
    ended = {"by": one.ended_name, "at": iso(one.ended_at), "why": one.ended_why} if one.ended_at else None
    return {
        "id": str(one.pk),
        "ref": one.ref,
        "state": one.state,
        "version": one.version,
        "run": one.run.ref,
        "original": one.original.ref,
        "provider": one.provider,
        "action": one.action,
        "target": one.target,
        "amount": one.amount,
        "currency": one.currency or None,
        "reason": one.reason,
        "note": one.note or None,
        "digest": one.digest,
        "rule_version": one.rule_version,
        "verdict": one.verdict,
        "approvals_needed": one.approvals_needed,
        "approvals_given": len(given),
        "requested_by": {"type": "person", "id": one.requested_by, "name": one.requested_name},
        "requested_at": iso(one.requested_at),
        "expires_at": iso(one.expires_at),
        "approved_at": iso(one.approved_at),
        "decisions": [_decision(told) for told in decisions],
        "ended": ended,
        "effect": one.effect.ref if one.effect else None,
        "effect_state": one.effect.state if one.effect else None,
        "says": plain(undo_pages.became_says(one, transition.clock())),
    }


def _decision(told: Any) -> dict[str, Any]:
    return {
        "decision": told.decision,
        "version": told.version,
        "by": {"type": "person", "id": told.by, "name": told.by_name},
        "comment": told.comment or None,
        "at": iso(told.at),
    }
