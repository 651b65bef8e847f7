"""Reading runs: who may see which, filters, and pages by keyset. Never counts, never skips rows, never changes anything."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.db.models import Model, OuterRef, Q, QuerySet, Subquery, UUIDField, Value
from django.db.models.lookups import Exact

from runs import actors
from runs.actors import ANY_AGENT, Actor
from runs.errors import Invalid, NotAllowed, NotFound
from runs.ids import parse_ref, parse_uuid
from runs.models import CancelRequest, Event, Run
from runs.planning import FEW, OneOf, planned_by_value

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
    return page(narrow(actor, readable(actor, Run.objects.all()), wanted), "created_at", "id", cursor, limit)


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
        rows = rows.filter(_cancelled_by(actor, wanted.cancelled_by), cancel_position__isnull=False)
    return rows.filter(_named(wanted.q.strip())) if wanted.q.strip() else rows


def _cancelled_by(actor: Actor, who: str) -> Q:
    """Runs with a request of theirs that was accepted: those themselves while they are few, else whichever has one, asked of each."""
    asked = Q(actor_id=actor.id) if who == "me" else Q(actor_id=who) | Q(actor_name__iexact=who)
    requests = CancelRequest.objects.filter(asked, answer="accepted")
    ids = list(requests.values_list("run", flat=True)[: FEW + 1])
    if len(ids) <= FEW:
        return Q(OneOf("pk", ids, UUIDField()))
    one = requests.filter(run=OuterRef("pk")).values(one=Value(1))[:1]
    return Q(Exact(Subquery(one), 1))  # as an EXISTS it would be turned into a join from all of their requests


def _named(text: str) -> Q:
    """A reference or id means exactly that run; anything else is the start of a business reference or a provider's id.

    The effects are reached by the name of their relation, because this app does not know theirs.
    """
    if pk := parse_uuid(text):
        return Q(pk=pk) | Q(pk__in=_of_effects(operation_id=pk))
    if ref := parse_ref(text, "R"):
        return Q(ref=ref)
    if ref := parse_ref(text, "E"):
        return Q(pk__in=_of_effects(ref=ref))
    elsewhere = [*_of_effects(external_id=text), *_of_effects(business_ref__startswith=text)]
    ids = list(Run.objects.filter(business_ref__startswith=text).values_list("pk", flat=True)[: FEW + 1])
    if len(ids) <= FEW:
        return Q(OneOf("pk", ids + elsewhere, UUIDField()))
    return Q(business_ref__startswith=text) | Q(OneOf("pk", elsewhere, UUIDField()))


def _of_effects(**named: Any) -> list[uuid.UUID]:
    effects = {f"effects__{name}": value for name, value in named.items()}
    return list(Run.objects.filter(**effects).values_list("pk", flat=True)[:NAMED_ELSEWHERE_MAX])


def events_of(run: Run, after: int = 0, limit: int = 200) -> tuple[list[Event], int | None]:
    """The events of a run after seq `after`, in order, and the seq to go on from (None at the end)."""
    events = list(Event.objects.filter(run=run, seq__gt=after).order_by("seq")[: limit + 1])
    return events[:limit], events[limit - 1].seq if len(events) > limit else None


# Keyset pages


@planned_by_value()
def page(rows: QuerySet[M], time_field: str, id_field: str, cursor: str | None, limit: int) -> Page[M]:
    """A page of rows, newest first by (time, id). Raises `Invalid` for a cursor that is not one of ours."""
    backwards, key = read_cursor(cursor) if cursor else (False, None)
    order = (time_field, id_field) if backwards else (f"-{time_field}", f"-{id_field}")
    if key is not None:
        rows = rows.filter(_beyond(time_field, id_field, key, backwards))
    found = list(rows.order_by(*order)[: limit + 1])
    more, items = len(found) > limit, found[:limit]
    if backwards:
        items.reverse()
    after = items and (more or backwards)
    before = items and (more if backwards else cursor is not None)

    def at(row: M, direction: bool) -> str:
        return make_cursor(direction, getattr(row, time_field), getattr(row, id_field))

    return Page(items, at(items[-1], False) if after else None, at(items[0], True) if before else None)


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
