"""Events as a file, streamed: CSV that a spreadsheet can open safely, or JSONL whose every line is the bytes that were sealed.

It takes what was committed when it was asked for, a batch at a time: flat memory, no open cursor, no transaction that waits for a reader.
"""

from __future__ import annotations

import csv
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from channels.db import database_sync_to_async
from defusedcsv import csv as defused
from django.db.models import TextField
from django.db.models.expressions import RawSQL

from console.audit import search
from console.audit.filters import Wanted
from ledger.models import Effect
from runs import actors, sealing, timeline
from runs.actors import Actor
from runs.errors import Invalid

BATCH = 2000
FORMS = ("csv", "jsonl")
CONTENT_TYPES = {"csv": "text/csv; charset=utf-8", "jsonl": "application/jsonl"}
COLUMNS = (
    "at", "run", "seq", "kind", "subject", "actor_type", "actor_id", "actor_name", "channel",
    "provider", "action", "business_ref", "amount_minor", "currency", "data", "event_id", "run_id",
)  # fmt: skip
_FIELDS = ("run__ref", "seq", "kind", "subject", "actor_type", "actor_id", "actor_name", "channel", "data", "run_id")
_ABOUT = ("provider", "action", "business_ref", "amount", "currency")


def begin(actor: Actor, wanted: Wanted, form: str, filters: dict[str, str]) -> Iterator[bytes]:
    """Record the export, then give its parts. Raises `NotAllowed`, `Invalid`."""
    actor.require(actors.AUDIT_READ, None, "export events")
    if form not in FORMS:
        raise Invalid("form: use csv or jsonl.", field="form")
    before_tx = search.safe_moment()
    timeline.append_system("audit.exported", actor, form, {"form": form, "filters": filters, "before_tx": str(before_tx)})
    return _csv(actor, wanted, before_tx) if form == "csv" else _jsonl(actor, wanted, before_tx)


def _jsonl(actor: Actor, wanted: Wanted, before_tx: int) -> Iterator[bytes]:
    line = RawSQL(sealing.line_of('"runs_event"'), (), output_field=TextField())  # noqa: S611 - our own text
    for rows in search.in_order(actor, wanted, before_tx, BATCH, line):
        yield "".join(f"{row[2]}\n" for row in rows).encode()


def _csv(actor: Actor, wanted: Wanted, before_tx: int) -> Iterator[bytes]:
    writer = defused.writer(_Line(), quoting=csv.QUOTE_MINIMAL)
    yield writer.writerow(COLUMNS).encode()
    for rows in search.in_order(actor, wanted, before_tx, BATCH, *_FIELDS):
        about = {ref: found for ref, *found in Effect.objects.filter(ref__in=_effects(rows)).values_list("ref", *_ABOUT)}
        yield "".join(writer.writerow(_cells(row, about.get(row[5], [None] * len(_ABOUT)))) for row in rows).encode()


def _effects(rows: list[tuple[Any, ...]]) -> set[str]:
    return {row[5] for row in rows if row[5].startswith("E-")}


def _cells(row: tuple[Any, ...], about: list[Any]) -> list[Any]:
    at, pk, ref, seq, kind, subject, *who, data, run_id = row
    cells = [at.isoformat(), ref, seq, kind, subject, *who, *about, json.dumps(data, ensure_ascii=False, sort_keys=True), pk, run_id]
    return [_plain(cell) for cell in cells]


def _plain(cell: Any) -> Any:
    """Spreadsheets skip a leading tab or line break before they look for a formula; the library does not."""
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("\t", "\r", "\n") else cell


class _Line:
    """A file for csv.writer that hands each line back."""

    def write(self, line: str) -> str:
        return line


async def in_threads(parts: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The same parts for an asynchronous server, which would otherwise collect them all before it sends the first."""
    following: Callable[[], Any] = database_sync_to_async(lambda: next(parts, None), thread_sensitive=False)
    while (part := await following()) is not None:  # type: ignore[misc]
        yield part
