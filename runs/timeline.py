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


_INSERT_ALL = """
INSERT INTO runs_event (run_id, seq, kind, subject, actor_type, actor_id, actor_name, channel, data)
SELECT run_id, seq, %s, %s, %s, %s, %s, %s, %s FROM unnest(%s::uuid[], %s::int[]) AS e(run_id, seq)
"""


def append_all(cursor: Any, places: list[tuple[uuid.UUID, int]], kind: str, actor: Actor, subject: str, data: dict[str, Any]) -> None:
    """The same event for several runs, in their order, each at its own seq; `cursor` may be in a pipeline."""
    _, _, *what = event_values(None, None, kind, actor, subject, data)
    cursor.execute(_INSERT_ALL, (*what, [run_id for run_id, _ in places], [seq for _, seq in places]))


def append_system(kind: str, actor: Actor, subject: str = "", data: dict[str, Any] | None = None) -> None:
    """Insert an event that belongs to no run (sign-in, token, export, provider alert)."""
    append(None, None, kind, actor, subject, data)
