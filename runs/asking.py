"""What the pages show of approvals: the questions that runs wait on, and what became of them. It decides nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from runs import transition
from runs.actors import Actor
from runs.allowed import allowed_on_approval
from runs.errors import NotFound
from runs.models import Approval, Run

Context = dict[str, Any]
Namer = Callable[[dict[str, Any]], Context]
"""How the layer above says an action: {what, amount, currency, amount_text, provider_name, business_ref}."""

SHOWN_MAX = 50
TABS = (("to_decide", "To decide"), ("asked", "Asked by me"), ("decided", "Decided lately"))
DECIDED_FOR = timedelta(days=7)

_BECAME = {
    "approved": "Approved by {by}.",
    "rejected": "Rejected by {by}.",
    "expired": "Nobody decided in time. The run's plan was told so.",
    "withdrawn": "Withdrawn: the run does not need it any more.",
    "requested": "",
}


def find(tab: str) -> QuerySet[Approval]:
    """The approvals of a tab; undecided ones by when they run out."""
    rows = Approval.objects.select_related("run")
    if tab == "asked":  # runs ask for confirmations, people for undoing
        return rows.none()
    if tab == "decided":
        return rows.filter(decided_at__gte=transition.clock() - DECIDED_FOR).order_by("-decided_at", "id")
    return rows.filter(state="requested").order_by("expires_at", "id")


def open_count() -> int:
    """How many wait for a decision (counted to 100)."""
    return Approval.objects.filter(state="requested").order_by()[:100].count()


def of_run(run: Run) -> list[Approval]:
    """Every approval that a run asked for, in order."""
    return list(Approval.objects.filter(run=run).order_by("requested_at", "id"))


def read(text: str) -> Approval:
    """The approval with that id. Raises `NotFound`."""
    try:
        found = Approval.objects.select_related("run").filter(pk=uuid.UUID(text)).first()
    except ValueError:
        found = None
    if found is None:
        raise NotFound("No approval is called that. It may have been mistyped.")
    return found


def shown(approval: Approval, name: Namer, actor: Actor | None = None) -> Context:
    """One approval: what is asked, what it would allow, until when, and what became of it."""
    action = name(approval.action) if approval.action else None
    return {
        "id": str(approval.pk),
        "question": approval.question,
        "key": approval.key,
        "details": approval.details,
        "action": action,
        "request": (approval.action or {}).get("request"),
        "run": approval.run,
        "asked_by": approval.run.owner_name,
        "requested_at": approval.requested_at,
        "expires_at": approval.expires_at,
        "state": approval.state,
        "became": _BECAME[approval.state].format(by=approval.decided_name),
        "told": _BECAME[approval.state].format(by=approval.decided_name).removesuffix("."),
        "comment": approval.comment,
        "decided_at": approval.decided_at,
        "spent_at": approval.spent_at,
        "digest": approval.digest,
        "allowed": allowed_on_approval(approval, actor),
        "verb_object": f"Approve {action['amount_text'] or action['what']}" if action else "Approve",
    }
