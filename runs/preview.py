"""What a cancel would meet (preview) and what it met (receipt), in the same words, from the same rows."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from runs import cleanup, states
from runs.book import Holdings, Line, book
from runs.ids import digest
from runs.models import CancelRequest, Cleanup, Event, Run, Step


@dataclass
class Progress:
    """Where a run's plan stands, as the JSON lines of a preview or a receipt."""

    running: list[Line] = field(default_factory=list)
    not_started: list[Line] = field(default_factory=list)
    cleanups: list[Line] = field(default_factory=list)


def progress_of(runs: Iterable[Run]) -> dict[uuid.UUID, Progress]:
    """Running steps (with whether they hear a cancel), planned steps without a row, registered cleanups: of all runs at once."""
    found = {run.pk: Progress() for run in runs}
    started: dict[uuid.UUID, set[str]] = defaultdict(set)
    for step in (
        Step.objects.filter(run__in=found).order_by("position").only("run_id", "key", "title", "kind", "state", "hears_cancel_every_s")
    ):
        started[step.run_id].add(step.key)
        if step.state == "running":
            hears = step.hears_cancel_every_s is not None
            line = {"step": step.key, "title": step.title, "kind": step.kind, "hears_cancel": hears}
            found[step.run_id].running.append(line)
    for item in Cleanup.objects.filter(run__in=found, state=cleanup.REGISTERED).order_by("order", "registered_at"):
        found[item.run_id].cleanups.append(cleanup.line(item))
    for run in runs:
        found[run.pk].not_started = [{"step": key} for key in run.plan if key not in started[run.pk]]
    return found


def receipts(
    runs: list[Run],
    positions: dict[uuid.UUID, int],
    mode: str,
    holdings: dict[uuid.UUID, Holdings],
    withheld: dict[uuid.UUID, list[Line]],
    seen: int | None,
) -> dict[uuid.UUID, dict[str, Any]]:
    """The receipts of stopped runs, each with those of its children nested. Written once, never reworded.

    A run without a position was not moved by this request: it starts nothing that could be listed. `seen` belongs to the first run.
    """
    progress = progress_of([run for run in runs if run.pk in positions])
    made = {
        run.pk: _receipt(run, positions.get(run.pk), mode, holdings[run.pk], withheld.get(run.pk, []), progress.get(run.pk, Progress()))
        for run in runs
    }
    made[runs[0].pk]["changed_since_seen"] = changed_since(runs[0], seen, positions.get(runs[0].pk))
    for run in runs:
        if run.parent_id in made:
            made[run.parent_id]["children"].append(made[run.pk])
    return made


def _receipt(run: Run, position: int | None, mode: str, held: Holdings, withheld: list[Line], progress: Progress) -> dict[str, Any]:
    return {
        "run": run.ref,
        "id": str(run.pk),
        "mode": mode,
        "position": position,
        "state": run.state,
        "asked_at": run.asked_at.isoformat() if run.asked_at else None,
        "in_flight": held.in_flight,
        "running": progress.running,
        "unresolved": held.unresolved,
        "withheld": withheld,
        "not_started": progress.not_started,
        "landed": held.landed,
        "children": [],
        "cleanups": [line | {"will_run": mode != "terminate"} for line in progress.cleanups],
        "changed_since_seen": [],
    }


def changed_since(run: Run, seen: int | None, position: int | None) -> list[Line]:
    """What happened between the version a person saw and the cancel."""
    if seen is None or position is None:
        return []
    events = Event.objects.filter(run=run, seq__gt=seen, seq__lt=position).order_by("seq")
    return [{"seq": e.seq, "kind": e.kind, "subject": e.subject, "at": e.at.isoformat()} for e in events]


def of_run(run: Run, held: Holdings, progress: Progress) -> dict[str, Any]:
    """The preview of one run: what will stop, what can't be stopped, what stays."""
    return {
        "run": run.ref,
        "id": str(run.pk),
        "state": run.state,
        "version": run.version,
        "in_flight": held.in_flight,
        "running": progress.running,
        "unresolved": held.unresolved,
        "withheld": held.declared,
        "not_started": progress.not_started,
        "landed": held.landed,
        "cleanups": progress.cleanups,
        "children": [],
    }


def of_tree(levels: list[list[Run]]) -> dict[str, Any]:
    """The preview of a run with its descendants nested, and the digest by which a stale one is told."""
    runs = [run for level in levels for run in level]
    holdings = book().holdings(runs)
    progress = progress_of([run for run in runs if not run.is_closed])
    made = {run.pk: of_run(run, holdings[run.pk], progress.get(run.pk, Progress())) for run in runs}
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
