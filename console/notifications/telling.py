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
from ledger.states import WORK
from reconciliation.models import Case
from reconciliation.queue import KIND_WORDS
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


def _undo_asked(event: Happened) -> Told:
    says = "Somebody asked for an action to be undone. Somebody else must approve it."
    return _of_undo(states.NEEDS_APPROVAL, says, event, "undo")


def _outcome(event: Happened) -> Told | None:
    effect = Effect.objects.select_related("run").filter(ref=event.subject).first()
    if effect is None:
        return None
    run, word = effect.run, event.kind.removeprefix("effect.")
    place = (effect.ref, effect.version, f"/effects/{effect.ref}", run.ref, word)
    after = run.cancel_position is not None and event.seq is not None and event.seq > run.cancel_position
    if effect.role == WORK and after and word in _LANDED_AFTER:
        return Told(states.LANDED_AFTER_CANCEL, _LANDED_AFTER[word], *place)
    return None


def _undo_failed(event: Happened) -> Told:
    word = str(event.data.get("state", ""))
    says = _UNDO_FAILED.get(word, "An undo did not work. The original is still in effect.")
    return _of_undo(states.UNDO_FAILED, says, event, word)


def _of_undo(kind: str, says: str, event: Happened, about: str) -> Told:
    """The events of a request to undo carry its version."""
    run = Run.objects.filter(pk=event.run_id).values_list("ref", flat=True).first()
    return Told(kind, says, event.subject, int(event.data.get("version") or event.seq or 0), "/approvals/", run or "", about)


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


def _disagree(event: Happened) -> Told:
    run = Run.objects.filter(pk=event.data.get("run")).first() if event.data.get("run") else None
    says = "Records disagree. Rely on nothing that is said of this until it is explained."
    path = f"/runs/{run.ref}/" if run else "/runs/"
    return Told(states.RECORDS_DISAGREE, says, event.subject, event.id, path, run.ref if run else "", str(event.data.get("invariant", "")))


def _disabled(event: Happened) -> Told:
    says = "A notification endpoint failed for days and is disabled. Nothing is sent there any more."
    return Told(states.ENDPOINT_DISABLED, says, event.subject, event.id, f"/settings/notifications/{event.subject}/")


_TELLERS: dict[str, Callable[[Happened], Told | None]] = {
    "case.opened": _case,
    "case.reopened": _case,
    "case.second_asked": _case,
    "approval.requested": _approval,
    "compensation.requested": _undo_asked,
    "compensation.edited": _undo_asked,
    "compensation.failed": _undo_failed,
    **{f"effect.{word}": _outcome for word in _LANDED_AFTER},
    "provider.down": _provider,
    "integrity.broken": _disagree,
    "notification.endpoint_disabled": _disabled,
}
