"""The real `Source`: reads with the pages' own functions and renders the pages' own partials, so that a push looks like a reload.

Its threads are few and its own, so that a crowd of pages cannot take the connections of everybody else.
"""

from __future__ import annotations

import asyncio
import uuid
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from channels.db import database_sync_to_async
from django.http import QueryDict

from console.live import who as people
from console.live.source import Parts, Slice
from console.live.together import Together
from console.live.who import Who
from console.live.wire import Fragment, Watch, fragment, timeline_item
from console.pages import fragments
from ledger import undo_pages
from ledger.models import Compensation
from reconciliation import queue as case_pages
from reconciliation.models import Case
from runs import actors, asking, family, listing, pages, queries
from runs.actors import Actor
from runs.errors import Invalid
from runs.models import Approval, Run
from runs.planning import planned_by_value

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 3
TIMELINE_MAX = 100  # items at once
NEW_MAX = 1000
EVERYBODY = actors.system("live")
_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="live")


def in_a_live_thread(read: Callable[P, T]) -> Callable[P, Awaitable[T]]:
    return database_sync_to_async(read, thread_sensitive=False, executor=_threads)


class Database:
    """Implements `console.live.source.Source`. When a crowd comes back at once, its questions are asked together."""

    def __init__(self) -> None:
        self._who = Together(in_a_live_thread(people.look))
        self._versions = {kind: Together(in_a_live_thread(read)) for kind, read in _VERSIONS.items()}
        self._pages = asyncio.Semaphore(1)

    async def who(self, sessions: Collection[str]) -> dict[str, Who]:
        return await self._who.get(sessions)

    async def versions(self, kind: str, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
        return await self._versions[kind].get(ids) if kind in self._versions else {}

    async def render(self, kind: str, ids: list[uuid.UUID]) -> Mapping[uuid.UUID, Any]:
        if kind in _ROWS:
            return await in_a_live_thread(_ROWS[kind])(ids)
        async with self._pages:  # whole pages take long: one at a time, so that rows and the loop get their turn
            return await in_a_live_thread(_PAGES[kind])(ids)

    async def timeline(self, run: uuid.UUID, after: int) -> Slice:
        return await in_a_live_thread(_timeline)(run, after)

    async def matching(self, actor: Actor, watch: Watch, ids: Collection[uuid.UUID]) -> set[uuid.UUID] | None:
        return await in_a_live_thread(_matching)(actor, watch, ids)

    async def newer(self, actor: Actor, watch: Watch, marks: Collection[str]) -> dict[str, int]:
        return await in_a_live_thread(_newer)(actor, watch, marks)

    async def listed(self, actor: Actor, watch: Watch) -> set[uuid.UUID]:
        return await in_a_live_thread(_listed)(actor, watch)

    async def counts(self) -> dict[str, dict[str, Any]]:
        return await in_a_live_thread(_counts)()


def _versions(model: type[Run] | type[Case], ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
    return dict(model.objects.filter(pk__in=list(ids)).values_list("pk", "version"))


def _inbox_versions(ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Whatever changes on a card is an event of its run, so its version is the run's."""
    found: dict[uuid.UUID, int] = {}
    for model in (Approval, Compensation):
        found |= dict(model.objects.filter(pk__in=list(ids)).values_list("pk", "run__version"))  # type: ignore[attr-defined]
    return found


_VERSIONS: Mapping[str, Callable[[Collection[uuid.UUID]], Mapping[uuid.UUID, int]]] = {
    "runs": partial(_versions, Run),
    "cases": partial(_versions, Case),
    "approvals": _inbox_versions,
}


def _run_rows(ids: list[uuid.UUID]) -> dict[uuid.UUID, Fragment]:
    return {pk: fragment(f"row-{pk}", run.version, fragments.row_html(run)) for pk, run in pages.by_id(ids).items()}


def _case_rows(ids: list[uuid.UUID]) -> dict[uuid.UUID, Fragment]:
    found = Case.objects.select_related("run", "effect__run").filter(pk__in=ids)
    return {case.pk: fragment(f"row-{case.pk}", case.version, fragments.case_row_html(case)) for case in found}


def _inbox_cards(ids: list[uuid.UUID]) -> dict[uuid.UUID, Fragment]:
    asked = {one.pk: (one.run, fragments.approval_card_html(one)) for one in Approval.objects.select_related("run").filter(pk__in=ids)}
    undos = {one.pk: (one.run, fragments.undo_card_html(one)) for one in undo_pages.by_id(ids)}
    return {pk: fragment(f"row-{pk}", run.version, html) for pk, (run, html) in (asked | undos).items()}


def _case_parts(ids: list[uuid.UUID]) -> dict[uuid.UUID, Parts]:
    found = Case.objects.select_related("run", "effect__run").filter(pk__in=ids)
    return {case.pk: Parts(case.version, tuple(_of_case(case))) for case in found}


def _of_case(case: Case) -> Iterator[Fragment]:
    yield fragment("case-head", case.version, fragments.case_head_html(case))
    yield fragment("case-known", case.version, fragments.case_known_html(case))


def _run_parts(ids: list[uuid.UUID]) -> dict[uuid.UUID, Parts]:
    return {pk: _parts(run) for pk, run in pages.by_id(ids).items()}


def _parts(run: Run) -> Parts:
    """The version is the one that was read first: what is rendered may be newer, never older."""
    below = family.below(run)
    htmls = {
        "run-head": fragments.head_html(run),
        "run-receipt": fragments.receipt_html(run),
        **fragments.outside_html(run, below),
        "run-children": fragments.children_html(run, below),
    }
    return Parts(run.version, tuple(fragment(name, run.version, html) for name, html in htmls.items()), below.ids, run.in_doubt > 0)


Render = Callable[[list[uuid.UUID]], Mapping[uuid.UUID, Any]]
_ROWS: Mapping[str, Render] = {"runs": _run_rows, "cases": _case_rows, "approvals": _inbox_cards}
_PAGES: Mapping[str, Render] = {"run": _run_parts, "case": _case_parts}


def _timeline(pk: uuid.UUID, after: int) -> Slice:
    run = Run.objects.filter(pk=pk).first()
    if run is None:
        return Slice((), after, False)
    events, more = queries.events_of(run, after, TIMELINE_MAX)
    items = fragments.timeline_items_html(run, events)
    through = events[-1].seq if events and events[-1].seq else after
    return Slice(tuple(timeline_item(seq, html) for seq, html in items), through, more is not None)


def _wanted(watch: Watch) -> listing.Wanted | None:
    """What the page's own query asks for; None when it is not one of ours, or no list of runs."""
    try:
        return listing.read(QueryDict(watch.query)) if watch.kind == "runs" else None
    except Invalid:
        return None


@planned_by_value()
def _matching(actor: Actor, watch: Watch, ids: Collection[uuid.UUID]) -> set[uuid.UUID] | None:
    if watch.kind == "cases" and watch.case is None:
        tab = QueryDict(watch.query).get("tab", "unclaimed")
        return set(case_pages.find(actor, tab).filter(pk__in=list(ids)).values_list("pk", flat=True))
    if watch.kind == "approvals":
        return _listed(actor, watch) & set(ids)
    wanted = _wanted(watch)
    return listing.matching(actor, wanted, ids) if wanted is not None and wanted.narrows else None


@planned_by_value()
def _newer(actor: Actor, watch: Watch, marks: Collection[str]) -> dict[str, int]:
    """One query for all marks: the newest rows of the list, in which each mark has its place."""
    wanted, places = _wanted(watch), {}
    for mark in marks:
        try:
            places[mark] = queries.read_cursor(mark)[1]
        except Invalid:
            continue
    if wanted is None or not places:
        return {}
    rows = listing.rows(actor, wanted).filter(created_at__gte=min(places.values())[0])
    newest = sorted(rows.order_by("-created_at", "-id").values_list("created_at", "id")[:NEW_MAX])
    return {mark: len(newest) - bisect_right(newest, place) for mark, place in places.items()}


def _listed(actor: Actor, watch: Watch) -> set[uuid.UUID]:
    tab = QueryDict(watch.query).get("tab", "to_decide")
    asked, undos = asking.find(tab)[: asking.SHOWN_MAX], undo_pages.find(tab, actor)[: undo_pages.SHOWN_MAX]
    return {one.pk for one in asked} | {one.pk for one in undos}


def _counts() -> dict[str, dict[str, Any]]:
    asked = Approval.objects.filter(state="requested").order_by()[:100].count() + undo_pages.open_count()
    return {"nav": {"cases": case_pages.open_count(), "approvals": asked}, "runs": listing.counts(EVERYBODY)}
