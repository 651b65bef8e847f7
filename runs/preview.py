"""What a cancel would meet (preview) and what it met (receipt), in the same words, from the same rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runs import cleanup, states
from runs.book import Holdings, Line, book
from runs.ids import digest
from runs.models import CancelRequest, Event, Run, Step


def running_steps(run: Run) -> list[Line]:
    """Model calls, tools and reads that are running, with whether they hear a cancel."""
    steps = Step.objects.filter(run=run, state="running").order_by("position")
    return [{"step": s.key, "title": s.title, "kind": s.kind, "hears_cancel": s.hears_cancel_every_s is not None} for s in steps]


def not_started(run: Run) -> list[Line]:
    """Planned steps that have no row yet."""
    started = set(Step.objects.filter(run=run).values_list("key", flat=True))
    return [{"step": key} for key in run.plan if key not in started]


def receipt(run: Run, position: int | None, mode: str, held: Holdings, withheld: list[Line], seen: int | None) -> dict[str, Any]:
    """The receipt of one run (its children are added by the caller). Written once, never reworded."""
    return {
        "run": run.ref,
        "id": str(run.pk),
        "mode": mode,
        "position": position,
        "state": run.state,
        "asked_at": run.asked_at.isoformat() if run.asked_at else None,
        "in_flight": held.in_flight,
        "running": running_steps(run) if position is not None else [],
        "unresolved": held.unresolved,
        "withheld": withheld,
        "not_started": not_started(run) if position is not None else [],
        "landed": held.landed,
        "children": [],
        "cleanups": _cleanups(run, mode) if position is not None else [],
        "changed_since_seen": changed_since(run, seen, position),
    }


def _cleanups(run: Run, mode: str) -> list[Line]:
    """The cleanups that will run after a cancel; after a terminate none of them does, and each is left behind."""
    will_run = mode != "terminate"
    return [line | {"will_run": will_run} for line in cleanup.lines(run, cleanup.REGISTERED)]


def changed_since(run: Run, seen: int | None, position: int | None) -> list[Line]:
    """What happened between the version a person saw and the cancel."""
    if seen is None or position is None:
        return []
    events = Event.objects.filter(run=run, seq__gt=seen, seq__lt=position).order_by("seq")
    return [{"seq": e.seq, "kind": e.kind, "subject": e.subject, "at": e.at.isoformat()} for e in events]


def of_run(run: Run, held: Holdings) -> dict[str, Any]:
    """The preview of one run: what will stop, what can't be stopped, what stays."""
    open_run = not run.is_closed
    return {
        "run": run.ref,
        "id": str(run.pk),
        "state": run.state,
        "version": run.version,
        "in_flight": held.in_flight,
        "running": running_steps(run) if open_run else [],
        "unresolved": held.unresolved,
        "withheld": held.declared,
        "not_started": not_started(run) if open_run else [],
        "landed": held.landed,
        "cleanups": cleanup.lines(run, cleanup.REGISTERED) if open_run else [],
        "children": [],
    }


def of_tree(levels: list[list[Run]]) -> dict[str, Any]:
    """The preview of a run with its descendants nested, and the digest by which a stale one is told."""
    runs = [run for level in levels for run in level]
    holdings = book().holdings(runs)
    made = {run.pk: of_run(run, holdings[run.pk]) for run in runs}
    for run in runs[1:]:
        assert run.parent_id is not None
        made[run.parent_id]["children"].append(made[run.pk])
    top = made[runs[0].pk]
    top["plan_digest"] = plan_digest(runs, holdings)
    return top


def preview(run: Run) -> dict[str, Any]:
    """What a cancel of this run would meet now, read without locks."""
    levels = [[run]]
    while below := list(Run.objects.filter(parent__in=[r.pk for r in levels[-1]]).order_by("id")):
        levels.append(below)
    return of_tree(levels)


def plan_digest(runs: Iterable[Run], holdings: dict[Any, Holdings] | None = None) -> str:
    """The digest of what a person decides upon: the effects and steps that a stop would meet, not clocks and versions."""
    runs = list(runs)
    held = holdings or book().holdings(runs)
    facts = []
    for run in runs:
        mine = held[run.pk]
        facts.append(
            [
                run.ref,
                run.state if run.state in states.CLOSED | states.STOPPING else "open",
                *(
                    sorted([line["ref"], line.get("attempt", 0), line["state"]] for line in lines)
                    for lines in (mine.in_flight, mine.unresolved, mine.landed, mine.declared)
                ),
            ]
        )
    return digest(facts)


def first_request(run: Run) -> CancelRequest | None:
    """The request whose who, when and why stand for ever."""
    return CancelRequest.objects.filter(run=run, answer="accepted").order_by("position").first()
