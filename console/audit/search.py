"""The events that an auditor asks for, in pages by keyset, newest first, and all of them in order. It only reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import connection
from django.db.models import Q

from console.audit.choosing import Chosen, events
from console.audit.filters import Wanted
from runs.actors import Actor
from runs.errors import Invalid
from runs.models import Event
from runs.planning import COUNT_ALLOWED_MS, TooLong, within

COUNT_MAX = 10_000
SIZES = (50, 100, 200)
TIME_ALLOWED_MS = 5000


@dataclass(frozen=True)
class Page:
    """Some events, newest first; `older` and `newer` are places to go on from, or ''; `counted` how many there are in all, in words."""

    items: list[Event]
    older: str
    newer: str
    counted: str


def page(actor: Actor, wanted: Wanted, place: str, size: int) -> Page:
    """A page of them. Raises `Invalid` for a place that is not ours, `TooLong`."""
    backwards, key = _read_place(place)
    chosen = events(actor, wanted)
    order = (chosen.at.asc(), "id") if backwards else (chosen.at.desc(), "-id")
    found = chosen.rows.prefetch_related("run").order_by(*order)  # the runs of the page, not those of all that is sorted for it
    if key is not None:
        found = found.filter(_beyond(key, backwards))
    with within(TIME_ALLOWED_MS):
        rows = list(found[: size + 1])
    more, items = len(rows) > size, rows[:size]
    if backwards:
        items.reverse()
    older = f"o{_key(items[-1])}" if items and (more or backwards) else ""
    newer = f"n{_key(items[0])}" if items and (more if backwards else key is not None) else ""
    return Page(items, older, newer, _counted(chosen) if older or newer or (key and not items) else f"{len(items):,}")


def _key(event: Event) -> str:
    return f"{int(event.at.timestamp())}.{event.at.microsecond:06d}-{event.pk}"


def _read_place(text: str) -> tuple[bool, tuple[datetime, int] | None]:
    if not text:
        return False, None
    try:
        moment, _, pk = text[1:].partition("-")
        seconds, _, micro = moment.partition(".")
        if text[0] not in "on" or len(micro) != 6 or len(text) > 60:
            raise ValueError
        return text[0] == "n", (datetime.fromtimestamp(int(seconds), UTC).replace(microsecond=int(micro)), int(pk))
    except (ValueError, OverflowError, OSError):
        raise Invalid("place: follow the links of a page, unchanged.", field="place") from None


def _beyond(key: tuple[datetime, int], upwards: bool) -> Q:
    sign, (at, pk) = ("gt" if upwards else "lt"), key
    # The first condition alone lets the index start at the right place; the second decides between equal times.
    return Q(**{f"at__{sign}e": at}) & (Q(**{f"at__{sign}": at}) | Q(**{f"id__{sign}": pk}))


def count(actor: Actor, wanted: Wanted) -> str:
    """How many there are: exact up to 10,000, else a number that they exceed; `many` when counting them would keep the page waiting."""
    return _counted(events(actor, wanted))


def _counted(chosen: Chosen) -> str:
    if chosen.many:
        return f"{chosen.more_than:,}+" if chosen.more_than else "many"
    try:
        with within(COUNT_ALLOWED_MS):
            number = chosen.rows.order_by()[: COUNT_MAX + 1].count()
    except TooLong:
        return "many"
    return f"{COUNT_MAX:,}+" if number > COUNT_MAX else f"{number:,}"


def safe_moment() -> int:
    """Every transaction below this one is over: what an export takes, so that the same export gives the same rows for ever."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
        return int(cursor.fetchone()[0])


def in_order(actor: Actor, wanted: Wanted, before_tx: int, batch: int, *extra: Any) -> Iterator[list[tuple[Any, ...]]]:
    """All of them, oldest first, a batch at a time; each row is (at, id, *extra). No cursor is held between two batches."""
    chosen = events(actor, wanted)
    found = chosen.rows.filter(tx__lt=before_tx).order_by(chosen.at.asc(), "id")
    key: tuple[datetime, int] | None = None
    while True:
        rows = list((found.filter(_beyond(key, True)) if key else found).values_list("at", "id", *extra)[:batch])
        if rows:
            yield rows
        if len(rows) < batch:
            return
        key = (rows[-1][0], rows[-1][1])
