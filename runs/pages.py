"""What the pages show of a run, built from rows in few queries: the context of templates/runs/*. It renders nothing and changes nothing.

What a run's effects are is told to it by the ledger (`Standing`, `Names`), because this app does not know theirs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from runs import cleanup, doing, sentences, states, story, transition
from runs.actors import Actor
from runs.allowed import allowed_actions
from runs.models import CancelRequest, Cleanup, Event, Lease, Run, Step
from runs.sentences import HeaderFacts
from runs.shapes import first_cancels
from runs.wording import Parts, plain, say, shortened

Context = dict[str, Any]
TIMELINE_PAGE = 100
SILENT_AFTER_S = 15.0


@dataclass(frozen=True)
class Standing:
    """How a run's work effects stand: references of those in flight or in doubt, how many are unknown, how many were never sent,
    and how many landed and were not removed since."""

    unsettled: tuple[str, ...] = ()
    unknown: int = 0
    never_sent: int = 0
    in_effect: int = 0
    in_flight_words: tuple[str, ...] = ()


# The list


def rows(runs: Iterable[Run], actor: Actor | None = None) -> list[Context]:
    """One row of the list each. Without an actor (a push) no row offers anything."""
    return [row(run, actor) for run in runs]


def row(run: Run, actor: Actor | None = None) -> Context:
    """The row of one run: the run, one line beside its chip, what this person may do."""
    return {"run": run, "reason": reason(run), "allowed": allowed_actions(run, actor)}


REASON_MAX = 120


def reason(run: Run) -> str:
    """One line beside the chip: what it waits for or why it ended, as far as the row itself says."""
    if run.needs_person:
        return f"{run.needs_person} open case{'s' if run.needs_person > 1 else ''}"
    if run.state == states.CANCELLING:
        return _waits_to_stop(run)
    if run.quiet_basis == "presumed":
        return "its worker was never heard to stop"
    if run.error:
        return shortened(run.error.splitlines()[0], REASON_MAX)
    return waits_words(run) if run.state in (states.SCHEDULED, *states.WAITING) else ""


def _waits_to_stop(run: Run) -> str:
    waits = []
    if run.in_flight:
        waits.append(f"{run.in_flight} in flight")
    if run.lease_token is not None:
        waits.append("worker to confirm")
    if run.children_open:
        waits.append(f"{run.children_open} child run{'s' if run.children_open > 1 else ''}")
    return f"waiting for {', '.join(waits)}" if waits else ""


_WAITS = {
    "evidence": "its actions to be known",
    "operation": "another run's action to be known",
    "approval": "an approver",
    "child": "a child run",
    "time": "a set time",
}


def waits_words(run: Run) -> str:
    """What a standing run waits for: `waits for an approver`; '' when it waits only for a worker."""
    kind = (run.waits_for or {}).get("kind", "")
    return f"waits for {_WAITS.get(kind, kind)}" if kind else ""


# The run's own page


def head(run: Run, standing: Standing, actor: Actor | None = None) -> Context:
    """The context of `runs/detail.html#head`."""
    now = transition.clock()
    request = _the_request(run)
    facts = _facts(run, standing, request)
    return {
        "run": run,
        "says": sentences.header_sentence(facts),
        "asked": _asked(run, request),
        "times": _times(run),
        "notes": _notes(run, facts, standing, now),
        "integrity": None,
        "allowed": allowed_actions(run, actor),
    }


def _the_request(run: Run) -> CancelRequest | None:
    """The request whose words stand: the first one; for a terminated run the one that terminated it."""
    if run.cancel_position is None:
        return None
    if run.cancel_mode == "terminate":
        return CancelRequest.objects.filter(run=run, answer="accepted", mode="terminate").first() or first_cancels([run.pk]).get(run.pk)
    return first_cancels([run.pk]).get(run.pk)


def receipt_of(run: Run) -> Context | None:
    """The receipt of the request whose words stand, as it was written then; None before any."""
    request = _the_request(run)
    return request.receipt if request is not None else None


def _facts(run: Run, standing: Standing, request: CancelRequest | None) -> HeaderFacts:
    holder, seen_at = run.lease_holder or "", run.heartbeat_at
    if run.quiet_basis == "presumed" and not holder:
        unheard = Lease.objects.filter(run=run, stopped_at__isnull=True).order_by("-epoch").first()
        holder = unheard.holder if unheard else ""
    stopping = run.state in states.STOPPING
    return HeaderFacts(
        status=run.status,
        ref=run.ref,
        actions=run.effects_total,
        in_flight=run.in_flight,
        unsettled=standing.unsettled,
        landed=run.landed,
        in_effect=standing.in_effect,
        unknown=standing.unknown,
        never_sent=standing.never_sent,
        cases_open=run.needs_person,
        asked_by=request.actor_name if request else "",
        asked_at=_asked_at(run, request) if request else None,
        reason=request.reason if request else "",
        quiet_at=run.quiet_at,
        quiet_basis=run.quiet_basis,
        closed_at=run.closed_at,
        holder=holder,
        holder_seen_at=seen_at,
        worker_pending=stopping and run.lease_token is not None,
        cleanups_open=Cleanup.objects.filter(run=run, state__in=[cleanup.REGISTERED, cleanup.CLAIMED]).count() if stopping else 0,
        children_open=run.children_open,
        children_unsettled=run.children_unsettled,
        waits_for=waits_words(run).removeprefix("waits for "),
        wake_at=run.wake_at,
        error=run.error.splitlines()[0][:300] if run.error else "",
    )


def _asked_at(run: Run, request: CancelRequest) -> datetime:
    """The run's own moment of the ask, so that one moment is shown everywhere; a termination on top of a cancel has its own."""
    return run.asked_at if request.mode == "cancel" and run.asked_at is not None else request.at


_CHANNELS = {"web": "on this site", "api": "over the API", "bulk": "in a bulk cancel", "worker": "by its worker", "system": "automatically"}


def _asked(run: Run, request: CancelRequest | None) -> Context | None:
    if request is None:
        return None
    return {
        "by": request.actor_name,
        "channel": _CHANNELS.get(request.channel, request.channel or "by the system"),
        "at": _asked_at(run, request),
        "mode": request.mode,
        "reason": request.reason,
    }


_BASIS_NOTES = {"presumed": "presumed", "reaped": "its process is gone", "stopped": ""}


def _times(run: Run) -> list[Context]:
    """Asked, heard, quiet, settled; a missing one says whether it can still come."""
    if run.asked_at is None:
        return []
    never = "never" if run.is_closed and run.lease_epoch else "no worker held it" if run.is_closed else "not yet"
    told = [
        ("Asked", run.asked_at, "", "not yet"),
        ("Heard", run.heard_at, "", never),
        ("Quiet", run.quiet_at, _BASIS_NOTES.get(run.quiet_basis, ""), "not yet"),
        ("Settled", run.settled_at, "", "not yet"),
    ]
    return [
        {"label": label, "at": at, "after_s": (at - run.asked_at).total_seconds() if at else None, "note": note, "missing": missing}
        for label, at, note, missing in told
    ]


def _notes(run: Run, facts: HeaderFacts, standing: Standing, now: datetime) -> list[Parts]:
    notes = []
    if run.state == states.CANCELLING and run.lease_token is not None and run.heartbeat_at is not None:
        if (now - run.heartbeat_at).total_seconds() > max(SILENT_AFTER_S, run.lease_ttl_s / 2):
            notes.append(sentences.silent_worker_sentence(run.heartbeat_at))
    if run.quiet_at and run.asked_at and run.quiet_basis != "presumed":
        notes.append(sentences.quiet_sentence((run.quiet_at - run.asked_at).total_seconds()))
    if standing.in_flight_words:
        late = Step.objects.filter(run=run, state="timed_out", finished_at__isnull=False).order_by("finished_at")
        words = ", ".join(standing.in_flight_words)
        notes += [sentences.timed_out_sentence(step.title or step.key, step.finished_at, words) for step in late if step.finished_at]
    left = Cleanup.objects.filter(run=run, state=cleanup.LEFT_BEHIND).order_by("order", "registered_at")
    notes += [say(f"Cleanup did not reach {item.key}: {item.why}.") for item in left]
    return notes


# The timeline


def timeline(
    run: Run, names: story.Names, before: int | None = None, after: int | None = None, limit: int = TIMELINE_PAGE
) -> tuple[list[Context], int | None]:
    """Up to `limit` items in order: the last ones, those before `before`, or those after `after`.

    The second value is the seq to show earlier ones before, or None when there are none.
    """
    events = Event.objects.filter(run=run)
    if after is not None:
        found = list(events.filter(seq__gt=after).order_by("seq")[:limit])
    else:
        found = list((events.filter(seq__lt=before) if before is not None else events).order_by("-seq")[:limit])[::-1]
    earlier = found[0].seq if found and found[0].seq is not None and found[0].seq > 1 else None
    return [timeline_item(run, event, names) for event in found], earlier


def subjects(run: Run, since: int = 0) -> set[str]:
    """References of the effects that the timeline names, so that the ledger can say what they are called."""
    kinds = Event.objects.filter(run=run, seq__gt=since, kind__startswith="effect.")
    return set(kinds.values_list("subject", flat=True))


_MARKED_AFTER = ("effect.", "step.", "act.", "child.", "cleanup.")


def timeline_item(run: Run, event: Event, names: story.Names) -> Context:
    """One item of the timeline."""
    lane, lane_name = story.lane(event)
    cancel = run.cancel_position
    return {
        "seq": event.seq,
        "at": event.at,
        "lane": lane,
        "lane_name": lane_name,
        "says": story.tell(event, names),
        "sub": story.sub(event),
        "after": cancel is not None and event.seq is not None and event.seq > cancel and event.kind.startswith(_MARKED_AFTER),
        "rule": story.rule(event, cancel),
    }


# What a cancel or terminate would meet (runs/preview.py), as the dialogs show it


def plan(preview: Context, line: Any, quiet_note: str = "") -> Context:
    """The plan of a cancel for the dialog; `line` turns an effect's line of the preview into what is shown of it."""
    everything = list(tree(preview))
    return {
        "stops": {
            "steps": sum(len(part["not_started"]) for part in everything),
            "children": [part["run"] for part in everything[1:] if part["state"] not in states.CLOSED],
            "effects": [line(one) for part in everything for one in part["withheld"]],
        },
        "in_flight": [line(one) for part in everything for one in part["in_flight"]],
        "unresolved": [line(one) for part in everything for one in part["unresolved"]],
        "landed": [line(one) for part in everything for one in part["landed"]],
        "cleanups": [one["key"] for part in everything for one in part["cleanups"]],
        "hears": _hears(everything),
        "running": doing.running(uuid.UUID(part["id"]) for part in everything),
        "quiet_note": quiet_note,
        "digest": preview.get("plan_digest", ""),
    }


def tree(preview: Context) -> Iterable[Context]:
    """A preview or receipt and those of its children, parents first."""
    yield preview
    for child in preview["children"]:
        yield from tree(child)


def _hears(everything: list[Context]) -> str:
    running = [step for part in everything for step in part["running"]]
    flying = {one["step"] for part in everything for one in part["in_flight"]}
    deaf = [step["title"] or step["step"] for step in running if not step["hears_cancel"] and step["step"] not in flying]
    if deaf:
        return f"“{deaf[0]}” does not listen for a cancel: the worker stops when it ends."
    if flying:
        return "The worker stops when what is in flight has been answered."
    return "The worker listens for a cancel while it works." if running else ""


def terminate_plan(run: Run, preview: Context) -> Context:
    """What terminating would skip, leave and put in doubt."""
    everything = list(tree(preview))
    waiting_for = _waits_to_stop(run).removeprefix("waiting for ")
    return {
        "skipped": [one["key"] for part in everything for one in part["cleanups"]],
        "landed": sum(len(part["landed"]) for part in everything),
        "in_flight": sum(len(part["in_flight"]) for part in everything),
        "digest": preview["plan_digest"],
        "cancelling_s": (transition.clock() - run.asked_at).total_seconds() if run.state == states.CANCELLING and run.asked_at else None,
        "waiting_for": waiting_for,
        "worker": run.lease_holder or "",
        "worker_seen_at": run.heartbeat_at if run.lease_token else None,
    }


def changed_lines(run: Run, seen: int | None, names: story.Names) -> list[str]:
    """What was recorded since version `seen`, one line each, for somebody whose preview has become stale."""
    if seen is None:
        return []
    events = Event.objects.filter(run=run, seq__gt=seen).order_by("seq")[:20]
    return [plain(story.tell(event, names)) for event in events]


def by_id(ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, Run]:
    """Several runs as they are stored now."""
    return {run.pk: run for run in Run.objects.filter(pk__in=list(ids))}
