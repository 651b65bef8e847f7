"""Delivers messages: takes one that is due, sends it outside any transaction, records what came of it.

A sender that dies in between loses nothing: its take runs out, and the message is sent again under the same webhook-id.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from console.notifications import endpoints, sending, states
from console.notifications.models import Delivery, Endpoint, Try
from console.notifications.sending import Outcome
from runs import actors, sweeps, transition
from runs.turns import take_turn

TAKEN_FOR = timedelta(minutes=1)  # more than one try can last
AT_ONCE = 2  # senders of all workers together: slow receivers must not hold every worker
SWEEP_S = 5.0
TAKING = "notifications are taken"
DELIVERER = actors.system("notifications")


def deliver_due(limit: int = 100) -> int:
    """Send what is due, for a few seconds at most. Returns how many messages arrived."""
    until_s, arrived = time.monotonic() + SWEEP_S, 0
    while limit and time.monotonic() < until_s and (taken := take()) is not None:
        arrived += sweeps.each([taken], deliver)
        limit -= 1
    return arrived


def take() -> Delivery | None:
    """A delivery that is due, for this caller alone until its take runs out; None when there is none, or enough are being sent."""
    with transaction.atomic(durable=True):
        take_turn(TAKING)  # two that count at once would each find room for one more
        now = transition.clock()
        pending = Delivery.objects.filter(state=states.PENDING)
        if pending.filter(taken_until__gt=now).count() >= AT_ONCE:
            return None
        free = Q(taken_until__isnull=True) | Q(taken_until__lte=now)
        may = Q(endpoint__isnull=True) | Q(endpoint__paused_until__isnull=True) | Q(endpoint__paused_until__lte=now)
        due = pending.filter(free, may, next_at__lte=now).order_by("next_at", "id").values("pk")[:20]
        mine = Delivery.objects.select_for_update(skip_locked=True).filter(free, pk__in=due, state=states.PENDING)
        delivery = mine.order_by("next_at", "id").first()
        if delivery is None:
            return None
        delivery.tries += 1
        delivery.taken_until = now + TAKEN_FOR
        delivery.save(update_fields=["tries", "taken_until"])
        Try.objects.create(delivery=delivery, number=delivery.tries, at=now)
        return delivery


def deliver(delivery: Delivery) -> bool:
    """Send a delivery that was taken and record the outcome. Returns whether it arrived."""
    outcome = sending.send(delivery, transition.clock())
    record(delivery, outcome)
    return outcome.delivered


def record(delivery: Delivery, outcome: Outcome) -> None:
    """Keep what came of a try. A sender whose take has run out meanwhile records its own try and moves nothing."""
    with transaction.atomic(durable=True):
        now = transition.clock()
        endpoint = Endpoint.objects.select_for_update().get(pk=delivery.endpoint_id) if delivery.endpoint_id else None
        Try.objects.filter(delivery=delivery, number=delivery.tries, ended_at__isnull=True).update(
            ended_at=now, delivered=outcome.delivered, status=outcome.status, detail=outcome.detail
        )
        mine = Delivery.objects.filter(pk=delivery.pk, state=states.PENDING)
        if outcome.delivered:
            mine.update(state=states.DELIVERED, done_at=now, taken_until=None)
        elif delivery.tries > len(states.BACKOFF_S):
            mine.filter(tries=delivery.tries).update(state=states.GIVEN_UP, done_at=now, taken_until=None)
        else:
            again = now + timedelta(seconds=states.BACKOFF_S[delivery.tries - 1])
            mine.filter(tries=delivery.tries).update(next_at=again, taken_until=None)
        if endpoint is not None:
            _mark(endpoint, outcome, delivery.tries, now)


def _mark(endpoint: Endpoint, outcome: Outcome, tries: int, now: datetime) -> None:
    """What a try says about its endpoint: well again, failing, or failing for so long that it is disabled."""
    if outcome.delivered:
        endpoint.failures, endpoint.failing_since, endpoint.paused_until = 0, None, None
    else:
        pause_s = min(states.PAUSE_S_MAX, states.BACKOFF_S[min(tries, len(states.BACKOFF_S)) - 1])
        endpoint.failures += 1
        endpoint.failing_since = endpoint.failing_since or now
        endpoint.paused_until = now + timedelta(seconds=pause_s)
    endpoint.save(update_fields=["failures", "failing_since", "paused_until"])
    if not endpoint.enabled or endpoint.failing_since is None:
        return
    if outcome.gone:
        endpoints.disable_failed(endpoint, DELIVERER, "It answered HTTP 410: it wants no more.", now)
    elif endpoint.failures >= states.FAILURES_MIN and now - endpoint.failing_since >= states.DISABLE_AFTER:
        endpoints.disable_failed(endpoint, DELIVERER, f"Nothing has arrived there since {endpoint.failing_since:%Y-%m-%d %H:%M} UTC.", now)
