"""Writing events: one append-only row for each change, in the same commit as the change."""

from __future__ import annotations

import uuid
from typing import Any

from django.db import connection
from psycopg.types.json import Jsonb

from runs.actors import Actor

INSERT_EVENT = """
INSERT INTO runs_event (run_id, seq, kind, subject, actor_type, actor_id, actor_name, channel, data)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
"""


def append(
    run_id: uuid.UUID | None,
    seq: int | None,
    kind: str,
    actor: Actor,
    subject: str = "",
    data: dict[str, Any] | None = None,
) -> None:
    """Insert one event at position `seq`, which the caller took under the run's lock in this transaction."""
    with connection.cursor() as cursor:
        cursor.execute(INSERT_EVENT, event_values(run_id, seq, kind, actor, subject, data or {}))


def event_values(run_id: uuid.UUID | None, seq: int | None, kind: str, actor: Actor, subject: str, data: dict[str, Any]) -> tuple[Any, ...]:
    """The parameters of `INSERT_EVENT`, for the hot paths that insert with a cursor of their own."""
    return (run_id, seq, kind, subject, actor.type, actor.id, actor.name, actor.channel, Jsonb(data))


def append_system(kind: str, actor: Actor, subject: str = "", data: dict[str, Any] | None = None) -> None:
    """Insert an event that belongs to no run (sign-in, token, export, provider alert)."""
    append(None, None, kind, actor, subject, data)
