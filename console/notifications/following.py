"""Follows the event log in commit order and makes a message of every event that is to be told: none is missed, none is told twice.

The cursor moves in the commit that makes the messages. Events are read by (tx, id) below the oldest transaction that is still running, so
that one which commits late is not skipped.
"""

from __future__ import annotations

import json
import logging

from django.contrib.auth.models import User
from django.db import connection, transaction

from console.notifications import states, telling
from console.notifications.models import Cursor, Delivery, Endpoint, Message
from console.notifications.telling import Happened
from runs import hints

log = logging.getLogger(__name__)

BATCH = 1000
BATCHES_MAX = 20

_PLACE = """
INSERT INTO notifications_cursor (id, tx, event_id) VALUES (1, pg_snapshot_xmin(pg_current_snapshot()), 0) ON CONFLICT DO NOTHING
"""
_NEXT = """
SELECT id, tx::text, kind, run_id, seq, subject, data, at FROM runs_event
WHERE (tx, id) > (%s::text::xid8, %s::bigint) AND tx < pg_snapshot_xmin(pg_current_snapshot()) ORDER BY tx, id LIMIT %s
"""
_AHEAD = "SELECT %s::text::xid8 > pg_snapshot_xmax(pg_current_snapshot())"
_MOVE = "UPDATE notifications_cursor SET tx = %s::text::xid8, event_id = %s WHERE id = 1"


def follow() -> int:
    """Make the messages that are due, up to now. Returns how many; 0 while somebody else is at it."""
    made = 0
    for _ in range(BATCHES_MAX):
        new, full = _follow_batch()
        made += new
        if not full:
            break
    return made


def _follow_batch() -> tuple[int, bool]:
    with transaction.atomic(durable=True), connection.cursor() as database:
        place = Cursor.objects.select_for_update(skip_locked=True).first()
        if place is None or _lost(place):
            database.execute(_PLACE)  # does nothing when it is only somebody else's turn
            return 0, False
        database.execute(_NEXT, [str(place.tx), place.event_id, BATCH])
        rows = database.fetchall()
        if not rows:
            return 0, False
        made = sum(_make(Happened(pk, kind, run, seq, subject, json.loads(data), at)) for pk, _, kind, run, seq, subject, data, at in rows)
        database.execute(_MOVE, [rows[-1][1], rows[-1][0]])
        if made:
            hints.nudge("notification.made")
        return made, len(rows) == BATCH


def _lost(place: Cursor) -> bool:
    """A database restored into a younger cluster counts its transactions anew: following goes on from now, loudly."""
    with connection.cursor() as database:
        database.execute(_AHEAD, [str(place.tx)])
        ahead: bool = database.fetchone()[0]
    if ahead:
        log.error("the cursor of the notifications (%s) is ahead of this database; following starts anew", place)
        Cursor.objects.filter(pk=place.pk).delete()
    return ahead


def _make(event: Happened) -> bool:
    """The message of an event, with a delivery for everyone who is to have it."""
    told = telling.what_to_tell(event)
    if told is None:
        return False
    message = Message.objects.create(kind=told.kind, event_id=event.id, reference=told.reference, body=telling.body(told, event.at))
    Delivery.objects.bulk_create([Delivery(message=message, **to) for to in _receivers(told.kind, told.reference)])
    return True


def _receivers(kind: str, reference: str) -> list[dict[str, object]]:
    """Who is told: endpoints that chose the kind. That one was disabled, every other endpoint is told, and the administrators."""
    enabled = Endpoint.objects.filter(enabled=True)
    if kind != states.ENDPOINT_DISABLED:
        return [{"endpoint": endpoint} for endpoint in enabled.filter(kinds__contains=[kind])]
    admins = User.objects.filter(is_active=True, groups__name="Admin").exclude(email="").values_list("email", flat=True)
    others: list[dict[str, object]] = [{"endpoint": endpoint} for endpoint in enabled.exclude(pk=reference)]
    return others + [{"address": address} for address in sorted(set(admins))]
