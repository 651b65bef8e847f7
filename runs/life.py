"""The calls about approvals, clean-up steps and bulk cancels. Each parses, calls one domain function and renders; none knows a rule."""

from __future__ import annotations

import uuid
from typing import Any

from runs import actors, approvals, bulk, cleaning, leases, life_schema, queries, schema, shapes
from runs.actors import Actor
from runs.api import ACTS
from runs.calls import Answer, call, run_id
from runs.errors import NotAllowed, NotFound
from runs.ids import parse_uuid
from runs.models import Approval, BulkCancel, BulkLine, Cleanup, Run
from runs.parsing import Given
from runs.queries import RunFilter
from runs.shapes import iso


@call(
    takes=life_schema.ApprovalBody,
    answers={201: life_schema.ApprovalShown, 200: life_schema.ApprovalShown},
    refuses=(*ACTS, "effects_in_flight", "digest_changed"),
    tag="worker",
    example={
        "lease": "5f1c…",
        "key": "confirm",
        "question": "Send PO-1042 over 12,500.00 EUR to the supplier?",
        "action": {
            "provider": "supplier",
            "action": "create_order",
            "business_ref": "PO-1042",
            "amount": 1250000,
            "currency": "EUR",
            "request": {"lines": [{"sku": "PUMP-3", "quantity": 120}]},
        },
    },
)
def request_approval(actor: Actor, run: str, given: Given) -> Answer:
    """Ask a person. 201: the run waits, and the lease has been given back. 200: it has been decided already, and this is how."""
    asked = approvals.Question(
        key=given["key"],
        question=given["question"],
        action=given.get("action"),
        details=given.get("details"),
        expires_at=given.get("expires_at"),
    )
    approval, waits = approvals.request(actor, run_id(run), given["lease"], asked)
    return Answer(201 if waits else 200, approval_shape(approval))


@call(
    takes=life_schema.DecisionBody,
    answers={200: life_schema.ApprovalShown},
    refuses=("already_decided", "expired", "reauthentication_required"),
    tag="people",
    example={"decision": "rejected", "comment": "The supplier is blocked.", "digest": "9f2c…"},
)
def decide_approval(actor: Actor, approval: str, given: Given) -> Answer:
    """Approve or reject what a run asks: a person only, once. Rejecting needs a comment."""
    made = approvals.decide(actor, _named(approval), given["decision"], given["comment"], given["digest"])
    return Answer(200, approval_shape(Approval.objects.select_related("run").get(pk=made.pk)))


@call(takes=life_schema.ApprovalsQuery, answers={200: life_schema.ApprovalPage}, tag="people")
def list_approvals(actor: Actor, given: Given) -> Answer:
    """List what runs have asked for, newest first."""
    rows = queries.readable(actor, Approval.objects.select_related("run"), "run__agent")
    if given.get("state"):
        rows = rows.filter(state__in=given["state"])
    page = queries.page(rows, "requested_at", "id", given.get("cursor"), given["limit"])
    return Answer(200, {"results": [approval_shape(one) for one in page.items], "next": page.next, "previous": page.previous})


def _named(text: str) -> uuid.UUID:
    found = parse_uuid(text)
    if found is None:
        raise NotFound(f"Nothing is called {text[:60]!r} here. Use its id.")
    return found


def approval_shape(approval: Approval) -> dict[str, Any]:
    """A question to a person, and what became of it (its run is loaded when needed)."""
    return {
        "id": str(approval.pk),
        "run": approval.run.ref,
        "key": approval.key,
        "question": approval.question,
        "action": approval.action,
        "details": approval.details,
        "digest": approval.digest,
        "decision": approval.state,
        "by": approval.decided_name or None,
        "comment": approval.comment or None,
        "requested_at": iso(approval.requested_at),
        "expires_at": iso(approval.expires_at),
        "decided_at": iso(approval.decided_at),
        "spent_on": str(approval.spent_on) if approval.spent_on else None,
    }


# Clean-up steps


@call(
    takes=life_schema.CleanupBody,
    answers={201: life_schema.CleanupShown, 200: life_schema.CleanupShown},
    refuses=(*ACTS, "digest_changed"),
    tag="worker",
    example={"lease": "5f1c…", "key": "release-hold", "handler": "release-hold", "arguments": {"hold": "H-7"}},
)
def register_cleanup(actor: Actor, run: str, given: Given) -> Answer:
    """Register tidying before it is needed: after a cancel or a failure its handler is called with the arguments, at most once."""
    item, new = cleaning.register(
        actor, run_id(run), given["lease"], given["key"], given["handler"], given["arguments"], given["order"], given.get("cleans")
    )
    return Answer(201 if new else 200, cleanup_shape(item))


@call(
    takes=life_schema.CleanupClaimBody,
    answers={200: life_schema.CleanupTaken, 204: None},
    tag="worker",
    example={"holder": "host-1:4711:9f3b2c", "handlers": ["release-hold"]},
)
def claim_cleanup(actor: Actor, given: Given) -> Answer:
    """Take the next clean-up step that is due for one of these handlers, under a lease of its own (204: there is none).

    An `Idempotency-Key` is not honoured here.
    """
    actor.require(actors.RUN_WORK, None, "claim clean-up steps")
    taken = cleaning.claim(actor, given["holder"], given["handlers"], given["ttl_s"])
    if taken is None:
        return Answer(204)
    item, lease = taken
    run = Run.objects.get(pk=item.run_id)
    return Answer(200, {"cleanup": cleanup_shape(item), "lease": shapes.lease_shape(run, lease), "budget": _budget(run)})


def _budget(run: Run) -> dict[str, float]:
    """What is left for cleaning up the run; the first call of the item was counted when it was handed out."""
    return {"seconds": cleaning.seconds_left(run), "calls": max(0, run.cleanup_calls_max - run.cleanup_calls + 1)}


@call(takes=schema.LeaseBody, answers={200: life_schema.CleanupBeat}, refuses=("lease_lost",), tag="worker")
def heartbeat_cleanup(actor: Actor, cleanup: str, given: Given) -> Answer:
    """Renew the lease of a clean-up step. The cancel that it cleans up after does not stop it."""
    answer = leases.heartbeat(actor, _item(actor, cleanup).run_id, given["lease"])
    return Answer(200, {**answer, "lease_expires_at": iso(answer["lease_expires_at"])})


@call(
    takes=life_schema.CleanupFinishBody,
    answers={200: life_schema.CleanupShown},
    refuses=("lease_lost", "effects_in_flight"),
    tag="worker",
    example={"lease": "5f1c…", "outcome": "done"},
)
def finish_cleanup(actor: Actor, cleanup: str, given: Given) -> Answer:
    """Say what came of a clean-up step. `failed` leaves it behind: listed, for a person."""
    item = cleaning.finish(actor, _item(actor, cleanup).pk, given["lease"], given["outcome"], given.get("detail"))
    return Answer(200, cleanup_shape(item))


def _item(actor: Actor, text: str) -> Cleanup:
    actor.require(actors.RUN_WORK, None, "carry out clean-up steps")
    item = Cleanup.objects.filter(pk=_named(text)).first()
    if item is None:
        raise NotFound(f"No clean-up step is called {text[:60]!r}. Use its id.")
    return item


def cleanup_shape(item: Cleanup) -> dict[str, Any]:
    """A clean-up step (its run is loaded when needed)."""
    return {
        "id": str(item.pk),
        "run": {"id": str(item.run_id), "ref": item.run.ref},
        "key": item.key,
        "handler": item.handler,
        "arguments": item.arguments,
        "order": item.order,
        "cleans": str(item.cleans) if item.cleans else None,
        "state": item.state,
        "why": item.why or None,
    }


# Many at once


@call(
    takes=life_schema.BulkBody,
    answers={202: life_schema.BulkJob},
    example={"filter": {"agent": ["purchase-order"], "status": ["scheduled"]}, "reason": "The import was wrong."},
)
def request_bulk(actor: Actor, given: Given) -> Answer:
    """Cancel many runs: the named ones, or those that match a filter now. Each gets its own answer; read them at the job's address.

    The selection is fixed at once, at most 5,000 runs. A selection of none is refused.
    """
    if "runs" in given:
        return Answer(202, _shown(bulk.request(actor, given["reason"], names=given["runs"]), 0, schema.LIMIT_MAX))
    open_runs = queries.readable(actor, Run.objects.filter(closed_at__isnull=True))
    matching = queries.narrow(actor, open_runs, RunFilter(**given["filter"]))
    told = {"filter": {name: value.isoformat() if hasattr(value, "isoformat") else value for name, value in given["filter"].items()}}
    return Answer(202, _shown(bulk.request(actor, given["reason"], matching=matching, selection=told), 0, schema.LIMIT_MAX))


@call(takes=life_schema.LinesQuery, answers={200: life_schema.BulkJob})
def get_bulk(actor: Actor, job: str, given: Given) -> Answer:
    """Read a bulk cancel: how many runs got which answer, and one line for each."""
    found = bulk.find(_named(job))
    if found.actor["id"] != actor.id and not (actor.is_person and actor.may(actors.RUN_READ)):
        raise NotAllowed(f"{actor.name} may not read somebody else's bulk cancel.", needs=actors.RUN_READ)
    return Answer(200, _shown(found, given["after"], given["limit"]))


def _shown(job: BulkCancel, after: int, limit: int) -> dict[str, Any]:
    lines = list(BulkLine.objects.filter(job=job, number__gt=after).select_related("run").order_by("number")[: limit + 1])
    return {
        "id": str(job.pk),
        "by": {name: job.actor[name] for name in ("type", "id", "name")},
        "reason": job.reason,
        "asked_at": iso(job.asked_at),
        "finished_at": iso(job.finished_at),
        "sums": bulk.sums(job),
        "lines": [_line(line) for line in lines[:limit]],
        "next": lines[limit - 1].number if len(lines) > limit else None,
    }


def _line(line: BulkLine) -> dict[str, Any]:
    return {
        "number": line.number,
        "asked_for": line.asked_for,
        "run": line.run.ref if line.run else None,
        "answer": line.answer or None,
        "detail": line.detail or None,
        "answered_at": iso(line.answered_at),
    }
