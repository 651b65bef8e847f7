"""The worker's verbs of cleanup: register under the run's fence, claim after quiet under a lease of its own, act within the budget, finish.

Each item is handed out at most once; `cleanup.py` keeps what becomes of the rest.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.db import transaction

from runs import actors, cleanup, closing, epochs, leases, states, transition
from runs.actors import Actor
from runs.book import book
from runs.cleanup import CLAIMED, DONE, LEFT_BEHIND, REGISTERED
from runs.errors import Cancelled, DigestChanged, EffectsInFlight, Invalid, LeaseLost, NotFound
from runs.ids import digest
from runs.models import Cleanup, Run


@leases.act("cleanup.register")
def register(
    actor: Actor,
    run_id: uuid.UUID,
    token: str,
    key: str,
    handler: str,
    arguments: dict[str, Any],
    order: int = 0,
    cleans: uuid.UUID | None = None,
) -> tuple[Cleanup, bool]:
    """Register an item, once per key; returns it and whether it is new. Raises `Cancelled`, `LeaseLost`, `DigestChanged`, `Invalid`."""
    run = leases.fence(actor, run_id, token)
    item = Cleanup.objects.filter(run=run, key=key).first()
    if item is not None:
        if digest([item.handler, item.arguments]) != digest([handler, arguments]):
            raise DigestChanged(f"Cleanup {key} of {run.ref} was registered with other arguments. Use another key.", key=key)
        return item, False
    if cleans is not None and not book().has_effect(run, cleans):
        raise Invalid(f"cleans must be the operation id of an effect of {run.ref}.", field="cleans")
    item = Cleanup.objects.create(
        run=run, key=key, handler=handler, arguments=arguments, order=order, cleans=cleans, registered_at=transition.clock()
    )
    transition.record(run, "cleanup.registered", actor, subject=key, data={"handler": handler})
    return item, True


def claim(actor: Actor, holder: str, handlers: list[str], ttl_s: float = 30.0) -> tuple[Cleanup, epochs.Grant] | None:
    """Take the next item that is due for one of these handlers, under a lease of its own, or None."""
    for run_id in _due_for(handlers):
        with transaction.atomic(durable=True):
            for run in transition.take(1, pk=run_id, state__in=states.STOPPING, lease_token__isnull=True):
                if not actor.may(actors.RUN_WORK, run.agent):
                    continue
                taken = _take_next(run, actor, holder, handlers, ttl_s)
                if taken is not None:
                    return taken
    return None


def _due_for(handlers: list[str]) -> list[uuid.UUID]:
    """The runs whose next item looks due for one of these handlers. All are looked at: those that wait keep nobody from being cleaned."""
    quiet = {"run__state__in": states.STOPPING, "run__quiet_at__isnull": False, "run__lease_token__isnull": True}
    items = Cleanup.objects.filter(state=REGISTERED, **quiet).select_related("run")
    next_of: dict[uuid.UUID, str] = {}
    for item in items.order_by("run__quiet_at", "run_id", "order", "registered_at", "id"):
        if item.run_id not in next_of and not cleanup.waits(item.run, item):
            next_of[item.run_id] = item.handler
    return [run_id for run_id, handler in next_of.items() if handler in handlers]


def _take_next(run: Run, actor: Actor, holder: str, handlers: list[str], ttl_s: float) -> tuple[Cleanup, epochs.Grant] | None:
    cleanup.enforce_budget(run, actor)
    item = next((i for i in cleanup.to_do(run) if not cleanup.waits(run, i)), None)
    if item is None or item.handler not in handlers:
        return None
    given = epochs.grant(run, actor, holder, ttl_s, kind="cleanup")
    run.cleanup_started_at = run.cleanup_started_at or transition.clock()
    run.cleanup_calls += 1
    item.state, item.epoch, item.calls, item.claimed_at = CLAIMED, run.lease_epoch, 0, transition.clock()
    item.save(update_fields=["state", "epoch", "calls", "claimed_at"])
    transition.record(run, "cleanup.claimed", actor, subject=item.key, data={"epoch": given.epoch, "holder": holder})
    return item, given


def seconds_left(run: Run) -> float:
    """What is left of the run's time for cleaning, seconds."""
    began = run.cleanup_started_at or transition.clock()
    return max(0.0, run.cleanup_seconds_max - (transition.clock() - began).total_seconds())


def fence(actor: Actor, run: Run, token: str, key: str) -> Cleanup:
    """The item that this lease of a locked run is cleaning, if it may act now and has budget left; else `Cancelled` or `LeaseLost`."""
    actor.require(actors.RUN_WORK, run.agent, f"work for {run.agent}")
    item = Cleanup.objects.select_for_update().filter(run=run, key=key, state=CLAIMED, epoch=run.lease_epoch).first()
    alive = run.lease_expires_at is not None and run.lease_expires_at > transition.clock()
    if item is None or run.state not in states.STOPPING or run.lease_token != token or not alive:
        raise LeaseLost(f"This cleanup lease of {run.ref} is over: stop acting for it.", run=run.ref)
    if why := cleanup.over_time(run) or (cleanup.over_calls(run) if item.calls else ""):
        raise Cancelled(f"No further cleanup call of {run.ref}: {why}. What is left is listed for a person.", run=run.ref)
    return item


def finish(actor: Actor, item_id: uuid.UUID, token: str, outcome: str, detail: Any = None) -> Cleanup:
    """What came of an item: `done` or `failed` (then it is left behind, with the detail). Ends its lease; repeating changes nothing."""
    if outcome not in ("done", "failed"):
        raise Invalid("outcome must be done or failed.", field="outcome")
    run_id = Cleanup.objects.filter(pk=item_id).values_list("run_id", flat=True).first()
    if run_id is None:
        raise NotFound("No such cleanup.")
    with transaction.atomic(durable=True):
        run = transition.lock(run_id)
        actor.require(actors.RUN_WORK, run.agent)
        lease = epochs.lease_of(run, token)
        item = Cleanup.objects.select_for_update().get(pk=item_id)
        if item.state != CLAIMED or item.epoch != lease.epoch:
            return item
        if run.in_flight:
            raise EffectsInFlight(f"An effect of cleanup {item.key} is in flight: report its outcome first.", run=run.ref)
        item.state, item.detail, item.finished_at = (DONE if outcome == "done" else LEFT_BEHIND), detail, transition.clock()
        item.why = "" if outcome == "done" else "its handler failed"
        item.save(update_fields=["state", "detail", "finished_at", "why"])
        if run.lease_token == token:
            book().sender_stopped(run, lease.epoch, "worker", actor)
            epochs.end(run, "finished", "worker")
        transition.record(run, f"cleanup.{item.state}", actor, subject=item.key, data={"why": item.why} if item.why else None)
        closing.advance(run, actor)
        return item
