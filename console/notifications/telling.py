"""What an event means for those who are to be told: one sentence of our own, a reference, a version and a link. Never a name, an amount or
anything that an agent, a provider or a person wrote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from console.notifications import states
from ledger.models import Effect
from ledger.states import COMPENSATION, WORK
from reconciliation.models import Case
from reconciliation.pages import KIND_WORDS
from runs.models import Run


@dataclass(frozen=True)
class Happened:
    """One event of the log, as the follower read it."""

    id: int
    kind: str
    run_id: Any
    seq: int | None
    subject: str
    data: dict[str, Any]
    at: datetime


@dataclass(frozen=True)
class Told:
    """`version` is that of what `reference` names, read when the message was made."""

    kind: str
    says: str
    reference: str
    version: int
    path: str
    run: str = ""
    about: str = ""


def what_to_tell(event: Happened) -> Told | None:
    """What is told of an event, if anything. Reads a row or two."""
    teller = _TELLERS.get(event.kind)
    return teller(event) if teller else None


def body(told: Told, at: datetime) -> dict[str, Any]:
    """The payload, in the form of Standard Webhooks: `type`, `timestamp`, `data`."""
    data = {
        "says": told.says,
        "reference": told.reference,
        "version": told.version,
        "run": told.run or None,
        "about": told.about or None,
        "url": settings.PUBLIC_URL + told.path,
    }
    return {"type": told.kind, "timestamp": at.isoformat(), "data": data}


def _case(event: Happened) -> Told | None:
    case = Case.objects.select_related("run").filter(ref=event.subject).first()
    if case is None:
        return None
    second = event.kind == "case.second_asked"
    says = "A second person must confirm a finding." if second else f"A person must find out: {KIND_WORDS[case.kind].lower()}."
    run = case.run.ref if case.run else ""
    return Told(states.NEEDS_PERSON, says, case.ref, case.version, f"/cases/{case.ref}/", run, case.kind)


def _approval(event: Happened) -> Told | None:
    run = Run.objects.filter(pk=event.run_id).first()
    if run is None:
        return None
    return Told(
        states.NEEDS_APPROVAL, "A run waits for an approver to decide.", run.ref, event.seq or 0, "/approvals/", run.ref, "confirmation"
    )


def _undo_asked(event: Happened) -> Told | None:
    run = Run.objects.filter(pk=event.run_id).first()
    says = "Somebody asked for an action to be undone. Somebody else must approve it."
    path, version = "/approvals/", event.data.get("version", event.seq)
    return Told(states.NEEDS_APPROVAL, says, event.subject, version or 0, path, run.ref if run else "", "undo")


def _outcome(event: Happened) -> Told | None:
    effect = Effect.objects.select_related("run").filter(ref=event.subject).first()
    if effect is None:
        return None
    run, word = effect.run, event.kind.removeprefix("effect.")
    place = (effect.ref, effect.version, f"/effects/{effect.ref}", run.ref, word)
    if effect.role == COMPENSATION and word in _UNDO_FAILED:
        return Told(states.UNDO_FAILED, _UNDO_FAILED[word], *place)
    after = run.cancel_position is not None and event.seq is not None and event.seq > run.cancel_position
    if effect.role == WORK and after and word in _LANDED_AFTER:
        return Told(states.LANDED_AFTER_CANCEL, _LANDED_AFTER[word], *place)
    return None


_UNDO_FAILED = {
    "refused": "An undo did not work: the provider refused it. The original is still in effect.",
    "absent": "An undo did not happen. The original is still in effect.",
    "reversed": "An undo that had worked was taken back by the provider. The original is in effect again.",
}
_LANDED_AFTER = {
    "landed": "An action landed, and we learned it after the cancel was accepted. It is in effect now.",
    "duplicated": "An action happened more than once, and we learned it after the cancel was accepted. It is in effect now.",
}


def _provider(event: Happened) -> Told:
    says = "A provider does not answer. What is unknown there stays unknown until it does."
    return Told(states.PROVIDER_DOWN, says, event.subject, event.id, "/cases/")


def _disabled(event: Happened) -> Told:
    says = "A notification endpoint failed for days and is disabled. Nothing is sent there any more."
    return Told(states.ENDPOINT_DISABLED, says, event.subject, event.id, f"/settings/notifications/{event.subject}/")


_TELLERS: dict[str, Callable[[Happened], Told | None]] = {
    "case.opened": _case,
    "case.reopened": _case,
    "case.second_asked": _case,
    "approval.requested": _approval,
    "compensation.requested": _undo_asked,
    **{f"effect.{word}": _outcome for word in (*_UNDO_FAILED, *_LANDED_AFTER)},
    "provider.down": _provider,
    "notification.endpoint_disabled": _disabled,
}
