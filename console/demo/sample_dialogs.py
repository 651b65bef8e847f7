"""Dialogs with made-up contents, in their real templates, for `/demo/components/`. Sent, they do nothing."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

Context = dict[str, Any]

REF = "R-7K2M9Q4TXA"
PROVIDER = "Supplier"


def run(status: str, now: datetime) -> Any:
    """A run in a status, as a row or page shows it."""
    closed = status.partition("_")[0] in ("completed", "failed", "cancelled", "terminated")
    return SimpleNamespace(
        id=uuid.uuid5(uuid.NAMESPACE_URL, status), ref=REF, title=f"PO-1042 to {PROVIDER}", business_ref="PO-1042", agent="purchase-order",
        status=status, version=12, in_flight=2 if status == "writing" else 0, in_doubt=int("pending" in status), needs_person=0,
        unknowable=0, landed=4, effects_total=6, created_at=now, started_at=now - timedelta(minutes=4), changed_at=now,
        owner_name="Sam Support",        deadline_at=None, closed_at=now if closed else None, refused_after_cancel=2, parent=None, error="",
    )  # fmt: skip


@dataclass(frozen=True)
class Dialog:
    """A dialog in one of its states."""

    says: str
    template: str
    context: Context


_LINE = {"what": "order PO-1042", "amount": 12600, "currency": "GBP", "ref": "E-7K2M9Q4TXA", "sent_at": None, "note": ""}
_PLAN: Context = {
    "stops": {"steps": 3, "children": [REF], "effects": [_LINE]},
    "in_flight": [_LINE],
    "unresolved": [_LINE],
    "landed": [_LINE],
    "cleanups": ["release the hold"],
    "quiet_note": "Usually quiet in 1.2 s.",
    "hears": "The worker listens for a cancel while it works.",
}
_NOTHING: Context = {"stops": {"steps": 0, "children": [], "effects": []}, "quiet_note": ""}
_TERMINATE: Context = {
    "skipped": ["release the hold"],
    "landed": 2,
    "in_flight": 1,
    "cancelling_s": 370.0,
    "waiting_for": "worker to confirm",
}
_ACTION = {
    "what": "order PO-1042",
    "provider_name": PROVIDER,
    "business_ref": "PO-1042",
    "occurrence": 1,
    "amount": 612600,
    "currency": "GBP",
}
_APPROVAL: Context = {
    "question": "May I order for £6,126.00 GBP?", "action": _ACTION, "digest": "0123456789abcdef", "allowed": {"decide"},
    "verb_object": "Approve £6,126.00 GBP", "request": {"lines": 2}, "details": None, "asked_by": "Sam Support",
}  # fmt: skip
_CHANGED = {"title": "Something changed while you were reading.", "detail": "Check again, then terminate."}
_CLOSED = {"title": "Not cancelled: this run had already finished.", "detail": "Nothing was stopped."}
_CASE = {"ref": "Q-7K2M9Q4TXA", "url": "#dialogs-of-samples"}

DIALOGS: dict[str, Dialog] = {
    "cancel": Dialog("Cancel, with something in every part of the plan", "runs/cancellation.html", {"plan": _PLAN}),
    "cancel-nothing": Dialog("Cancel, with nothing under way", "runs/cancellation.html", {"plan": _NOTHING}),
    "cancel-refused": Dialog("Cancel, refused", "runs/cancellation.html", {"plan": _NOTHING, "problem": _CLOSED}),
    "terminate": Dialog("Terminate", "runs/termination.html", {"plan": _TERMINATE}),
    "terminate-changed": Dialog(
        "Terminate, after something changed and with errors",
        "runs/termination.html",
        {"plan": _TERMINATE, "problem": _CHANGED, "may_retry": True, "changed": ["Order PO-1042 landed"],
         "reason_error": "Say why.", "typed": "R-1", "typed_error": f"Type {REF}, exactly this run's reference."},
    ),
    "approve": Dialog("Approve", "runs/approvals/decide.html", {"approval": _APPROVAL, "verb": "approve"}),
    "reject": Dialog(
        "Reject, with an error", "runs/approvals/decide.html", {"approval": _APPROVAL, "verb": "reject", "comment_error": "Say why."}
    ),
    "take-over": Dialog("Take over a claim", "reconciliation/cases/take_over.html", {"case": _CASE, "claim": {"by": "Olga Other"}}),
    "help": Dialog("Keys and words", "help.html", {}),
}  # fmt: skip


def dialog(name: str) -> tuple[str, Context] | None:
    """The template of a dialog and its context; None when there is none of that name."""
    one = DIALOGS.get(name)
    if one is None:
        return None
    now, here = datetime.now(UTC), f"/demo/components/{name}"
    sample = run("running", now)
    base = {
        "run": sample,
        "post_url": here,
        "take_over_url": here,
        "back_url": "/demo/components/#dialogs-of-samples",
        "plan_url": here,
        "seen": 12,
    }
    context = base | one.context
    if approval := context.get("approval"):
        context["approval"] = approval | {"run": sample}
    if claim := context.get("claim"):
        context["claim"] = claim | {"until": now + timedelta(minutes=12)}
    return one.template, context
