"""What every page is told by the clock: counts, how many runs are new, the beat; and whether its reader may still look."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

from console.live import wire
from console.live.audience import Audience
from console.live.page import Page, Viewer
from console.live.source import Source, filter_key
from console.live.who import may_see
from runs.tail import Tail

log = logging.getLogger(__name__)

TICK_S = 1.0
BEAT_EVERY = 10  # ticks
LAG_SHOWN_S = 5.0
RETRY_S = 0.5


class Pulse:
    """Tells the whole audience. Changes between two ticks are told once."""

    def __init__(self, tail: Tail, source: Source, audience: Audience) -> None:
        self._tail = tail
        self._source = source
        self._audience = audience
        self._moved = self._created = False
        self._counts = ""
        self._began_s = time.monotonic()
        self._recheck = asyncio.Event()
        self._unsure = False

    def works(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """The coroutines to run while anybody is connected."""
        self._counts, self._began_s, self._unsure = "", time.monotonic(), False
        return self._tick_for_ever(), self._check_for_ever()

    def note(self, created: bool) -> None:
        """Something happened; `created` when there is a new run."""
        self._moved = True
        self._created = self._created or created

    def recheck(self) -> None:
        """Somebody's rights may have changed: everybody's are looked up now, and until then nothing that changed is shown to anybody."""
        self._unsure = True
        self._recheck.set()

    @property
    def sure(self) -> bool:
        """Whether whatever the tail has told of somebody's rights is known, so that what it told afterwards may be shown."""
        return not self._unsure

    async def counts(self) -> str:
        """The `counts` frame as last told; it is at most a second old."""
        if not self._counts:
            self._counts = await self.counts_now()
        return self._counts

    async def counts_now(self) -> str:
        """The `counts` frame as it would be told now."""
        return wire.frame("counts", **await self._source.counts())

    def beat(self) -> str:
        tx, last_id = self._tail.position or (0, 0)
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return wire.frame("beat", at=at, position=f"{tx}.{last_id}", lag_s=round(self._lag_s(), 1))

    def _lag_s(self) -> float:
        lag_s = self._tail.lag_s
        return time.monotonic() - self._began_s if lag_s is None else lag_s

    async def _tick_for_ever(self) -> None:
        ticks, lagging = 0, False
        while True:
            await asyncio.sleep(TICK_S)
            ticks += 1
            due = ticks % BEAT_EVERY == 0
            if due or lagging != (self._lag_s() > LAG_SHOWN_S):
                lagging = self._lag_s() > LAG_SHOWN_S
                self._tell_all("beat", self.beat())
            if due:
                self.recheck()  # for what changed without an event, such as a session that has expired
            try:
                await self._tell_counts()
            except Exception:
                self._moved = True
                log.exception("counts could not be read; tried again")

    async def _tell_counts(self) -> None:
        if not self._moved:
            return
        created, self._moved, self._created = self._created, False, False
        before, self._counts = self._counts, await self.counts_now()
        if self._counts != before:
            self._tell_all("counts", self._counts)
        await self._tell_new(created)

    async def _tell_new(self, created: bool) -> None:
        lists: dict[Any, list[tuple[Viewer, Page]]] = defaultdict(list)
        for viewer, page in self._audience.pages():
            # Without a filter only a new run is new; with one, any change may let a newer run in or out.
            if page.watch.newest and (created or page.watch.query):
                lists[filter_key(viewer.who.actor, page.watch)].append((viewer, page))
        for pages in lists.values():
            viewer, page = pages[0]
            counted = await self._source.newer(viewer.who.actor, page.watch, {page.watch.newest for _, page in pages})
            for viewer, page in pages:
                page.offer_new(counted.get(page.watch.newest, 0))
                viewer.woken.set()

    def _tell_all(self, kind: str, text: str) -> None:
        for viewer in self._audience.viewers:
            viewer.tell(kind, text)

    # Who may still look -----------------------------------------------------------------------------------------------

    async def _check_for_ever(self) -> None:
        while True:
            await self._recheck.wait()
            self._recheck.clear()
            try:
                await self._check()
                self._unsure = self._recheck.is_set()
            except Exception:
                log.exception("sessions could not be looked up; tried again")
                await asyncio.sleep(RETRY_S)
                self.recheck()

    async def _check(self) -> None:
        viewers = list(self._audience.viewers)
        known = await self._source.who({viewer.who.session for viewer in viewers})
        for viewer in viewers:
            who = known.get(viewer.who.session)
            if who is None or who.actor.id != viewer.who.actor.id:
                viewer.end(wire.SIGNED_OUT)
            elif not may_see(who.actor, viewer.page.watch if viewer.page else None):
                viewer.end(wire.NOT_ALLOWED)
            else:
                viewer.who = who
                viewer.woken.set()  # for what was held back
