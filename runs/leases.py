"""Who may act for a run: claim, fence, heartbeat, expiry, and the facts about a sender that has stopped.

Authority is fenced (the current epoch, unexpired, checked after the run row is locked); facts are not (any lease the run ever gave).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from django.db import connection, transaction
from django.db.models import Q

from runs import actors, closing, deliveries, epochs, states, sweeps, transition
from runs.actors import Actor
from runs.book import book
from runs.errors import Cancelled, EffectsInFlight, LeaseLost, NotFound, Problem
from runs.models import Lease, Run

CELERY = "celery"

P = ParamSpec("P")
T = TypeVar("T")


def act(
    verb: str,
) -> Callable[[Callable[Concatenate[Actor, uuid.UUID, P], T]], Callable[Concatenate[Actor, uuid.UUID, P], T]]:
    """Run a verb of authority in its own durable transaction; what the fence refuses after a cancel is counted and recorded."""

    def wrap(function: Callable[Concatenate[Actor, uuid.UUID, P], T]) -> Callable[Concatenate[Actor, uuid.UUID, P], T]:
        @wraps(function)
        def inner(actor: Actor, run_id: uuid.UUID, *args: P.args, **kwargs: P.kwargs) -> T:
            try:
                with transaction.atomic(durable=True):
                    return function(actor, run_id, *args, **kwargs)
            except (Cancelled, LeaseLost) as refusal:
                note_refusal(actor, run_id, verb, refusal)
                raise

        return inner

    return wrap


def note_refusal(actor: Actor, run_id: uuid.UUID, verb: str, refusal: Problem) -> None:
    """Count and record an act that was refused after a cancel."""
    with transaction.atomic(durable=True):
        run = transition.lock(run_id)
        if run.cancel_position is None:
            return
        run.refused_after_cancel += 1
        transition.record(run, "act.refused", actor, subject=verb, data={"code": refusal.code})


def fence(actor: Actor, run_id: uuid.UUID, token: str) -> Run:
    """Lock the run and return it, if `token` is its current lease and it may work now; raise `Cancelled` or `LeaseLost` otherwise."""
    run = transition.lock(run_id)
    actor.require(actors.RUN_WORK, run.agent, f"work for {run.agent}")
    if run.state == states.RUNNING and run.lease_token == token and not _expired(run):
        return run
    raise why_refused(run, token)


def why_refused(run: Run, token: str) -> Problem:
    """The refusal that tells a worker the truth about the run and its own lease."""
    if run.cancel_position is not None and (run.lease_token == token or _is_latest(run, token)):
        return Cancelled(
            f"{run.ref} was cancelled at position {run.cancel_position}; nothing new may start.",
            run=run.ref,
            position=run.cancel_position,
            mode=run.cancel_mode,
        )
    return LeaseLost(
        f"This lease of {run.ref} is over: stop acting for it. Report what has already happened; that is always kept.",
        run=run.ref,
    )


def _is_latest(run: Run, token: str) -> bool:
    return Lease.objects.filter(run=run, token=token, epoch=run.lease_epoch).exists()


def _expired(run: Run) -> bool:
    return run.lease_expires_at is None or run.lease_expires_at <= transition.clock()


def start(run: Run, actor: Actor, holder: str, ttl_s: float) -> epochs.Grant:
    """A scheduled run begins (or goes on) under a new lease."""
    given = epochs.grant(run, actor, holder, ttl_s)
    run.state = states.RUNNING
    run.started_at = run.started_at or transition.clock()
    transition.record(run, "run.claimed", actor, subject=holder, data={"epoch": given.epoch})
    return given


def claim(actor: Actor, holder: str, agents: list[str], ttl_s: float = 30.0, runtime: str = "") -> tuple[Run, epochs.Grant] | None:
    """Take the oldest run that waits for a worker of one of these agents, or None. Expired leases are taken over on the way.

    With `runtime` only runs that say they execute there; without it, those that execute in Celery are left to Celery.
    """
    for agent in agents:
        actor.require(actors.RUN_WORK, agent, f"work for {agent}")
    expire_due(limit=5)
    with transaction.atomic(durable=True):
        where = Q(runtime=runtime) if runtime else ~Q(runtime=CELERY)
        found = transition.take(1, where, state=states.SCHEDULED, waits_for__isnull=True, agent__in=agents)
        if not found:
            return None
        return found[0], start(found[0], actor, holder, ttl_s)


def heartbeat(actor: Actor, run_id: uuid.UUID, token: str) -> dict[str, Any]:
    """Renew the lease and answer with the directive: `continue` or `cancel`. Raises `LeaseLost` when it is over."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        # The lock first: an UPDATE that waited for it would judge the lease by the clock from before the wait.
        cursor.execute("SELECT ref, agent FROM runs_run WHERE id = %s FOR NO KEY UPDATE", (run_id,))
        held = cursor.fetchone()
        if held is None:
            raise NotFound(f"No run with id {run_id}.")
        actor.require(actors.RUN_WORK, held[1])
        cursor.execute(
            """
            UPDATE runs_run SET heartbeat_at = clock_timestamp(),
                   lease_expires_at = clock_timestamp() + lease_ttl_s * interval '1 second'
            WHERE id = %s AND lease_token = %s AND lease_expires_at > clock_timestamp()
            RETURNING state, lease_expires_at, lease_ttl_s
            """,
            (run_id, token),
        )
        row = cursor.fetchone()
    if row is None:
        raise LeaseLost(f"This lease of {held[0]} is over: stop acting for it.", run=held[0])
    state, expires_at, ttl_s = row
    directive = "continue" if state == states.RUNNING or _is_cleaning(run_id, token) else "cancel"
    if directive == "cancel":
        deliveries.handed_over(run_id)
    return {"directive": directive, "lease_expires_at": expires_at, "lease_expires_in_s": ttl_s}


def _is_cleaning(run_id: uuid.UUID, token: str) -> bool:
    """Whether this is a cleanup's own lease: the cancel that it cleans up after does not stop it."""
    return Lease.objects.filter(run_id=run_id, token=token, kind=epochs.CLEANUP).exists()


def settle_down(run: Run, actor: Actor, kind: str, data: dict[str, Any] | None = None) -> None:
    """Its lease has ended (in memory, not yet recorded): a running run waits for evidence or a worker, a stopping one goes on."""
    if run.state == states.RUNNING:
        condition = {"kind": "evidence"}
        doubtful = not book().condition_met(run, condition)
        run.state = states.AWAITING_EVIDENCE if doubtful else states.SCHEDULED
        run.waits_for = condition if doubtful else None
    transition.record(run, kind, actor, data=data)
    closing.advance(run, actor)


def expire(run: Run, actor: Actor) -> bool:
    """The one verb for a lease that ran out: its open attempts become unknown, and the run waits for evidence or another worker."""
    if run.lease_token is None or not _expired(run):
        return False
    epoch, holder = run.lease_epoch, run.lease_holder
    book().give_up(run, epoch, "lease_expired", actor)
    epochs.end(run, "expired")
    settle_down(run, actor, "lease.expired", {"epoch": epoch, "holder": holder})
    return True


def expire_due(limit: int = 100) -> int:
    """Expire every lease that is due; returns how many. Safe to run twice and beside itself."""
    due = Run.objects.filter(lease_expires_at__lte=transition.clock()).order_by("lease_expires_at")
    return sweeps.each(due.values_list("pk", flat=True)[:limit], _expire_one)


def _expire_one(run_id: uuid.UUID) -> bool:
    with transaction.atomic(durable=True):
        return any(expire(run, actors.system("sweep")) for run in transition.take(1, pk=run_id))


@act("release")
def release(actor: Actor, run_id: uuid.UUID, token: str) -> Run:
    """Give the lease back with nothing in flight; the sender of that epoch has stopped."""
    run = transition.lock(run_id)
    actor.require(actors.RUN_WORK, run.agent)
    if run.lease_token != token:
        raise why_refused(run, token)
    if run.in_flight:
        raise EffectsInFlight(f"{run.in_flight} effects of {run.ref} are in flight: report their outcomes first.", run=run.ref)
    _stop_current(run, actor, "released", "worker")
    return run


def stopped(actor: Actor, run_id: uuid.UUID, token: str) -> Run:
    """A worker says that it has stopped acting for the run: a fact, under any lease the run ever gave."""
    with transaction.atomic(durable=True):
        run = transition.lock(run_id)
        actor.require(actors.RUN_WORK, run.agent)
        lease = epochs.lease_of(run, token)
        if run.cancel_position is not None and run.heard_at is None and run.lease_token == token:
            run.heard_at = transition.clock()  # whoever stops for a cancel has heard it, though the word itself may come later
        _sender_stopped(run, lease, actor, "worker")
        return run


def gone(actor: Actor, holder: str, how: str) -> list[str]:
    """A supervisor has reaped the process `holder`: a fact about every lease it held. Returns the references of those runs.

    Only the credential that claimed may say so; others find nothing.
    """
    touched = []
    leases = Lease.objects.filter(holder=holder, credential=actor.id, stopped_at__isnull=True).order_by("run__depth", "run_id", "epoch")
    for lease in leases:
        with transaction.atomic(durable=True):
            run = transition.lock(lease.run_id)
            fresh = Lease.objects.get(pk=lease.pk)
            if fresh.stopped_at is None:
                _sender_stopped(run, fresh, actor, "supervisor", {"how": how})
                touched.append(run.ref)
    return touched


def _sender_stopped(run: Run, lease: Lease, actor: Actor, how: str, data: dict[str, Any] | None = None) -> None:
    if lease.stopped_at is not None:
        return
    if run.lease_token == lease.token:
        _stop_current(run, actor, "stopped" if how == "worker" else "reaped", how, data)
        return
    Lease.objects.filter(pk=lease.pk).update(stopped_at=transition.clock(), stopped_how=how)
    book().sender_stopped(run, lease.epoch, how, actor)
    transition.record(run, "sender.stopped", actor, subject=lease.holder, data={"epoch": lease.epoch, "basis": how, **(data or {})})
    closing.upgrade_basis(run, actor)
    closing.advance(run, actor)


def _stop_current(run: Run, actor: Actor, ended: str, how: str, data: dict[str, Any] | None = None) -> None:
    epoch, holder = run.lease_epoch, run.lease_holder
    book().sender_stopped(run, epoch, how, actor)
    epochs.end(run, ended, how)
    settle_down(run, actor, f"lease.{ended}", {"epoch": epoch, "holder": holder, **(data or {})})


def where(pairs: list[tuple[uuid.UUID, int]]) -> list[dict[str, Any]]:
    """For each (run, epoch): nothing while it still runs under that epoch, else a directive line that says why not."""
    known = {run.pk: run for run in Run.objects.filter(pk__in=[run_id for run_id, _ in pairs])}
    lines: list[dict[str, Any]] = []
    for run_id, epoch in pairs:
        run = known.get(run_id)
        if run is None:
            lines.append({"run": str(run_id), "directive": "stop", "why": "not_found"})
        elif run.lease_epoch != epoch or run.lease_token is None:
            why = "cancelled" if run.cancel_position is not None else "lease_lost"
            lines.append({"run": str(run_id), "ref": run.ref, "directive": "stop", "why": why, "state": run.state})
        elif run.state != states.RUNNING:
            if run.runtime:
                deliveries.handed_over(run_id)
            lines.append(
                {
                    "run": str(run_id),
                    "ref": run.ref,
                    "directive": "cancel",
                    "why": "cancelled",
                    "position": run.cancel_position,
                }
            )
    return lines
