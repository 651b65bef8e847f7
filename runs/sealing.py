"""Seals events into hash chains, one for each run and one for the system stream: a sweep, so that no hot path pays for it.

    link 0 = SHA-256("countermand chain 1 " + stream)        link n = SHA-256(link n-1 + line n)

`line` is the event as one JSON object in PostgreSQL's own text form. docs/audit.md describes it for whoever verifies; the verifier
(`console/audit/verifier.py`) shares no code with this module.

Events are found in commit order below the oldest transaction that still runs, as the tail reads them, so none that commits late is
passed over. A run is sealed in the order of its seqs and never past a gap; whoever seals holds the lock of the one row of `SealPlace`.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from runs.models import Seal
from runs.transition import clock

BATCH = 5000
BATCHES_MAX = 20
HELD_BACK_MAX = 1000  # events of a run that an earlier batch found behind a transaction still running
SYSTEM = "system"

_LINE = """jsonb_build_object('id', {e}.id, 'run', {e}.run_id, 'seq', {e}.seq, 'tx', {e}.tx::text, 'kind', {e}.kind,
    'subject', {e}.subject, 'actor_type', {e}.actor_type, 'actor_id', {e}.actor_id, 'actor_name', {e}.actor_name,
    'channel', {e}.channel, 'data', {e}.data, 'at', to_char({e}.at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))::text"""


def line_of(events: str) -> str:
    """SQL for the canonical line of an event, given what its table is called: what is sealed, and what an export consists of."""
    return _LINE.format(e=events)


LINE = line_of("e")

_PLACE = "SELECT tx::text, event_id, after_id FROM runs_sealplace WHERE id = 1 FOR UPDATE SKIP LOCKED"
_SAFE = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text, pg_snapshot_xmax(pg_current_snapshot())::text"
_BATCH = """
SELECT e.id, e.tx::text, e.run_id FROM runs_event e
WHERE (e.tx, e.id) > (%s::text::xid8, %s::bigint) AND e.tx < %s::text::xid8 AND e.id > %s ORDER BY e.tx, e.id LIMIT %s
"""
_ENDS = """
SELECT r.id, s.last, s.head FROM unnest(%s::uuid[]) AS r(id)
JOIN LATERAL (SELECT last, head FROM runs_seal WHERE run_id = r.id ORDER BY first DESC LIMIT 1) s ON true
"""
_SYSTEM_END = "SELECT last, head FROM runs_seal WHERE run_id IS NULL ORDER BY first DESC LIMIT 1"
_OF_RUNS = f"""
SELECT r.id, o.seq, o.line FROM unnest(%s::uuid[], %s::bigint[], %s::bigint[]) AS r(id, last, most)
JOIN LATERAL (
    SELECT e.seq, {LINE} AS line FROM runs_event e
    WHERE e.run_id = r.id AND e.seq > r.last AND e.tx < %s::text::xid8 ORDER BY e.seq LIMIT r.most
) o ON true ORDER BY r.id, o.seq
"""  # noqa: S608 - our own text
_OF_SYSTEM = f"SELECT e.id, {LINE} FROM runs_event e WHERE e.id = ANY(%s)"  # noqa: S608
_ALL = "18446744073709551615"


@dataclass(frozen=True)
class End:
    """The end of a chain: the place and the link of its last sealed event."""

    last: int
    head: bytes


def start_of(stream: str) -> End:
    """The end of a chain that has no event yet."""
    return End(0, hashlib.sha256(f"countermand chain 1 {stream}".encode()).digest())


def seal_due() -> int:
    """Seal what has been committed since the last sweep; returns how many events. Does nothing while another process seals."""
    sealed = 0
    for _ in range(BATCHES_MAX):
        with transaction.atomic(durable=True):
            read, done = _seal_batch()
        sealed += done
        if read < BATCH:
            break
    return sealed


def _seal_batch() -> tuple[int, int]:
    """How many events were read and how many were sealed."""
    with connection.cursor() as cursor:
        place = _lock_place(cursor)
        if place is None:
            return 0, 0
        tx, event_id, after_id = place
        cursor.execute(_SAFE)  # after the lock: whoever held it before has committed
        safe, newest = cursor.fetchone()
        restored = int(tx) >= int(newest)  # this place is of another cluster, of which this database is a copy
        safe = _ALL if restored else safe
        cursor.execute(_BATCH, (tx, event_id, safe, after_id, BATCH))
        found = cursor.fetchall()
        seals = _of_runs(cursor, Counter(run for _, _, run in found if run is not None), safe)
        seals += _of_system(cursor, [pk for pk, _, run in found if run is None])
        Seal.objects.bulk_create(seals)
        if found:
            event_id, tx = found[-1][:2]
        elif restored:
            cursor.execute("SELECT max(id) FROM runs_event WHERE tx >= %s::text::xid8", (newest,))
            tx, event_id, after_id = "0", 0, cursor.fetchone()[0] or 0
        cursor.execute("UPDATE runs_sealplace SET tx = %s::text::xid8, event_id = %s, after_id = %s WHERE id = 1", (tx, event_id, after_id))
        return len(found), sum(seal.last - seal.first + 1 for seal in seals)


def _lock_place(cursor: Any) -> tuple[str, int, int] | None:
    """How far the sealing has come, locked; None while another process holds it."""
    cursor.execute("INSERT INTO runs_sealplace (id, tx, event_id, after_id) VALUES (1, '0', 0, 0) ON CONFLICT DO NOTHING")
    cursor.execute(_PLACE)
    found: tuple[str, int, int] | None = cursor.fetchone()
    return found


def _of_runs(cursor: Any, touched: Counter[uuid.UUID], safe: str) -> list[Seal]:
    ids = sorted(touched)
    if not ids:
        return []
    cursor.execute(_ENDS, (ids,))
    ends = {run: End(last, bytes.fromhex(head)) for run, last, head in cursor.fetchall()}
    lasts = [ends[run].last if run in ends else 0 for run in ids]
    cursor.execute(_OF_RUNS, (ids, lasts, [touched[run] + HELD_BACK_MAX for run in ids], safe))
    lines: dict[uuid.UUID, list[str]] = {run: [] for run in ids}
    for run, seq, line in cursor.fetchall():
        if seq == (ends[run].last if run in ends else 0) + len(lines[run]) + 1:  # nothing is sealed past a gap
            lines[run].append(line)
    return [_seal(run, ends.get(run) or start_of(str(run)), lines[run]) for run in ids if lines[run]]


def _of_system(cursor: Any, ids: list[int]) -> list[Seal]:
    if not ids:
        return []
    cursor.execute(_SYSTEM_END)
    row = cursor.fetchone()
    end = End(row[0], bytes.fromhex(row[1])) if row else start_of(SYSTEM)
    cursor.execute(_OF_SYSTEM, (ids,))
    lines = dict(cursor.fetchall())
    return [_seal(None, end, [lines[pk] for pk in ids], ids)]


def _seal(run: uuid.UUID | None, end: End, lines: Iterable[str], ids: list[int] | None = None) -> Seal:
    link, links = end.head, []
    for line in lines:
        link = hashlib.sha256(link + line.encode()).digest()
        links.append(link)
    return Seal(
        run_id=run,
        first=end.last + 1,
        last=end.last + len(links),
        events=ids or [],
        previous=end.head.hex(),
        links=b"".join(links),
        head=link.hex(),
        sealed_at=clock(),
    )
