"""How a run and what belongs to it look as JSON: rendered from rows, ready to be sent, the same for API and in-process door."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from runs import epochs
from runs.book import book
from runs.models import CancelRequest, Event, Run, Step
from runs.steps import FINISHED

Json = dict[str, Any]


def iso(at: datetime | None) -> str | None:
    """ISO 8601 in UTC with microseconds, or None."""
    return None if at is None else at.isoformat()


def run_shapes(runs: Iterable[Run]) -> list[Json]:
    """Several runs, without their inputs; one query for their cancels."""
    found = list(runs)
    cancels = first_cancels([run.pk for run in found if run.cancel_position is not None])
    return [_run(run, cancels.get(run.pk)) for run in found]


def run_shape(run: Run) -> Json:
    """One run, with what it was created from and what it closed with."""
    cancel = first_cancels([run.pk]).get(run.pk) if run.cancel_position is not None else None
    return {
        **_run(run, cancel),
        "client_key": run.client_key or None,
        "input": run.input,
        "plan": run.plan,
        "owner": run.owner_name,
        "runtime": run.runtime or None,
        "runtime_ref": run.runtime_ref or None,
        "refused_after_cancel": run.refused_after_cancel,
        "lease": {"holder": run.lease_holder, "epoch": run.lease_epoch, "expires_at": iso(run.lease_expires_at)}
        if run.lease_token
        else None,
    }


def first_cancels(run_ids: list[uuid.UUID], **narrow: Any) -> dict[uuid.UUID, CancelRequest]:
    """For each run the request whose who, when and why stand for ever."""
    if not run_ids:
        return {}
    requests = CancelRequest.objects.filter(run__in=run_ids, answer="accepted", **narrow).order_by("run_id", "position").distinct("run_id")
    return {request.run_id: request for request in requests}


def cancel_shape(run: Run, request: CancelRequest | None) -> Json | None:
    """Who cancelled a run, when and why: the first request's words, with the mode it has come to."""
    if request is None:
        return None
    return {
        "mode": run.cancel_mode,
        "by": {"type": request.actor_type, "id": request.actor_id, "name": request.actor_name},
        "channel": request.channel,
        "reason": request.reason,
        "at": iso(request.at),
        "position": request.position,
    }


def _run(run: Run, cancel: CancelRequest | None) -> Json:
    times = ("created", "started", "asked", "heard", "quiet", "settled", "closed", "deadline")
    return {
        "id": str(run.pk),
        "ref": run.ref,
        "agent": run.agent,
        "title": run.title,
        "business_ref": run.business_ref or None,
        "state": run.state,
        "settlement": run.settlement,
        "status": run.status,
        "version": run.version,
        "parent": run.parent_id and str(run.parent_id),
        "root": run.root_id and str(run.root_id),
        "labels": run.labels,
        **{f"{time}_at": iso(getattr(run, f"{time}_at")) for time in times},
        "cancel": cancel_shape(run, cancel),
        "in_flight": run.in_flight,
        "in_doubt": run.in_doubt,
        "needs_person": run.needs_person,
        "unknowable": run.unknowable,
        "quiet_basis": run.quiet_basis or None,
        "waits_for": run.waits_for,
        "landed": run.landed,
        "effects_total": run.effects_total,
        "result": run.result,
        "error": run.error or None,
    }


def step_shape(step: Step) -> Json:
    """A step as its worker and its readers see it."""
    return {
        "key": step.key,
        "kind": step.kind,
        "title": step.title or None,
        "state": step.state,
        "epoch": step.epoch,
        "hears_cancel": step.hears_cancel_every_s is not None,
        "deadline_at": iso(step.deadline_at),
        "progress": step.progress,
        "message": step.message or None,
        "result": step.result,
        "error": step.error or None,
        "cost": step.cost,
        "started_at": iso(step.started_at),
        "finished_at": iso(step.finished_at),
    }


def event_shape(event: Event) -> Json:
    """One event of a run's timeline."""
    return {
        "seq": event.seq,
        "kind": event.kind,
        "subject": event.subject or None,
        "actor": {"type": event.actor_type, "id": event.actor_id, "name": event.actor_name},
        "channel": event.channel or None,
        "data": event.data,
        "at": iso(event.at),
    }


def takeover_shape(run: Run, given: epochs.Grant) -> Json:
    """What a worker gets with a lease: the run, the lease, the finished steps with their results, the effects with their outcomes."""
    fresh = Run.objects.get(pk=run.pk)
    finished = Step.objects.filter(run=fresh, state__in=FINISHED).order_by("position")
    return {
        "run": run_shape(fresh),
        "lease": lease_shape(fresh, given),
        "steps": [step_shape(step) for step in finished],
        "effects": book().effects_of(fresh),
    }


def lease_shape(run: Run, given: epochs.Grant) -> Json:
    """A lease as it is given out, once."""
    return {"token": given.token, "epoch": given.epoch, "expires_at": iso(given.expires_at), "expires_in_s": run.lease_ttl_s}
