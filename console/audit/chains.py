"""Hands the rows of this database to the verifier, all from one snapshot and a few at a time, however long the history is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from django.db import connection, transaction

from console.audit.verifier import SYSTEM, Anchors, Bad, Count, Stretch, canonical, verify

OVERDUE = timedelta(hours=1)
COLUMNS = ("id", "run", "seq", "tx", "kind", "subject", "actor_type", "actor_id", "actor_name", "channel", "data", "at")
_COLUMNS = "id, run_id::text, seq, tx::text, kind, subject, actor_type, actor_id, actor_name, channel, data::text, at"
_EVENTS = f"SELECT {_COLUMNS} FROM runs_event WHERE run_id IS NOT NULL ORDER BY run_id, seq"  # noqa: S608 - our own text
_SEALS = "SELECT run_id::text, first, last, previous, links, head FROM runs_seal WHERE run_id IS NOT NULL ORDER BY run_id, first"
_SYSTEM_SEALS = "SELECT first, last, previous, links, head, events FROM runs_seal WHERE run_id IS NULL ORDER BY first"
_BY_ID = f"SELECT {_COLUMNS} FROM runs_event WHERE id = ANY(%s)"  # noqa: S608
_SLIPPED_IN = """
SELECT min(id) FROM (
    SELECT id FROM runs_event WHERE run_id IS NULL AND tx < (SELECT tx FROM runs_event WHERE id = %s)
    EXCEPT SELECT unnest(events) FROM runs_seal WHERE run_id IS NULL
) s
"""
_SYSTEM_OPEN = """
SELECT count(*), min(at) FROM runs_event WHERE run_id IS NULL AND id NOT IN (SELECT unnest(events) FROM runs_seal WHERE run_id IS NULL)
"""


@dataclass
class Report:
    """What a verification found. `unsealed` events wait for the next sweep; `oldest_unsealed` says for how long."""

    count: Count = field(default_factory=Count)
    bad: list[Bad] = field(default_factory=list)
    unsealed: int = 0
    oldest_unsealed: datetime | None = None

    def waits(self, number: int, since: datetime | None) -> None:
        self.unsealed += number
        self.oldest_unsealed = min(filter(None, [self.oldest_unsealed, since]), default=None)


def verify_all(anchors: Anchors | None = None) -> Report:
    """Verify every chain against its seals and the anchored heads."""
    heads, report = (anchors or Anchors()).heads, Report()
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '60s'")  # it reads only: nobody waits for it
        _system(report, heads.get(SYSTEM, {}))
        for stream, seals, events in _streams(heads):
            last = seals[-1].last if seals else 0
            before = report.count.events
            late = _Late(last)
            bad = verify(stream, late.watch(events), seals, heads.get(stream, {}), report.count)
            report.waits(max(0, report.count.events - before - last), late.since)
            report.bad += [bad] if bad else []
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp()")
            now = cursor.fetchone()[0]
    if report.oldest_unsealed is not None and now - report.oldest_unsealed > OVERDUE:
        why = f"{report.unsealed} events are not sealed, the oldest of {report.oldest_unsealed:%Y-%m-%d %H:%M} UTC: does the sweep run?"
        report.bad.append(Bad("all", 0, why))
    return report


class _Late:
    """Remembers since when the first event after the last seal has waited."""

    def __init__(self, last: int) -> None:
        self._last, self.since = last, None

    def watch(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[int, int, bytes]]:
        for row in rows:
            if row[2] > self._last and self.since is None:
                self.since = row[-1]
            yield row[2], row[0], canonical(dict(zip(COLUMNS, row, strict=True)))


def _streams(heads: dict[str, dict[int, str]]) -> Iterator[tuple[str, list[Stretch], Iterable[tuple[Any, ...]]]]:
    """Every run that has events, seals or anchors, with its seals and its rows."""
    with connection.chunked_cursor() as events, connection.chunked_cursor() as seals:
        events.execute(_EVENTS)
        seals.execute(_SEALS)
        rows, sealed = groupby(events, itemgetter(1)), groupby(seals, itemgetter(0))
        anchored = iter(sorted(stream for stream in heads if stream != SYSTEM))
        row, seal, anchor = next(rows, None), next(sealed, None), next(anchored, None)
        while row or seal or anchor:
            stream = min(key for key in (row and row[0], seal and seal[0], anchor) if key)
            mine = (
                [Stretch(first, last, previous, bytes(links), head) for _, first, last, previous, links, head in seal[1]]
                if (seal and seal[0] == stream)
                else []
            )
            yield stream, mine, row[1] if row and row[0] == stream else ()
            row = next(rows, None) if row and row[0] == stream else row
            seal = next(sealed, None) if seal and seal[0] == stream else seal
            anchor = next(anchored, None) if anchor == stream else anchor


def _system(report: Report, anchored: dict[int, str]) -> None:
    """The system stream: its seals say which events it has, in which order."""
    with connection.chunked_cursor() as cursor:
        cursor.execute(_SYSTEM_SEALS)
        listed: list[tuple[Stretch, list[int]]] = []
        for first, last, previous, links, head, events in cursor:
            listed.append((Stretch(first, last, previous, bytes(links), head), events))
    bad = verify(SYSTEM, _sealed_system(listed), [seal for seal, _ in listed], anchored, report.count)
    with connection.cursor() as cursor:
        if bad is None and listed:
            cursor.execute(_SLIPPED_IN, (listed[-1][1][-1],))
            slipped = cursor.fetchone()[0]
            bad = Bad(SYSTEM, listed[-1][0].last + 1, "slipped in: later events were sealed without it", slipped) if slipped else None
        cursor.execute(_SYSTEM_OPEN)
        report.waits(*cursor.fetchone())
    report.bad += [bad] if bad else []


def _sealed_system(listed: list[tuple[Stretch, list[int]]]) -> Iterator[tuple[int, int, bytes]]:
    with connection.cursor() as cursor:
        for seal, ids in listed:
            cursor.execute(_BY_ID, (ids,))
            rows = {row[0]: row for row in cursor.fetchall()}
            for place, pk in enumerate(ids, start=seal.first):
                if pk in rows:
                    yield place, pk, canonical(dict(zip(COLUMNS, rows[pk], strict=True)))
