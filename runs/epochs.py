"""The lease rows of a run: each epoch is granted once, ends once, and is remembered for the facts that come late."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from runs import transition
from runs.actors import Actor
from runs.errors import Invalid, LeaseLost
from runs.models import Lease, Run

TTL_S_MAX = 600.0
WORK = "work"
CLEANUP = "cleanup"


@dataclass(frozen=True)
class Grant:
    """A lease as it is given out: the token is the secret that acts carry."""

    token: str
    epoch: int
    expires_at: datetime


def grant(run: Run, actor: Actor, holder: str, ttl_s: float, kind: str = WORK) -> Grant:
    """Give the locked run's next lease to `holder`. The caller records the event."""
    if not 0.1 <= ttl_s <= TTL_S_MAX:
        raise Invalid(f"ttl_s must be between 0.1 and {TTL_S_MAX:g} seconds.", field="ttl_s")
    now = transition.clock()
    run.lease_epoch += 1
    run.lease_token = secrets.token_hex(16)
    run.lease_holder = holder
    run.lease_ttl_s = ttl_s
    run.lease_expires_at = now + timedelta(seconds=ttl_s)
    run.heartbeat_at = now
    Lease.objects.create(
        run=run,
        epoch=run.lease_epoch,
        kind=kind,
        token=run.lease_token,
        holder=holder,
        credential=actor.id,
        granted_at=now,
    )
    return Grant(run.lease_token, run.lease_epoch, run.lease_expires_at)


def end(run: Run, how: str, stopped_how: str = "") -> None:
    """The locked run's current lease is over; with `stopped_how` its sender is also known to have stopped."""
    now = transition.clock()
    stopped = {"stopped_at": now, "stopped_how": stopped_how} if stopped_how else {}
    Lease.objects.filter(run=run, epoch=run.lease_epoch).update(ended_at=now, ended_how=how, **stopped)
    run.lease_token = run.lease_holder = run.lease_expires_at = None


def lease_of(run: Run, token: str) -> Lease:
    """The lease of this run with that token, whenever it was given."""
    lease = Lease.objects.filter(run=run, token=token).first()
    if lease is None:
        raise LeaseLost(f"{run.ref} never gave this lease.", run=run.ref)
    return lease
