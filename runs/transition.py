"""The one door through which a run row changes: lock it, alter the instance, `record` what changed with its event.

The hot paths (begin-send in `ledger/intents.py`, heartbeat in `runs/leases.py`) write the same row with a guarded UPDATE of
their own; nothing else does.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import JSONField, Q
from psycopg.types.json import Jsonb

from runs import states, timeline
from runs.actors import Actor
from runs.errors import NotFound
from runs.models import Run

_FIXED = {"id", "ref", "settlement", "status", "created_at", "changed_at"}
_JSON = {f.attname for f in Run._meta.concrete_fields if isinstance(f, JSONField)}
_TYPES = {f.attname: f.db_type(connection) for f in Run._meta.concrete_fields}
_MUTABLE = tuple(f.attname for f in Run._meta.concrete_fields if f.attname not in _FIXED)


def clock() -> datetime:
    """The database's `clock_timestamp()`, UTC. The only clock that decides anything."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return cursor.fetchone()[0]


def lock(run_id: uuid.UUID) -> Run:
    """The run, locked (`FOR NO KEY UPDATE`) until the transaction ends. Everything decided about it comes after this."""
    found = lock_all([run_id])
    if not found:
        raise NotFound(f"No run with id {run_id}.")
    return found[0]


def lock_all(run_ids: Iterable[uuid.UUID]) -> list[Run]:
    """Several runs, locked ancestors before descendants, siblings in id order."""
    runs = list(Run.objects.select_for_update(no_key=True).filter(pk__in=list(run_ids)).order_by("depth", "id"))
    for run in runs:
        _remember(run)
    return runs


def lock_children(parents: Iterable[Run]) -> list[Run]:
    """The children of locked runs, locked in id order by a statement of its own: a locked parent can start no more of them."""
    runs = list(Run.objects.select_for_update(no_key=True).filter(parent__in=[p.pk for p in parents]).order_by("id"))
    for run in runs:
        _remember(run)
    return runs


def take(limit: int, *where: Q, **conditions: Any) -> list[Run]:
    """Up to `limit` runs that satisfy the conditions, locked, leaving out those that somebody else holds (for sweeps and claims)."""
    runs = list(Run.objects.select_for_update(no_key=True, skip_locked=True).filter(*where, **conditions).order_by("created_at")[:limit])
    for run in runs:
        _remember(run)
    return runs


def record(run: Run, kind: str, actor: Actor, subject: str = "", data: dict[str, Any] | None = None) -> int:
    """Write what was altered on a locked run since it was locked or last recorded, raise its version, append the event.

    Returns the event's seq, which is the run's version now.
    """
    record_all([run], kind, actor, data, subject)
    return run.version


def record_all(runs: list[Run], kind: str, actor: Actor, data: dict[str, Any] | None = None, subject: str = "") -> None:
    """`record` for several locked runs with one event each, in one exchange with the database."""
    if not runs:
        return
    alike: dict[tuple[str, ...], list[tuple[Run, dict[str, Any]]]] = defaultdict(list)
    for run in runs:
        changes = _changes(run)
        alike[tuple(changes)].append((run, changes))
    with connection.cursor() as cursor:
        raw = [cursor.connection.cursor() for _ in alike]
        with connection.wrap_database_errors, connection.connection.pipeline():
            for one, altered in zip(raw, alike.values(), strict=True):
                one.execute(*_update(altered))
            timeline.append_all(cursor, [(run.pk, run.version) for run in runs], kind, actor, subject, data or {})
    for one, altered in zip(raw, alike.values(), strict=True):
        if one.rowcount != len(altered):
            raise AssertionError(f"one of {', '.join(run.ref for run, _ in altered)} changed although it was locked")
    for run in runs:
        _remember(run)


def _changes(run: Run) -> dict[str, Any]:
    """What was altered on a run, whose version it raises in memory."""
    loaded: dict[str, Any] = run._loaded  # type: ignore[attr-defined]
    run.version += 1
    if run.is_closed:
        closing_now = loaded["closed_at"] is None
        run.settled_at = (run.settled_at or (run.closed_at if closing_now else clock())) if run.is_settled else None
    if run.state != loaded["state"] and run.state not in states.MOVES[loaded["state"]]:
        raise AssertionError(f"{loaded['state']} -> {run.state} is not a move")
    changes = {name: value for name in _MUTABLE if (value := getattr(run, name)) != loaded[name]}
    return {name: Jsonb(value) if name in _JSON and value is not None else value for name, value in changes.items()}


def _update(altered: list[tuple[Run, dict[str, Any]]]) -> tuple[str, list[Any]]:
    """The guarded UPDATE of runs on which the same columns were altered; columns that differ from run to run travel as arrays."""
    _, first = altered[0]
    same = [name for name in first if all(changes[name] == first[name] for _, changes in altered)]
    differ = [name for name in first if name not in same]
    columns = ", ".join([*(f"{name} = %s" for name in same), *(f"{name} = v.{name}" for name in differ), "changed_at = clock_timestamp()"])
    arrays = ", ".join(["%s::uuid[]", "%s::int[]", *(f"%s::{_TYPES[name]}[]" for name in differ)])
    named = ", ".join(["id", "was", *differ])
    sql = (
        f"UPDATE runs_run r SET {columns} FROM unnest({arrays}) AS v({named})"  # noqa: S608 - column names
        " WHERE r.id = v.id AND r.version = v.was"
    )
    ids, were = [run.pk for run, _ in altered], [run._loaded["version"] for run, _ in altered]  # type: ignore[attr-defined]
    return sql, [*(first[name] for name in same), ids, were, *([changes[name] for _, changes in altered] for name in differ)]


def _remember(run: Run) -> None:
    run._loaded = {name: getattr(run, name) for name in _MUTABLE}  # type: ignore[attr-defined]
