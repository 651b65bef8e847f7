"""Reading runs: who may see which, filters, and pages by keyset. Never counts, never skips rows, never changes anything."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from django.db.models import F, Model, Q, QuerySet, UUIDField
from django.db.models.expressions import Combinable

from runs import actors
from runs.actors import ANY_AGENT, Actor
from runs.errors import Invalid, NotAllowed, NotFound
from runs.ids import parse_ref, parse_uuid
from runs.models import CancelRequest, Event, Run
from runs.planning import MANY, OneOf, planned_by_value

M = TypeVar("M", bound=Model)
NAMED_ELSEWHERE_MAX = 200


@dataclass(frozen=True)
class Page(Generic[M]):
    """Some rows, newest first; `next` and `previous` are cursors, or None at that end."""

    items: list[M]
    next: str | None
    previous: str | None


@dataclass(frozen=True)
class RunFilter:
    """What a list of runs is narrowed by; empty means any. `started_to` is not included."""

    status: Sequence[str] = ()
    agent: Sequence[str] = ()
    q: str = ""
    business_ref: str = ""
    started_from: datetime | None = None
    started_to: datetime | None = None
    cancelled_by: str = ""


def may_read(actor: Actor, agent: str) -> bool:
    """Whether the actor may read runs of `agent`: by run:read, or because it works for that agent."""
    return actor.may(actors.RUN_READ, agent) or actor.may(actors.RUN_WORK, agent)


def readable(actor: Actor, rows: QuerySet[M], agent_field: str = "agent") -> QuerySet[M]:
    """Those of the rows that the actor may read. Raises `NotAllowed` when it may read none."""
    if not (actor.may(actors.RUN_READ) or actor.may(actors.RUN_WORK)):
        raise NotAllowed(f"{actor.name} may not read runs: it needs {actors.RUN_READ}.", needs=actors.RUN_READ)
    if actor.type != "machine" or ANY_AGENT in actor.agents:
        return rows
    return rows.filter(**{f"{agent_field}__in": sorted(actor.agents)})


def read_run(actor: Actor, text: str) -> Run:
    """The run named by id or reference, in any case, with or without dashes. Raises `NotFound`, `NotAllowed`."""
    ref, pk = parse_ref(text, "R"), parse_uuid(text)
    run = Run.objects.filter(Q(ref=ref) if ref else Q(pk=pk)).first() if ref or pk else None
    if run is None:
        raise NotFound(f"No run is called {text[:60]!r}. Use its id, or its reference such as R-7K2M9Q4TXA.")
    if not may_read(actor, run.agent):
        raise NotAllowed(f"{actor.name} may not read runs of {run.agent}: it needs {actors.RUN_READ}.", needs=actors.RUN_READ)
    return run


def find_runs(actor: Actor, wanted: RunFilter, cursor: str | None = None, limit: int = 50) -> Page[Run]:
    """A page of the runs that the actor may read and that are wanted, newest first."""
    return page_of_runs(actor, readable(actor, Run.objects.all()), wanted, cursor, limit)


@planned_by_value()
def page_of_runs(actor: Actor, rows: QuerySet[Run], wanted: RunFilter, cursor: str | None, limit: int) -> Page[Run]:
    """A page of those of the rows that the filter lets through, newest first. Raises `Invalid` for a cursor that is not ours."""
    by_name = bool(wanted.q.strip()) and not wanted.cancelled_by
    return page_of(list(_lists(actor, rows, wanted)), "listed_at", "listed_id", cursor, limit, keys_first=by_name)


def _lists(actor: Actor, rows: QuerySet[Run], wanted: RunFilter) -> Iterator[QuerySet[Run]]:
    """The same as several lists, each of which the database gives in order without going through what is not in it."""
    if wanted.cancelled_by:
        rest = narrow(actor, rows, replace(wanted, cancelled_by=""))
        yield from (_stopped_by(rest, asked) for asked in _asked_by(actor, wanted.cancelled_by))
    elif wanted.q.strip():
        rest = narrow(actor, rows, replace(wanted, q=""))
        yield from (rest.filter(named).annotate(listed_at=_sorted(named), listed_id=F("id")) for named in _named(wanted.q.strip()))
    else:
        yield narrow(actor, rows, wanted).annotate(listed_at=F("created_at"), listed_id=F("id"))


def narrow(actor: Actor, rows: QuerySet[Run], wanted: RunFilter) -> QuerySet[Run]:
    """The rows that the filter lets through."""
    if wanted.status:
        rows = rows.filter(status__in=wanted.status)
    if wanted.agent:
        rows = rows.filter(agent__in=wanted.agent)
    if wanted.business_ref:
        rows = rows.filter(business_ref=wanted.business_ref)
    if wanted.started_from:
        rows = rows.filter(started_at__gte=wanted.started_from)
    if wanted.started_to:
        # No run is started before it is created: so the list's own order, too, can begin at the right place.
        rows = rows.filter(started_at__lt=wanted.started_to, created_at__lt=wanted.started_to)
    if wanted.cancelled_by:
        rows = rows.filter(pk__in=stopped_by(actor, wanted.cancelled_by))
    return rows.filter(Q(*_named(wanted.q.strip()), _connector=Q.OR)) if wanted.q.strip() else rows


def stopped_by(actor: Actor, who: str) -> QuerySet[Any]:
    """The ids of the runs that somebody stopped, each once."""
    accepted = CancelRequest.objects.filter(answer="accepted")
    first, *others = (accepted.filter(asked).values("run").distinct() for asked in _asked_by(actor, who))
    return first.union(*others)


def _asked_by(actor: Actor, who: str) -> list[tuple[str, str]]:
    """What the requests of somebody say: their id, or the name that they had. Each has an index in the order of a list of runs."""
    return [("actor_id", actor.id)] if who == "me" else [("actor_id", who), ("actor_name__iexact", who)]


def _stopped_by(rows: QuerySet[Run], asked: tuple[str, str]) -> QuerySet[Run]:
    """Those of the rows that have such a request which was accepted, each once, with their place in a list as its index says it."""
    name, value = asked
    theirs = rows.filter(**{f"cancel_requests__{name}": value, "cancel_requests__answer": "accepted"})
    placed = theirs.annotate(listed_at=F("cancel_requests__run_created_at"), listed_id=F("cancel_requests__run"))
    return placed.distinct("listed_at", "listed_id")


def _named(text: str) -> list[Q]:
    """A reference or id means exactly that run; anything else is the start of a business reference or a provider's id: any of these.

    The effects are reached by the name of their relation, because this app does not know theirs.
    """
    if pk := parse_uuid(text):
        return [Q(pk__in=[pk, *dict(_of_effects(operation_id=pk))])]
    if ref := parse_ref(text, "R"):
        return [Q(ref=ref)]
    if ref := parse_ref(text, "E"):
        return [Q(pk__in=dict(_of_effects(ref=ref)))]
    acted = _of_effects(external_id=text) + _of_effects(business_ref__startswith=text)
    elsewhere = [pk for pk, own in acted if not own.startswith(text)]
    return [Q(business_ref__startswith=text), *([Q(OneOf("pk", elsewhere, UUIDField()))] if elsewhere else [])]


def _sorted(named: Q) -> Combinable:
    """The time to sort such runs by. Unless very many are named so, they are collected, however long ago the newest of them was: then
    what they are sorted by is no index of the table, which might have to be gone through nearly whole to meet them."""
    found = Run.objects.filter(named).values_list("pk")[:MANY].count()
    return F("created_at") + timedelta(0) if found < MANY else F("created_at")


def _of_effects(**named: Any) -> list[tuple[uuid.UUID, str]]:
    """Runs with such an effect: the id and the business reference of each."""
    effects = {f"effects__{name}": value for name, value in named.items()}
    return list(Run.objects.filter(**effects).values_list("pk", "business_ref")[:NAMED_ELSEWHERE_MAX])


def events_of(run: Run, after: int = 0, limit: int = 200) -> tuple[list[Event], int | None]:
    """The events of a run after seq `after`, in order, and the seq to go on from (None at the end)."""
    events = list(Event.objects.filter(run=run, seq__gt=after).order_by("seq")[: limit + 1])
    return events[:limit], events[limit - 1].seq if len(events) > limit else None


# Keyset pages


def page(rows: QuerySet[M], time_field: str, id_field: str, cursor: str | None, limit: int) -> Page[M]:
    """A page of rows, newest first by (time, id). Raises `Invalid` for a cursor that is not one of ours."""
    return page_of([rows], time_field, id_field, cursor, limit)


@planned_by_value()
def page_of(
    several: list[QuerySet[M]], time_field: str, id_field: str, cursor: str | None, limit: int, keys_first: bool = False
) -> Page[M]:
    """A page of the rows that are in any of several lists; as `page`. `keys_first`: where their keys are sorted in the index that finds
    them, so that only those of the page are read."""
    backwards, key = read_cursor(cursor) if cursor else (False, None)
    order = (time_field, id_field) if backwards else (f"-{time_field}", f"-{id_field}")
    beyond = Q() if key is None else _beyond(time_field, id_field, key, backwards)
    merged: dict[uuid.UUID, M] = {}
    for rows in several:
        found = rows.filter(beyond).order_by(*order)
        found = rows.filter(pk__in=found.values("pk")[: limit + 1]) if keys_first else found[: limit + 1]
        merged |= {row.pk: row for row in found}

    def place(row: M) -> tuple[datetime, uuid.UUID]:
        return getattr(row, time_field), getattr(row, id_field)

    items = sorted(merged.values(), key=place, reverse=not backwards)
    more, items = len(items) > limit, items[:limit]
    if backwards:
        items.reverse()
    after = items and (more or backwards)
    before = items and (more if backwards else cursor is not None)
    return Page(items, make_cursor(False, *place(items[-1])) if after else None, make_cursor(True, *place(items[0])) if before else None)


def _beyond(time_field: str, id_field: str, key: tuple[datetime, uuid.UUID], backwards: bool) -> Q:
    sign = "gt" if backwards else "lt"
    at, pk = key
    # The first condition alone lets the index start at the right place; the second decides between equal times.
    return Q(**{f"{time_field}__{sign}e": at}) & (Q(**{f"{time_field}__{sign}": at}) | Q(**{f"{id_field}__{sign}": pk}))


def make_cursor(backwards: bool, at: datetime, pk: uuid.UUID) -> str:
    """An opaque text for a place in a list."""
    raw = json.dumps([int(backwards), at.isoformat(), str(pk)], separators=(",", ":"))
    return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")


def read_cursor(text: str) -> tuple[bool, tuple[datetime, uuid.UUID]]:
    """The place that a cursor stands for. Raises `Invalid`."""
    try:
        backwards, at, pk = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None:
            raise ValueError("no offset")
        return bool(backwards), (moment, uuid.UUID(pk))
    except (ValueError, TypeError, AttributeError, binascii.Error):
        raise Invalid("cursor: send the `next` or `previous` of a page, unchanged.", field="cursor") from None
