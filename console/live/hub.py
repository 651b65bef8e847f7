"""From the tail to the pages of this process: what has changed is rendered once and sent to whoever shows it.

A page joins before it is compared with the database, so that nothing falls between the comparison and following. Whatever changes
during one round of rendering goes into the next. It decides nothing about runs.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any

from console.live import wire
from console.live.audience import Audience
from console.live.changes import ALL_CASES, ALL_INBOXES, RUN, Changes, What
from console.live.comparing import differences
from console.live.database import Database
from console.live.page import Page, Viewer
from console.live.pulse import Pulse
from console.live.shelf import ALWAYS, Shelf
from console.live.source import Parts, Slice, Source, filter_key
from console.live.wire import Fragment, Watch
from runs.tail import GAP, Seen, Tail, tail

log = logging.getLogger(__name__)

PACE_S = 0.02  # between two rounds, so that a storm of events becomes few frames
RETRY_S = 0.5
_ONLY_TIMELINE = frozenset({"step.started", "step.finished"})  # half of all events; no other part of a run's page tells of them
_GIVES_NOTHING_AWAY = frozenset(
    f"people.{what}" for what in ("signed_in", "sign_in_failed", "proved", "created", "password_link_made", "profile_changed")
)


class Hub:
    """The pages of one process and one event loop. It works only while there are any."""

    def __init__(self, tail: Tail, source: Source) -> None:
        self.source = source
        self.shelf = Shelf(source.render)
        self.audience = Audience()
        self.pulse = Pulse(tail, source, self.audience)
        self._tail = tail
        self._rows = Changes()
        self._pages = Changes()
        self._whole: set[uuid.UUID] = set()
        self._parents: dict[uuid.UUID, uuid.UUID] = {}
        self._tasks: list[asyncio.Task[None]] = []

    # Joining and leaving ----------------------------------------------------------------------------------------------

    async def enter(self, viewer: Viewer) -> None:
        """From now on the viewer is told what concerns everybody, and is ended when it may not look any more."""
        self.audience.viewers.add(viewer)
        if not self._tasks:
            listening = asyncio.Event()
            senders = (self._send_for_ever(self._rows, self._send_list), self._send_for_ever(self._pages, self._send_pages))
            works = (self._listen(listening), *senders, *self.pulse.works())
            self._tasks = [asyncio.create_task(work) for work in works]
            await listening.wait()

    def leave(self, viewer: Viewer) -> None:
        self.audience.forget(viewer)
        self.audience.viewers.discard(viewer)
        if not self.audience.viewers:
            for task in self._tasks:
                task.cancel()
            self._tasks = []
            self._rows.clear()
            self._pages.clear()
            self._parents.clear()

    async def show(self, viewer: Viewer, watch: Watch) -> AsyncIterator[str]:
        """Replace what the viewer shows: joins, then gives the frames that bring the page up to date, ending with `synced`."""
        page = self.audience.show(viewer, watch)
        async for frame in differences(page, viewer.who.actor, self.source, self.shelf):
            yield frame
        if watch.run is not None:
            self._mind_children(watch.run)
        yield await self.pulse.counts()
        yield self.pulse.beat()
        yield wire.SYNCED

    def _mind_children(self, run: uuid.UUID) -> None:
        parts: Parts | None = self.shelf.peek("run", run)
        unminded = {child for child in parts.children if child not in self._parents} if parts else set()
        if unminded:
            self._parents |= dict.fromkeys(unminded, run)
            self._touch_page(run, ALWAYS)  # for what they did before they were minded

    # Listening --------------------------------------------------------------------------------------------------------

    async def _listen(self, listening: asyncio.Event) -> None:
        async with self._tail.subscribe() as queue:
            listening.set()
            while True:
                self._note(await queue.get())

    def _note(self, event: Seen) -> None:
        if event is GAP:
            self._missed()
            return
        self.pulse.note(created=event.kind == "run.created")
        if event.run_id is None:
            if event.kind.startswith("people.") and event.kind not in _GIVES_NOTHING_AWAY:
                self.pulse.recheck()
        else:
            self._note_run(event.run_id, event.seq or 0, event.kind)
        if self.audience.cases and (event.run_id is not None or event.kind.startswith("case.")):
            self._pages.touch(ALL_CASES, 0)
        if self.audience.inboxes and event.run_id is not None and event.kind not in _ONLY_TIMELINE:
            self._pages.touch(ALL_INBOXES, 0)

    def _note_run(self, run: uuid.UUID, seq: int, kind: str) -> None:
        if self.audience.has_row(run):
            self._rows.touch((RUN, run), seq)
        if self.audience.has_run(run):
            self._touch_page(run, seq, whole=kind not in _ONLY_TIMELINE)
        parent = self._parents.get(run)
        if parent is not None:
            if self.audience.has_run(parent):
                self._touch_page(parent, ALWAYS)
            else:
                del self._parents[run]

    def _touch_page(self, run: uuid.UUID, version: int, whole: bool = True) -> None:
        if whole:
            self._whole.add(run)
        self._pages.touch((RUN, run), version)

    def _missed(self) -> None:
        self.pulse.note(created=True)
        self.pulse.recheck()
        for viewer, page in self.audience.pages():
            page.overflow()
            viewer.woken.set()

    # Sending what has changed -----------------------------------------------------------------------------------------

    async def _send_for_ever(self, changes: Changes, send: Callable[[Mapping[What, int]], Awaitable[None]]) -> None:
        while True:
            due = await changes.take()
            try:
                await send(due)
            except Exception:
                log.exception("changes could not be shown; they are tried again")
                self._whole.update(run for _, run in due if run is not None)
                for what, version in due.items():
                    changes.touch(what, version, RETRY_S)
            await asyncio.sleep(PACE_S)

    async def _send_list(self, due: Mapping[What, int]) -> None:
        await self._send_rows("runs", {run: version for (_, run), version in due.items() if run is not None})

    async def _send_pages(self, due: Mapping[What, int]) -> None:
        works = [self._send_run(run, version) for (_, run), version in due.items() if run is not None]
        if ALL_CASES in due:
            works.append(self._send_cases())
        if ALL_INBOXES in due:
            works.append(self._send_inboxes())
        await asyncio.gather(*works)

    async def _send_rows(self, kind: str, wanted: Mapping[uuid.UUID, int]) -> None:
        found: dict[uuid.UUID, Fragment] = await self.shelf.get(kind, wanted)
        viewers = self.audience.of_rows(found)
        matching = await self._matching(viewers, list(found))
        said = {one: (fragment.matching(False), fragment.matching(True)) for one, fragment in found.items()} if matching else {}
        for viewer in viewers:
            if viewer.page is None or viewer.page.watch.kind != kind:
                continue
            page, belongs = viewer.page, matching.get(filter_key(viewer.who.actor, viewer.page.watch))
            mine = [one for one in found if one in page.rows]
            page.offer([found[one] if belongs is None else said[one][one in belongs] for one in mine])
            viewer.woken.set()

    async def _matching(self, viewers: Iterable[Viewer], ids: list[uuid.UUID]) -> dict[Any, set[uuid.UUID] | None]:
        """For each different list, which of these rows belong to it; lists without a filter are left out."""
        lists = {filter_key(v.who.actor, v.page.watch): (v.who.actor, v.page.watch) for v in viewers if v.page is not None}
        asked = {key: (actor, watch) for key, (actor, watch) in lists.items() if watch.query}
        return {key: await self.source.matching(actor, watch, ids) for key, (actor, watch) in asked.items()}

    async def _send_run(self, run: uuid.UUID, version: int) -> None:
        whole = run in self._whole
        self._whole.discard(run)
        parts: Parts | None = (await self.shelf.get("run", {run: version})).get(run) if whole else None
        if parts is not None:
            self._parents |= dict.fromkeys(parts.children, run)
        slices: dict[int, Slice] = {}
        for viewer, page in self.audience.of_run(run):
            after = page.queued_seq
            if after not in slices:
                slices[after] = await self.source.timeline(run, after)
            page.offer(parts.fragments if parts else ())
            page.offer_timeline(slices[after].items, slices[after].through)
            viewer.woken.set()
        if any(part.more for part in slices.values()):
            self._touch_page(run, 0, whole=False)

    async def _send_cases(self) -> None:
        pages = [(viewer, viewer.page) for viewer in self.audience.cases if viewer.page is not None]
        await self._send_moved("cases", [page for _, page in pages])
        asked = {page.watch.case: ALWAYS for _, page in pages if page.watch.case is not None}
        parts: dict[uuid.UUID | None, Parts] = await self.shelf.get("case", asked)
        for viewer, page in pages:
            case = parts.get(page.watch.case)
            if case is not None and case.fragments != page.case_shown:
                page.case_shown = case.fragments
                page.offer(case.fragments)
                viewer.woken.set()

    async def _send_inboxes(self) -> None:
        pages = [(viewer, viewer.page) for viewer in self.audience.inboxes if viewer.page is not None]
        await self._send_moved("approvals", [page for _, page in pages])
        lists = {filter_key(viewer.who.actor, page.watch): (viewer.who.actor, page.watch) for viewer, page in pages}
        listed = {key: await self.source.listed(actor, watch) for key, (actor, watch) in lists.items()}
        for viewer, page in pages:
            page.offer_new(page.unseen(listed[filter_key(viewer.who.actor, page.watch)]))
            viewer.woken.set()

    async def _send_moved(self, kind: str, pages: list[Page]) -> None:
        """The rows of these pages that are newer in the database: for kinds of which the tail does not name each row that changes."""
        shown = {row for page in pages for row in page.rows}
        now = await self.source.versions(kind, shown) if shown else {}
        moved = {row: version for page in pages for row in page.rows if (version := now.get(row, 0)) > page.rows[row]}
        if moved:
            await self._send_rows(kind, moved)


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def of_this_process() -> Hub:
    """The hub of the running loop, which follows the process's own tail."""
    loop = asyncio.get_running_loop()
    if loop not in _hubs:
        _hubs.clear()  # a loop that is closed has no pages
        _hubs[loop] = Hub(tail, Database())
    return _hubs[loop]


def connected() -> int:
    """How many pages are connected to this process; from any thread."""
    return sum(len(hub.audience.viewers) for hub in list(_hubs.values()))
