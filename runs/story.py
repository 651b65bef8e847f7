"""The events of a run in words, for the timeline. Pure: an event says what was recorded, never what it may have meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runs.models import Event
from runs.wording import Lead, Parts, Ref, say

Names = Mapping[str, str]
"""What each effect is called (its words and amount), by its reference."""

STEP, EFFECT, CHILD, PERSON = "step", "effect", "child", "person"

_LANES: dict[str, tuple[str, str]] = {
    "step": (STEP, "Step"),
    "effect": (EFFECT, "Effect"),
    "look": (EFFECT, "Effect"),
    "child": (CHILD, "Child"),
    "children": (CHILD, "Child"),
    "approval": (PERSON, "Person"),
    "compensation": (PERSON, "Person"),
    "case": (PERSON, "Person"),
    "cancel": (PERSON, "Person"),
    "terminate": (PERSON, "Person"),
    "cleanup": (STEP, "Clean-up"),
    "lease": (STEP, "Worker"),
    "sender": (STEP, "Worker"),
    "act": (STEP, "Worker"),
    "run": (STEP, "Run"),
}

_EFFECT_WORDS = {
    "declared": "is planned; nothing of it has left us",
    "withheld": "was stopped before it left us",
    "sending": "is being sent",
    "pending": "was accepted, not final",
    "landed": "landed",
    "refused": "was refused",
    "absent": "did not happen",
    "unknown": "is unknown: it may or may not have happened",
    "ambiguous": "needs a person: asking did not settle it",
    "conflicted": "has answers that disagree",
    "duplicated": "happened more than once",
    "reversed": "was undone by the provider",
    "evidence": "has new evidence",
    "relied_on": "was relied on: it had landed for another run",
}
_SOURCES = {
    "sender": "said its sender",
    "look": "found by a look",
    "webhook": "told by webhook",
    "person": "found by a person",
    "supervisor": "said the worker's supervisor",
}
_BASIS = {
    "stopped": "its worker said that it has stopped",
    "reaped": "its worker's process is gone",
    "presumed": "presumed: its worker was never heard to stop",
}


def lane(event: Event) -> tuple[str, str]:
    """The lane an event stands in, and what the lane is called for it."""
    if event.kind == "cancel.heard":
        return (STEP, "Worker")
    return _LANES.get(event.kind.partition(".")[0], (STEP, "Run"))


def rule(event: Event, cancel_position: int | None) -> str:
    """`cancel` and `quiet` are drawn as a rule across the timeline; anything else is ''."""
    if event.kind == "run.quiet":
        return "quiet"
    return "cancel" if event.kind in ("cancel.accepted", "terminate.accepted") and event.seq == cancel_position else ""


def tell(event: Event, names: Names) -> Parts:
    """What happened, with the subject's reference in it."""
    group, _, what = event.kind.partition(".")
    data: dict[str, Any] = event.data or {}
    match group:
        case "effect":
            return _effect(event, what, names)
        case "step":
            return _step(event, what, data)
        case "cancel" | "terminate":
            return _stop(event, group, what)
        case "case":
            return say(f"Case {what.replace('_', ' ')}: ", Ref(event.subject), _by(event))
        case "approval":
            return say(f"Approval {what}: {event.subject}", _by(event))
        case "compensation":
            return _undo(event, what, data)
        case "cleanup":
            why = f": {data['why']}" if data.get("why") else ""
            return say(f"Clean-up {event.subject} {what.replace('_', ' ')}{why}")
        case "child":
            return say("Started child run ", Ref(event.subject))
        case "children":
            return say(f"Child runs: {data.get('open', 0)} open, {data.get('unsettled', 0)} not settled")
        case "look":
            return say(f"{event.actor_name} asked for a check of {names.get(event.subject, 'an action')} ", Ref(event.subject))
        case _:
            return _life(event, data)


def sub(event: Event) -> str:
    """The smaller line below: a reason, an error, a message."""
    data = event.data or {}
    words = data.get("reason") or data.get("error") or data.get("message") or ""
    if event.kind.startswith("compensation."):
        words = data.get("why") or data.get("note") or data.get("message") or data.get("comment") or ""
    if event.kind.startswith("approval.") and data.get("comment"):
        words = data["comment"]
    return str(words)[:500]


def _effect(event: Event, what: str, names: Names) -> Parts:
    data = event.data or {}
    name = names.get(event.subject, "an action")
    if decided := _decided(data):
        return say(f"{name[:1].upper()}{name[1:]} ", Ref(event.subject), f" {decided} — {event.actor_name}")
    attempt = f" (attempt {data['attempt']})" if data.get("attempt", 1) != 1 and what == "sending" else ""
    source = _SOURCES.get(str(data.get("source", "")), "")
    told = f" — {source}" if source and what not in ("sending", "declared", "withheld") else ""
    return say(f"{name[:1].upper()}{name[1:]} ", Ref(event.subject), f" {_EFFECT_WORDS.get(what, what)}{attempt}{told}")


_UNDO_WORDS = {
    "requested": "Undo asked for",
    "edited": "Undo request changed",
    "approved": "Undo approved",
    "rejected": "Undo rejected",
    "withdrawn": "Undo withdrawn",
    "expired": "Undo request expired",
    "stale": "Undo request is out of date",
    "executing": "Undo is being sent",
    "undone": "Undone",
    "failed": "Undo failed",
}


def _undo(event: Event, what: str, data: dict[str, Any]) -> Parts:
    """What became of a request to undo an action of this run."""
    original = say(" of ", Ref(str(data["original"]))) if data.get("original") else []
    missing = data.get("needed", 0) - data.get("given", 0) if what == "approved" else 0
    more = f"; {missing} more must approve" if missing > 0 else ""
    return say(f"{_UNDO_WORDS.get(what, what.replace('_', ' '))}: ", Ref(event.subject), original, _by(event), more)


_RELEASED = {
    "left": "is left unsent, for every run",
    "released": "may be sent again",
    "asked": "waits for a person: send it again, or leave it",
}


def _decided(data: dict[str, Any]) -> str:
    """What somebody decided about an action whose state stays as it is."""
    if data.get("left_in_place"):
        return "is left in place"
    if data.get("surplus"):
        return f"has surplus objects: {', '.join(data['surplus'])}"
    return _RELEASED.get(str(data.get("release", "")), "")


def _step(event: Event, what: str, data: dict[str, Any]) -> Parts:
    name = data.get("title") or event.subject
    if what == "started":
        return say(f"{name} started")
    if what == "timed_out":
        return say(f"We stopped waiting for {name}. That says nothing about anything that it sent")
    recorded = str(data.get("recorded", "done"))
    words = {"late": "ended late; kept, not used", "discarded": "answered late; discarded", "failed": "failed"}.get(recorded, "done")
    return say(f"{name} {words}")


def _stop(event: Event, group: str, what: str) -> Parts:
    noun = "Cancel" if group == "cancel" else "Termination"
    if what == "accepted":
        return say(Lead(f"{noun} accepted"), f" — asked by {event.actor_name}")
    if what == "heard":
        return say(f"Worker {event.subject} heard the cancel")
    if what == "repeated":
        return say(f"{event.actor_name} asked again; it changed nothing")
    return say(f"{event.actor_name} asked for a cancel after the end; nothing was stopped")


def _life(event: Event, data: dict[str, Any]) -> Parts:
    holder = event.subject or data.get("holder", "")
    match event.kind:
        case "run.created":
            return say(f"Created by {event.actor_name}")
        case "run.claimed":
            return say(f"Worker {holder} took it")
        case "run.suspended":
            until = (data.get("until") or {}).get("kind", "something")
            return say(f"Given back until {_UNTIL.get(until, until)}" if data.get("waiting") else "Given back; what it waited for is met")
        case "run.woke":
            return say("Ready to go on")
        case "run.quiet":
            how = "no worker ever held it" if data.get("held") is False else _BASIS.get(str(data.get("basis")), "nothing is acting")
            return say(Lead("Quiet"), f" — {how}")
        case "run.quiet_confirmed":
            return say(f"Quiet confirmed: {_BASIS.get(str(data.get('basis')), '')}")
        case "run.failing":
            return say("Failed; cleaning up")
        case "lease.expired":
            return say(f"Worker {holder} did not answer in time: its lease is over")
        case "lease.reaped":
            return say(f"The process of worker {holder} is gone")
        case "lease.stopped":
            return say(f"Worker {holder} stopped")
        case "lease.released":
            return say(f"Worker {holder} gave it back")
        case "sender.stopped":
            return say(f"Worker {holder} is confirmed stopped")
        case "act.refused":
            return say(f"Refused: {event.actor_name} tried {event.subject.replace('.', ' ')}")
    word = event.kind.partition(".")[2].replace("_", " ")
    return say(f"{word[:1].upper()}{word[1:]}" if event.kind.startswith("run.") else event.kind.replace(".", " "))


_UNTIL = {
    "evidence": "its actions are known",
    "operation": "another run's action is known",
    "approval": "a person decides",
    "child": "a child run ends",
    "time": "a set time",
}


def _by(event: Event) -> str:
    return f" by {event.actor_name}" if event.actor_type == "person" else ""
