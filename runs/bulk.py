"""Cancelling many runs: the selection is fixed at the click, and every run gets its own answer by the same path as a single cancel."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from runs import actors, cancellation, hints, timeline, transition
from runs.actors import Actor
from runs.errors import Invalid, NotFound, Problem
from runs.ids import parse_ref, parse_uuid
from runs.models import BulkCancel, BulkLine, Run

RUNS_MAX = 5000
TOGETHER = 50
ANSWERS = ("accepted", "repeat", "already_closed", "not_allowed", "not_found", "failed")


def request(
    actor: Actor,
    reason: str = "",
    names: list[str] | None = None,
    matching: QuerySet[Run] | None = None,
    selection: dict[str, Any] | None = None,
) -> BulkCancel:
    """Fix a selection (`names`: ids or references; or `matching`: a filtered queryset described by `selection`) and store it as a job.

    Raises `Invalid` for none at all and for more than 5,000. The lines are worked off by `work_off`.
    """
    actor.require(actors.RUN_CANCEL, None, "cancel runs")
    wanted = _named(names) if names is not None else _matched(matching)
    if not wanted:
        raise Invalid("No run matches: nothing was cancelled.", field="runs" if names is not None else "filter")
    if len(wanted) > RUNS_MAX:
        raise Invalid(f"At most {RUNS_MAX:,} runs at once; narrow the selection.", field="runs" if names is not None else "filter")
    with transaction.atomic(durable=True):
        job = BulkCancel.objects.create(
            actor=_stored(actor),
            reason=reason,
            selection=selection or {"runs": names},
            total=len(wanted),
            asked_at=transition.clock(),
        )
        BulkLine.objects.bulk_create(
            BulkLine(job=job, number=number, asked_for=name[:100], run_id=run_id) for number, (name, run_id) in enumerate(wanted, 1)
        )
        hints.nudge("bulk.requested")
        timeline.append_system("bulk.requested", actor, str(job.pk), {"total": job.total, "reason": reason})
    return job


def _named(names: list[str]) -> list[tuple[str, uuid.UUID | None]]:
    unique = list(dict.fromkeys(names))
    refs = {name: parse_ref(name, "R") for name in unique}
    by_ref = dict(Run.objects.filter(ref__in=[ref for ref in refs.values() if ref]).values_list("ref", "pk"))
    ids = {name: parse_uuid(name) for name in unique}
    existing = set(Run.objects.filter(pk__in=[i for i in ids.values() if i]).values_list("pk", flat=True))
    return [(name, by_ref.get(refs[name] or "") or (ids[name] if ids[name] in existing else None)) for name in unique]


def _matched(matching: QuerySet[Run] | None) -> list[tuple[str, uuid.UUID | None]]:
    if matching is None:
        raise Invalid("Say which runs: runs or filter.", field="runs")
    return [(ref, pk) for ref, pk in matching.order_by("created_at").values_list("ref", "pk")[: RUNS_MAX + 1]]


def _stored(actor: Actor) -> dict[str, Any]:
    return {
        "type": actor.type,
        "id": actor.id,
        "name": actor.name,
        "scopes": sorted(actor.scopes),
        "agents": sorted(actor.agents),
    }


def _restored(stored: dict[str, Any]) -> Actor:
    return Actor(
        type=stored["type"],
        id=stored["id"],
        name=stored["name"],
        channel="bulk",
        scopes=frozenset(stored["scopes"]),
        agents=frozenset(stored["agents"]),
    )


def work_off(limit: int = 500) -> int:
    """Answer open lines of unfinished jobs, oldest first; returns how many. Restarting it anywhere loses and repeats nothing."""
    answered = 0
    for job in BulkCancel.objects.filter(finished_at__isnull=True).order_by("asked_at")[:5]:
        actor = _restored(job.actor)
        lines = list(BulkLine.objects.filter(job=job, answer="").order_by("number")[: limit - answered])
        for start in range(0, len(lines), TOGETHER):
            _answer_together(job, lines[start : start + TOGETHER], actor)
        answered += len(lines)
        if not BulkLine.objects.filter(job=job, answer="").exists():
            BulkCancel.objects.filter(pk=job.pk, finished_at__isnull=True).update(finished_at=transition.clock())
        if answered >= limit:
            break
    return answered


def _answer_together(job: BulkCancel, lines: list[BulkLine], actor: Actor) -> None:
    """Answer some lines in one transaction; when one of them is refused or locked, each by itself."""
    ids = [line.run_id for line in lines if line.run_id is not None]
    try:
        got = cancellation.request_cancels(actor, ids, job.reason)
    except Problem:
        for line in lines:
            _answer(job, line, actor)
        return
    now = transition.clock()
    for line in lines:
        _note(job, line, got.get(line.run_id) if line.run_id else None, now)
    BulkLine.objects.bulk_update(lines, ["answer", "detail", "answered_at"])


def _answer(job: BulkCancel, line: BulkLine, actor: Actor) -> None:
    try:
        got = cancellation.request_cancel(actor, line.run_id, reason=job.reason) if line.run_id else None
        _note(job, line, got, transition.clock())
    except Problem as problem:
        line.answer = "not_allowed" if problem.code == "not_allowed" else "failed"
        line.detail, line.answered_at = problem.detail[:500], transition.clock()
    line.save(update_fields=["answer", "detail", "answered_at"])


def _note(job: BulkCancel, line: BulkLine, got: cancellation.Answer | None, now: datetime) -> None:
    line.answer, line.detail = "not_found", "No run has this id or reference."
    if got is not None:
        line.answer = cancellation.ACCEPTED if _is_ours(got, job) else got.kind
        line.detail = _words(got, line.answer)
    line.answered_at = now


def _is_ours(got: cancellation.Answer, job: BulkCancel) -> bool:
    """A repeat of this very job's cancel, whose answer was lost when a worker died."""
    asked = got.request
    return got.kind == cancellation.REPEAT and asked.channel == "bulk" and asked.actor_id == job.actor["id"] and asked.at >= job.asked_at


def _words(got: cancellation.Answer, answer: str) -> str:
    match answer:
        case cancellation.ACCEPTED:
            return "Cancelled." if got.run.is_closed else "Cancelling."
        case cancellation.REPEAT:
            return f"{got.request.actor_name} had already asked."
        case _:
            return f"It had already {got.run.state}."


def find(job_id: uuid.UUID) -> BulkCancel:
    """The job of that id. Raises `NotFound`."""
    job = BulkCancel.objects.filter(pk=job_id).first()
    if job is None:
        raise NotFound("No such bulk cancel.")
    return job


def sums(job: BulkCancel) -> dict[str, int]:
    """How many lines got each answer, and how many are still open; they add up to the job's total."""
    answers = list(BulkLine.objects.filter(job=job).values_list("answer", flat=True))
    return {**{name: answers.count(name) for name in ANSWERS}, "open": answers.count(""), "total": len(answers)}
