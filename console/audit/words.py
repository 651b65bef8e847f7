"""Events in the auditor's words: those of a run as its timeline says them, those of no run by what was done. Pure."""

from __future__ import annotations

import json
from typing import Any

from runs import story
from runs.models import Event
from runs.wording import Parts, Ref, say

_SAYS = {
    "people.signed_in": "Signed in",
    "people.signed_out": "Signed out",
    "people.password_changed": "Changed the password of {username}",
    "people.groups_changed": "Put {username} into: {groups}",
    "people.activated": "Let {username} in again",
    "people.deactivated": "Deactivated {username}",
    "policy.changed": "Changed what {subject} needs",
    "cancel.stored": "Asked to cancel {subject} before it exists",
    "cancel.expired": "The cancel of {subject} expired: no such run came",
    "bulk.requested": "Asked to cancel {total} runs at once",
    "provider.down": "{subject} does not answer",
    "provider.up": "{subject} answers again",
    "case.claimed": "Claimed",
    "case.taken_over": "Took over",
    "case.claims_lapsed": "Freed {count} cases that nobody worked on",
    "audit.exported": "Exported events as {form}",
    "integrity.broken": "Records disagree",
    "integrity.cleared": "Records agree again",
    "integrity.set_aside": "Set a discrepancy aside",
}
_OWN_REF = ("Q-", "C-", "INC-")
_SHOWN_MAX = 200


def tell(event: Event, names: story.Names) -> Parts:
    """What happened."""
    if event.run_id is not None:
        return story.tell(event, names)
    data: dict[str, Any] = event.data or {}
    known = _SAYS.get(event.kind)
    words = known.format_map(_Lenient(data, event.subject)) if known else event.kind.replace(".", " ").replace("_", " ").capitalize()
    if known and "{subject}" in known or not event.subject:
        return say(words)
    return (
        say(words, ": " if not known or not event.subject.startswith(_OWN_REF) else " ", Ref(event.subject))
        if _names(event)
        else say(words)
    )


def _names(event: Event) -> bool:
    """Whether the subject says more than the words: a person's own number does not."""
    return not event.kind.startswith("people.")


def sub(event: Event) -> str:
    """The smaller line: a reason, or else what was recorded with it."""
    reason = story.sub(event)
    if reason or event.run_id is not None or not event.data:
        return reason
    text = json.dumps(event.data, ensure_ascii=False, sort_keys=True, default=str)
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}…"


class _Lenient(dict[str, Any]):
    """The data of an event for its sentence; what was not recorded reads as a question mark."""

    def __init__(self, data: dict[str, Any], subject: str) -> None:
        shown = {name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)[:_SHOWN_MAX] for name, value in data.items()}
        super().__init__(shown | {"subject": subject})

    def __missing__(self, name: str) -> str:
        return "?"
