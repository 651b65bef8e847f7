"""Reading endpoints and their delivery logs, and how much waits. It changes nothing."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from console.notifications import states
from console.notifications.models import Delivery, Endpoint
from runs import actors, transition
from runs.actors import Actor
from runs.errors import NotFound

LOG_MAX = 50


def readable(actor: Actor) -> QuerySet[Endpoint]:
    """The endpoints, for those who may change them: their addresses are nobody else's business. Raises `NotAllowed`."""
    actor.require(actors.NOTIFICATION_CHANGE, None, "see where notifications go")
    return Endpoint.objects.order_by("name", "id")


def read(actor: Actor, pk: uuid.UUID) -> Endpoint:
    """Raises `NotFound`, `NotAllowed`."""
    endpoint = readable(actor).filter(pk=pk).first()
    if endpoint is None:
        raise NotFound("No such endpoint. It may be another installation's.")
    return endpoint


def somebody_hears(kind: str) -> bool:
    """Whether an endpoint that is on has chosen this kind."""
    return Endpoint.objects.filter(enabled=True, kinds__contains=[kind]).exists()


def log(endpoint: Endpoint) -> list[Delivery]:
    """Its latest deliveries with every try, the newest first."""
    newest = Delivery.objects.filter(endpoint=endpoint).select_related("message").prefetch_related("attempts")
    return list(newest.order_by("-id")[:LOG_MAX])


def failed_count() -> int:
    """Endpoints that failed until they were disabled, and that nobody has seen to yet."""
    return Endpoint.objects.filter(enabled=False, failures__gt=0).count()


def waiting() -> dict[str, float]:
    """How many messages wait, the age in seconds of the oldest, and how far the follower is behind the log."""
    now = transition.clock()
    pending = Delivery.objects.filter(state=states.PENDING).order_by("message__made_at")
    oldest: Any = pending.values_list("message__made_at", flat=True).first()
    return {
        "pending": pending.count(),
        "oldest_s": (now - oldest).total_seconds() if oldest else 0.0,
        "behind_s": _behind_s(),
        "given_up": Delivery.objects.filter(state=states.GIVEN_UP).count(),
        "disabled": Endpoint.objects.filter(enabled=False).count(),
    }


_BEHIND = """
SELECT extract(epoch FROM clock_timestamp() - e.at)::float FROM notifications_cursor c, LATERAL (
    SELECT at FROM runs_event WHERE (tx, id) > (c.tx, c.event_id) AND tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY tx, id LIMIT 1
) e
"""


def _behind_s() -> float:
    with connection.cursor() as cursor:
        cursor.execute(_BEHIND)
        row = cursor.fetchone()
    return float(row[0]) if row else 0.0
