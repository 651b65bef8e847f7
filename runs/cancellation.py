"""Cancel and terminate: a durable request with an ordering point. One transaction locks the tree, moves it and writes the receipt.

Cancelling is not undoing: what had left is listed in the receipt, exactly, and followed to its end elsewhere.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from django.db import OperationalError, connection, transaction
from django.db.models import Q
from psycopg import errors as pg

from runs import actors, closing, deliveries, epochs, preview, states, stopping, sweeps, timeline, transition
from runs.actors import Actor
from runs.client_keys import lock_client_key
from runs.errors import Busy, Invalid, NotAllowed, NotFound, PlanChanged
from runs.models import CancelRequest, ClientKey, Run
from runs.stopping import ACCEPTED, ALREADY_CLOSED, CANCEL, REPEAT, TERMINATE

LOCK_WAIT_S = 5.0
SUBJECT_MAX = 200
STORED_FOR = timedelta(hours=24)

T = TypeVar("T")


@dataclass(frozen=True)
class Answer:
    """What a cancel answers: `kind` is accepted, repeat or already_closed; `request` is the act that counts (the first one on a repeat)."""

    kind: str
    run: Run
    request: CancelRequest


def request_cancel(
    actor: Actor,
    run_id: uuid.UUID,
    mode: str = CANCEL,
    reason: str = "",
    seen: int | None = None,
    plan_digest: str | None = None,
) -> Answer:
    """Cancel (or terminate) a run and everything below it.

    Raises `NotAllowed`, `NotFound`, `Busy` (nothing was recorded) and, for terminate only, `PlanChanged` when the preview is stale.
    A commit that raised is unknown: ask again; the same answer comes back as a repeat.
    """
    run = Run.objects.filter(pk=run_id).first()
    if run is None:
        raise NotFound(f"No run with id {run_id}.")
    _check(actor, run, mode, reason, plan_digest)
    return _patiently(lambda: _request(actor, run_id, mode, reason, seen, plan_digest), run.ref)


def request_cancels(actor: Actor, run_ids: list[uuid.UUID], reason: str = "") -> dict[uuid.UUID, Answer]:
    """Cancel several existing runs in one transaction, each with the answer that it would get alone. Raises as `request_cancel`."""
    return _patiently(lambda: _request_all(actor, run_ids, reason), f"one of {len(run_ids)} runs")


def _request_all(actor: Actor, run_ids: list[uuid.UUID], reason: str) -> dict[uuid.UUID, Answer]:
    wanted = transition.lock_all(run_ids)
    for run in wanted:
        _check(actor, run, CANCEL, reason, None)
    fresh = [run for run in wanted if not run.is_closed and run.cancel_position is None and run.state != states.FAILING]
    levels = lock_trees(fresh)
    requests = stopping.stop(actor, levels, CANCEL, reason) if fresh else {}
    answers = {run.pk: Answer(ACCEPTED, run, requests[run.pk]) for run in fresh}
    for run in wanted:
        if run.pk not in answers:
            answers[run.pk] = _request(actor, run.pk, CANCEL, reason, None, None)
    return answers


def _check(actor: Actor, run: Run, mode: str, reason: str, plan_digest: str | None) -> None:
    if mode not in (CANCEL, TERMINATE):
        raise Invalid("mode must be cancel or terminate.", field="mode")
    actor.require(actors.RUN_CANCEL, run.agent, f"cancel runs of {run.agent}")
    if mode == TERMINATE:
        if not actor.is_person:
            raise NotAllowed("Only a person may terminate a run.", needs=actors.RUN_TERMINATE)
        actor.require(actors.RUN_TERMINATE, None, "terminate runs")
        if not reason.strip():
            raise Invalid("Terminating needs a reason.", field="reason")
        if not plan_digest:
            raise Invalid("Terminating needs the plan_digest of the preview you saw.", field="plan_digest")
        actor.require_recent("terminate a run")


def _patiently(work: Callable[[], T], what: str) -> T:
    """Run `work` in a durable transaction, waiting for locks up to 5 s in all; then `Busy`, with nothing recorded."""
    until = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            with transaction.atomic(durable=True):
                with connection.cursor() as cursor:
                    cursor.execute("SET LOCAL lock_timeout = '1s'")
                    # Between the locks of a large tree and its writes a busy machine may need longer than other transactions are given.
                    cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '15s'")
                return work()
        except OperationalError as error:
            if not isinstance(error.__cause__, pg.LockNotAvailable | pg.DeadlockDetected):
                raise
            if time.monotonic() >= until:
                raise Busy(f"Not recorded: {what} is locked by another transaction. Nothing was stopped. Try again.") from error


def _request(actor: Actor, run_id: uuid.UUID, mode: str, reason: str, seen: int | None, plan_digest: str | None) -> Answer:
    run = transition.lock(run_id)
    levels = lock_trees([run])
    first = accepted(run, mode)
    if first is not None or (mode == TERMINATE and run.is_closed):
        return _repeat_or_closed(actor, run, mode, reason, seen, first)
    if run.is_closed or run.state == states.FAILING and mode == CANCEL:
        return _repeat_or_closed(actor, run, mode, reason, seen, None)
    if mode == TERMINATE and preview.plan_digest([row for level in levels for row in level]) != plan_digest:
        raise PlanChanged("Something changed while you were reading. Check again, then terminate.", preview=preview.of_tree(levels))
    return Answer(ACCEPTED, run, stopping.stop(actor, levels, mode, reason, seen)[run.pk])


def accepted(run: Run, mode: str) -> CancelRequest | None:
    """The request that already covers this one: a cancel is covered by any earlier request, a terminate only by a terminate."""
    requests = CancelRequest.objects.filter(run=run, answer=ACCEPTED).order_by("position")
    return (requests.filter(mode=TERMINATE) if mode == TERMINATE and not run.is_closed else requests).first()


def _repeat_or_closed(actor: Actor, run: Run, mode: str, reason: str, seen: int | None, first: CancelRequest | None) -> Answer:
    kind = REPEAT if first is not None else ALREADY_CLOSED
    event = "cancel.repeated" if first is not None else "cancel.too_late"
    position = transition.record(run, event, actor, data={"mode": mode, "reason": reason})
    made = stopping.new_request(actor, run, mode, kind, reason, seen=seen, position=position, at=transition.clock())
    made.save()
    return Answer(kind, run, first or made)


def lock_trees(roots: list[Run]) -> list[list[Run]]:
    """The locked runs and all their descendants, level by level, a new statement each (closed rows too: their children may be open)."""
    levels, seen = [roots], {run.pk for run in roots}
    while below := [run for run in transition.lock_children(levels[-1]) if run.pk not in seen]:
        seen.update(run.pk for run in below)
        levels.append(below)
    return levels


def heard(actor: Actor, run_id: uuid.UUID, token: str) -> Run:
    """A worker acknowledges the cancel: a fact, under any lease the run ever gave. The first one sets *heard*."""
    with transaction.atomic(durable=True):
        run = transition.lock(run_id)
        actor.require(actors.RUN_WORK, run.agent)
        lease = epochs.lease_of(run, token)
        if run.cancel_position is not None and run.heard_at is None:
            run.heard_at = transition.clock()
            transition.record(run, "cancel.heard", actor, subject=lease.holder)
            deliveries.acknowledged(run)
        return run


def cancel_by_key(actor: Actor, agent: str, client_key: str, reason: str = "") -> Answer | ClientKey:
    """Cancel the run of (agent, client_key). If it does not exist yet, the cancel is stored for 24 h and applies before its first step."""
    actor.require(actors.RUN_CANCEL, agent, f"cancel runs of {agent}")
    with transaction.atomic(durable=True):
        key = lock_client_key(agent, client_key)
        if key.run_id is None:
            timeline.append_system("cancel.stored", actor, _named(key), {"reason": reason, "client_key": client_key})
            if stored_cancel(key) is None:  # the first one's who, when and why stand
                now = transition.clock()
                key.cancel_reason = reason
                key.cancel_actor = {"type": actor.type, "id": actor.id, "name": actor.name, "channel": actor.channel}
                key.cancel_asked_at, key.cancel_expires_at = now, now + STORED_FOR
                key.save()
            return key
        run_id = key.run_id
    return request_cancel(actor, run_id, reason=reason)


def stored_cancel(key: ClientKey | None) -> Actor | None:
    """Who asked to cancel this key before its run existed, if that has not expired."""
    if key is None or key.cancel_actor is None or key.cancel_expires_at is None or key.cancel_expires_at <= transition.clock():
        return None
    return Actor(**key.cancel_actor)


def _named(key: ClientKey) -> str:
    """A run that does not exist, as the subject of an event: no longer than subjects are; the key is in the event's data whole."""
    return f"{key.agent}/{key.key}"[:SUBJECT_MAX]


def expire_stored(limit: int = 100) -> int:
    """Cancels of runs that never came, after 24 h: forgotten, as an event each. Returns how many."""
    due = Q(run__isnull=True, cancel_expires_at__lte=transition.clock())
    with transaction.atomic(durable=True):
        keys = list(ClientKey.objects.select_for_update(skip_locked=True, of=("self",)).filter(due)[:limit])
        for key in keys:
            data = {"reason": key.cancel_reason, "asked_by": key.cancel_actor, "asked_at": str(key.cancel_asked_at)}
            timeline.append_system("cancel.expired", actors.system("deadline"), _named(key), data | {"client_key": key.key})
        ClientKey.objects.filter(pk__in=[key.pk for key in keys]).update(
            cancel_reason="", cancel_actor=None, cancel_asked_at=None, cancel_expires_at=None
        )
    return len(keys)


def apply_stored(run: Run, asked_by: Actor, key: ClientKey | None) -> None:
    """Apply a stored cancel to the run that has just been created (locked, nothing started)."""
    stopping.stop(asked_by, [[run]], CANCEL, key.cancel_reason if key else "")


def cancel_past_deadline(limit: int = 100) -> int:
    """Cancel every open run whose deadline has passed, by the same path as a person's cancel; returns how many."""
    now = transition.clock()
    due = Run.objects.filter(deadline_at__lte=now, closed_at__isnull=True, cancel_position__isnull=True)
    ids = list(due.exclude(state=states.FAILING).values_list("pk", flat=True)[:limit])
    return sweeps.each(ids, _cancel_late)


def _cancel_late(run_id: uuid.UUID) -> bool:
    with suppress(Busy):
        request_cancel(actors.system("deadline"), run_id, reason="Its deadline passed.")
        return True
    return False


def advance_due(limit: int = 200) -> int:
    """Move every stopping or terminated run as far as the facts allow: quiet, cleaned up, closed. Returns how many were looked at."""
    stopping = Run.objects.filter(state__in=states.STOPPING, lease_token__isnull=True)
    named = [status for status in states.STATUSES if status.startswith(states.TERMINATED)]  # the index is on the status
    terminated = Run.objects.filter(status__in=named, quiet_at__isnull=True)
    ids = [pk for runs in (stopping, terminated) for pk in runs.values_list("pk", flat=True)[:limit]]
    return sweeps.each(ids, _advance_one)


def _advance_one(run_id: uuid.UUID) -> bool:
    with transaction.atomic(durable=True):
        for run in transition.take(1, pk=run_id):
            closing.advance(run, actors.system("sweep"))
    return True
