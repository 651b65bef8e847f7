"""The list of runs as its address says it: which runs, how many of each kind, what is new, which still belong. It only reads.

Counts are capped or estimated and never walk a whole table.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.db.models import Q, QuerySet
from django.http import QueryDict

from runs import local_times, queries, states, transition
from runs.actors import Actor
from runs.errors import Invalid
from runs.models import Run
from runs.parsing import check_text
from runs.planning import COUNT_ALLOWED_MS, TooLong, planned_by_value, within
from runs.queries import Page, RunFilter, make_cursor, read_cursor
from runs.vocabulary import RUN_CHIPS

SIZES = (25, 50, 100)
COUNT_MAX = 10_000
AGENTS_MAX = 100
UNRESOLVED = tuple(f"{state}_{states.UNRESOLVED}" for state in sorted(states.CLOSED))
_NEEDS_PERSON = Q(status__in=UNRESOLVED) | Q(closed_at__isnull=True, needs_person__gt=0)
_UNSETTLED = tuple(f"{state}_{tail}" for state in sorted(states.CLOSED) for tail in (states.PENDING, states.UNRESOLVED))
# The first condition follows from the second, and is the one that has indexes.
_DOUBTFUL = (Q(status__in=_UNSETTLED) | Q(closed_at__isnull=True)) & (Q(in_doubt__gt=0) | Q(unknowable__gt=0))


@dataclass(frozen=True)
class Wanted:
    """What the address asks for. `person`: only runs that need one; `doubtful`: only runs with unknown effects."""

    filter: RunFilter = RunFilter()
    doubtful: bool = False
    person: bool = False

    @property
    def narrows(self) -> bool:
        return self != Wanted()


def read(params: QueryDict) -> Wanted:
    """What a query string asks for; unknown parameters are left alone. Raises `Invalid`."""
    check_text({name: values for name, values in params.lists()})
    unknown = [word for word in params.getlist("status") if word not in states.STATUSES]
    if unknown:
        raise Invalid(f"status: {unknown[0][:60]!r} is no state of a run.", field="status")
    return Wanted(
        RunFilter(
            status=tuple(params.getlist("status")),
            agent=tuple(filter(None, params.getlist("agent"))),
            q=params.get("q", "").strip()[:200],
            started_from=local_times.read(params.dict(), "started_from"),
            started_to=local_times.read(params.dict(), "started_to", latest=True),
            cancelled_by=params.get("cancelled_by", "").strip()[:200],
        ),
        doubtful=params.get("doubtful") == "1",
        person=params.get("person") == "1",
    )


def rows(actor: Actor, wanted: Wanted) -> QuerySet[Run]:
    """The runs that are wanted and that the actor may read. Raises `NotAllowed`."""
    return queries.narrow(actor, _marked(actor, wanted), wanted.filter)


def _marked(actor: Actor, wanted: Wanted) -> QuerySet[Run]:
    """Those that the actor may read, narrowed by what only this list knows."""
    found = queries.readable(actor, Run.objects.all())
    if wanted.doubtful:
        found = found.filter(_DOUBTFUL)
    return found.filter(_NEEDS_PERSON) if wanted.person else found


def page(actor: Actor, wanted: Wanted, cursor: str | None, size: int) -> Page[Run]:
    """A page of them, newest first. Raises `Invalid` for a cursor that is not ours."""
    return queries.page_of_runs(actor, _marked(actor, wanted), wanted.filter, cursor, size)


def matching(actor: Actor, wanted: Wanted, ids: Iterable[uuid.UUID]) -> set[uuid.UUID]:
    """Which of these runs still belong to the list."""
    return set(rows(actor, wanted).filter(pk__in=list(ids)).values_list("pk", flat=True))


def newest_mark(page: Page[Run]) -> str:
    """An opaque mark of the newest row of a first page, by which later ones are counted."""
    first = page.items[0] if page.items else None
    return make_cursor(True, first.created_at if first else transition.clock(), first.pk if first else uuid.UUID(int=0))


def newer(actor: Actor, wanted: Wanted, mark: str, most: int = 1000) -> int:
    """How many runs of the list are newer than the mark, `most` at most. Raises `Invalid` for a mark that is not ours."""
    _, (at, pk) = read_cursor(mark)
    beyond = Q(created_at__gte=at) & (Q(created_at__gt=at) | Q(pk__gt=pk))
    return _count(rows(actor, wanted).filter(beyond), most)


# Counts


def _to_count(actor: Actor, wanted: Wanted) -> QuerySet[Any]:
    """As many rows as the list has. Whose runs can all be read are counted without looking at the runs."""
    who = wanted.filter.cancelled_by
    if actor.is_person and who and wanted == Wanted(RunFilter(cancelled_by=who)):
        return queries.stopped_by(actor, who)
    return rows(actor, wanted)


@planned_by_value()
def _count(found: QuerySet[Any], most: int = COUNT_MAX + 1) -> int:
    return found.order_by()[:most].count()


def capped(number: int) -> int | str:
    """The number, or `10,000+`."""
    return f"{COUNT_MAX:,}+" if number > COUNT_MAX else number


STRIP: tuple[tuple[str, str, Q, dict[str, Any]], ...] = (
    ("needs_person", "Needs a person", _NEEDS_PERSON, {"person": "1"}),
    ("cancelling", "Cancelling", Q(status="cancelling", closed_at__isnull=True), {"status": ["cancelling"]}),
    ("running", "Running", Q(status__in=["running", "writing"], closed_at__isnull=True), {"status": ["running", "writing"]}),
    (
        "waiting",
        "Waiting",
        Q(status__in=["scheduled", "awaiting_approval", "awaiting_evidence"], closed_at__isnull=True),
        {"status": ["scheduled", "awaiting_approval", "awaiting_evidence"]},
    ),
)


def counts(actor: Actor) -> dict[str, int | str]:
    """How many runs stand in each group of the strip, capped."""
    found = queries.readable(actor, Run.objects.all())
    return {key: capped(_count(found.filter(which))) for key, _, which, _ in STRIP}


def strip(actor: Actor, params: QueryDict, path: str = "/runs/") -> list[dict[str, Any]]:
    """The counts as links to the runs that they count."""
    counted = counts(actor)
    asked = read(params)
    return [
        {
            "key": key,
            "label": label,
            "count": counted[key],
            "url": f"{path}?{urlencode(query, doseq=True)}",
            "current": asked == read(_query(query)),
            "person": key == "needs_person",
        }
        for key, label, _, query in STRIP
    ]


def _query(values: dict[str, Any]) -> QueryDict:
    return QueryDict(urlencode(values, doseq=True))


def count_text(actor: Actor, wanted: Wanted, shown: Page[Run], place: str | None = None) -> str:
    """How many there are: exact up to 10,000, beyond that an estimate of the whole table or `10,000+`; `many` when counting takes long.
    A list that is whole on the page shown (at `place`) needs no counting; a later page that is empty may be one that its runs left."""
    if shown.next is None and shown.previous is None and (shown.items or not place):
        return _runs(len(shown.items))
    try:
        with within(COUNT_ALLOWED_MS) if wanted.narrows else nullcontext():
            number = _count(_to_count(actor, wanted))
    except TooLong:
        return "many runs"
    if number <= COUNT_MAX:
        return _runs(number)
    if wanted.narrows:
        return f"{COUNT_MAX:,}+ runs"
    with connection.cursor() as cursor:
        cursor.execute("SELECT greatest(reltuples, %s)::bigint FROM pg_class WHERE oid = 'runs_run'::regclass", (COUNT_MAX,))
        return f"about {cursor.fetchone()[0]:,} runs"


def _runs(number: int) -> str:
    return f"{number:,} run{'' if number == 1 else 's'}"


_AGENTS = """
WITH RECURSIVE found AS (
    (SELECT agent FROM runs_run ORDER BY agent LIMIT 1)
    UNION ALL
    SELECT (SELECT r.agent FROM runs_run r WHERE r.agent > found.agent ORDER BY r.agent LIMIT 1) FROM found WHERE found.agent IS NOT NULL
)
SELECT agent FROM found WHERE agent IS NOT NULL LIMIT %s
"""


def agents() -> list[str]:
    """The agents that ever had a run, by hopping along the index (a DISTINCT would read every row)."""
    with connection.cursor() as cursor:
        cursor.execute(_AGENTS, (AGENTS_MAX,))
        return [row[0] for row in cursor.fetchall()]


# The form


def form(wanted: Wanted, zone: str) -> dict[str, Any]:
    """The context of the filter form; its times are those of the reader's zone."""
    asked = wanted.filter
    started_from, started_to, zone = local_times.fields(asked.started_from, asked.started_to, zone)
    return {
        "q": asked.q,
        "agent": asked.agent[0] if asked.agent else "",
        "agents": agents(),
        "statuses": [{"value": word, "label": _label(word), "on": word in asked.status} for word in states.STATUSES],
        "started_from": started_from,
        "started_to": started_to,
        "zone": zone,
        "cancelled_by": asked.cancelled_by,
        "doubtful": wanted.doubtful,
        "open": False,
    }


def _label(status: str) -> str:
    return RUN_CHIPS[status].text


def applied(params: QueryDict, wanted: Wanted, zone: str, path: str = "/runs/") -> list[dict[str, str]]:
    """Each filter that is on, its times in the reader's zone, with the address without it."""
    asked = wanted.filter
    tokens = [("status", word, _label(word)) for word in asked.status]
    tokens += [("agent", word, f"agent {word}") for word in asked.agent]
    tokens += [("q", asked.q, f"“{asked.q}”")] if asked.q else []
    tokens += [("started_from", "", f"from {local_times.words(asked.started_from, zone)}")] if asked.started_from else []
    tokens += [("started_to", "", f"until {local_times.words(asked.started_to, zone)}")] if asked.started_to else []
    tokens += [("cancelled_by", "", f"cancel asked by {asked.cancelled_by}")] if asked.cancelled_by else []
    tokens += [("doubtful", "", "has unknown effects")] if wanted.doubtful else []
    tokens += [("person", "", "needs a person")] if wanted.person else []
    return [{"label": label, "url": path + _without(params, name, word)} for name, word, label in tokens]


def _without(params: QueryDict, name: str, word: str) -> str:
    left = params.copy()
    for gone in ("cursor", "before", "after"):
        left.pop(gone, None)
    kept = [value for value in left.getlist(name) if word and value != word] if name in ("status", "agent") else []
    left.setlist(name, kept)
    text = left.urlencode()
    return f"?{text}" if text else ""
