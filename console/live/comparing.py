"""The answer to a `watch`: the page is compared with the database and sent what differs. The same for a socket and for polling."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator

from console.live import wire
from console.live.page import Page
from console.live.shelf import ALWAYS, Shelf
from console.live.source import Parts, Source
from console.live.wire import Fragment
from runs.actors import Actor


async def differences(page: Page, actor: Actor, source: Source, shelf: Shelf) -> AsyncIterator[str]:
    """Frames that bring the page up to date. What is committed after the first query may or may not be in them."""
    moved = await _moved(page, source)
    if len(moved) > wire.REFETCH_ABOVE:
        yield wire.REFETCH
        moved = {}
    found = await _rows(page, moved, actor, source, shelf) + await _parts(page, source, shelf)
    if found:
        page.sent(found)
        yield wire.fragments_frame(found)
    async for frame in _timeline(page, source):
        yield frame
    if page.watch.newest and page.watch.kind:
        counted = await source.newer(actor, page.watch, [page.watch.newest])
        page.new_count = counted.get(page.watch.newest, 0)
        yield wire.frame("new", count=page.new_count)
    elif page.watch.kind == "approvals":
        page.new_count = page.unseen(await source.listed(actor, page.watch))
        yield wire.frame("new", count=page.new_count)


async def _moved(page: Page, source: Source) -> dict[uuid.UUID, int]:
    if not (page.watch.kind and page.rows):
        return {}
    now = await source.versions(page.watch.kind, list(page.rows))
    return {one: version for one, version in now.items() if version > page.rows.get(one, version)}


async def _rows(page: Page, moved: dict[uuid.UUID, int], actor: Actor, source: Source, shelf: Shelf) -> list[Fragment]:
    if not moved:
        return []
    found: dict[uuid.UUID, Fragment] = await shelf.get(page.watch.kind, moved)
    belongs = await source.matching(actor, page.watch, list(found)) if page.watch.query else None
    return [fragment if belongs is None else fragment.matching(one in belongs) for one, fragment in found.items()]


async def _parts(page: Page, source: Source, shelf: Shelf) -> list[Fragment]:
    watch, found = page.watch, []
    if watch.run is not None:
        version = (await source.versions("runs", [watch.run])).get(watch.run)
        if version is not None:
            parts: Parts | None = (await shelf.get("run", {watch.run: version})).get(watch.run)
            if parts is not None and parts.move_alone:
                parts = (await shelf.get("run", {watch.run: ALWAYS})).get(watch.run)
            if parts is not None and (parts.version != watch.version or parts.move_alone):
                found += parts.fragments
    if watch.case is not None:
        # What is known of its effect changes without the case's version.
        case: Parts | None = (await shelf.get("case", {watch.case: ALWAYS})).get(watch.case)
        page.case_shown = case.fragments if case else ()
        found += page.case_shown
    return found


async def _timeline(page: Page, source: Source) -> AsyncIterator[str]:
    if page.watch.run is None:
        return
    more = True
    while more:
        part = await source.timeline(page.watch.run, page.seq)
        if part.items:
            page.sent(part.items)
            yield wire.fragments_frame(part.items)
        page.seq = max(page.seq, part.through)
        page.queued_seq = max(page.queued_seq, page.seq)
        more = part.more
