"""The beginning and the decided end of a run: create (once per client key), finish, and the children that count on a parent."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction

from runs import actors, cancellation, cleanup, closing, epochs, leases, states, transition
from runs.actors import Actor
from runs.book import book
from runs.client_keys import lock_client_key
from runs.errors import ClientKeyReused, EffectsInFlight, Invalid
from runs.ids import digest
from runs.models import ClientKey, Lease, Run


@dataclass(frozen=True)
class NewRun:
    """What a run is created from. `input`, `labels` are JSON objects; `plan` are step keys known beforehand."""

    agent: str
    title: str
    input: dict[str, Any]
    business_ref: str = ""
    client_key: str = ""
    labels: dict[str, Any] | None = None
    plan: list[str] | None = None
    deadline_at: datetime | None = None
    runtime: str = ""
    runtime_ref: str = ""

    def content(self) -> str:
        """The digest by which a repeated creation is recognised."""
        return digest([self.agent, self.title, self.input, self.business_ref, self.labels or {}, self.plan or []])


@dataclass(frozen=True)
class Created:
    run: Run
    grant: epochs.Grant | None
    created: bool


def create(
    actor: Actor,
    new: NewRun,
    holder: str = "",
    ttl_s: float = 30.0,
    parent_id: uuid.UUID | None = None,
    parent_lease: str = "",
) -> Created:
    """Create a run, once per (agent, client_key); with `holder`, claimed at once. A cancel that came first applies before the first step.

    A child is created under its parent's fence. Raises `ClientKeyReused`, and `Cancelled` or `LeaseLost` for the parent.
    """
    actor.require(actors.RUN_WORK, new.agent, f"create runs of {new.agent}")
    if parent_id is not None:
        return _create_child(actor, parent_id, parent_lease, new, holder, ttl_s)
    with transaction.atomic(durable=True):
        return _create(actor, new, None, holder, ttl_s)


@leases.act("child.create")
def _create_child(actor: Actor, parent_id: uuid.UUID, token: str, new: NewRun, holder: str, ttl_s: float) -> Created:
    return _create(actor, new, leases.fence(actor, parent_id, token), holder, ttl_s)


def _create(actor: Actor, new: NewRun, parent: Run | None, holder: str, ttl_s: float) -> Created:
    key = lock_client_key(new.agent, new.client_key) if new.client_key else None
    if key is not None and key.run_id is not None:
        return _existing(key, new, parent)
    run = _insert(actor, new, parent)
    given = None
    transition.record(run, "run.created", actor, subject=new.business_ref, data={"parent": parent and parent.ref})
    if key is not None:
        ClientKey.objects.filter(pk=key.pk).update(run=run)
    stored = cancellation.stored_cancel(key)
    if stored is not None:
        cancellation.apply_stored(run, stored, key)
    elif holder:
        given = leases.start(run, actor, holder, ttl_s)
    return Created(run, given, True)


def _existing(key: ClientKey, new: NewRun, parent: Run | None) -> Created:
    assert key.run_id is not None
    run = Run.objects.get(pk=key.run_id)
    if run.content_digest != new.content() or run.parent_id != (parent.pk if parent else None):
        raise ClientKeyReused(
            f"client_key {key.key!r} of {key.agent} already names {run.ref}, which has another content. Use a new key.",
            run=run.ref,
        )
    return Created(run, None, False)


def _insert(actor: Actor, new: NewRun, parent: Run | None) -> Run:
    run = Run(
        agent=new.agent,
        title=new.title,
        business_ref=new.business_ref,
        client_key=new.client_key,
        content_digest=new.content(),
        input=new.input,
        labels=new.labels or {},
        plan=new.plan or [],
        deadline_at=new.deadline_at,
        owner=actor.id,
        owner_name=actor.name,
        runtime=new.runtime,
        runtime_ref=new.runtime_ref,
        created_at=transition.clock(),
        parent=parent,
        root=(parent.root or parent) if parent else None,
        depth=parent.depth + 1 if parent else 0,
    )
    for _ in range(3):
        try:
            with transaction.atomic():
                run.save()
            break
        except IntegrityError as clash:
            if "ref" not in str(clash):
                raise
            run.ref, run._state.adding = Run._meta.get_field("ref").get_default(), True
    if parent is not None:
        parent.children_open += 1
        parent.children_unsettled += 1
        transition.record(parent, "child.created", actor, subject=run.ref, data={"child": str(run.pk)})
    return transition.lock(run.pk)


def finish(actor: Actor, run_id: uuid.UUID, token: str, outcome: str, result: Any = None, error: str = "") -> Run:
    """The plan has ended: `completed` or `failed`. Repeating the same finish under the same lease changes nothing.

    Raises `Cancelled` when a cancel was first, `EffectsInFlight` while anything is in flight (or, for completed, in doubt).
    """
    if outcome not in (states.COMPLETED, states.FAILED):
        raise Invalid("outcome must be completed or failed.", field="outcome")
    repeated = _already_finished(actor, run_id, token, outcome)
    return repeated or _finish(actor, run_id, token, outcome, result, error)


def _already_finished(actor: Actor, run_id: uuid.UUID, token: str, outcome: str) -> Run | None:
    lease = Lease.objects.filter(run_id=run_id, token=token, ended_how="finished").select_related("run").first()
    if lease is None or lease.run.state not in (outcome, states.FAILING):
        return None
    actor.require(actors.RUN_WORK, lease.run.agent)
    return lease.run


@leases.act("finish")
def _finish(actor: Actor, run_id: uuid.UUID, token: str, outcome: str, result: Any, error: str) -> Run:
    run = leases.fence(actor, run_id, token)
    if run.in_flight or (outcome == states.COMPLETED and run.in_doubt):
        raise EffectsInFlight(
            f"{run.ref} can't be {outcome} yet: {run.in_flight} effects are in flight, {run.in_doubt} in doubt. Suspend until evidence.",
            run=run.ref,
            in_flight=run.in_flight,
            in_doubt=run.in_doubt,
        )
    run.result = result
    run.error = error
    if outcome == states.FAILED and cleanup.to_do(run):
        return _fail_after_cleanup(run, actor)
    closing.close(run, outcome, actor, {"error": error} if error else None, lease_ended="finished", sender_stopped="worker")
    return run


def _fail_after_cleanup(run: Run, actor: Actor) -> Run:
    """Its end is decided; it closes as failed when its cleanup is done or left behind."""
    book().withhold(run, states.FAILED, actor)
    book().sender_stopped(run, run.lease_epoch, "worker", actor)
    epochs.end(run, "finished", "worker")
    run.state = states.FAILING
    transition.record(run, "run.failing", actor, data={"error": run.error})
    closing.advance(run, actor)
    return run
