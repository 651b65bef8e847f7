"""One open page: who looks, what it shows, and what is on its way to it. Bounded: a page that cannot keep up is told to ask again."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Iterable

from console.live import wire
from console.live.who import Who
from console.live.wire import Fragment, Watch

OUTBOX_MAX = 300  # fragments
ROW = "row-"


class Page:
    """What a page shows, as it said itself, and the newest of each thing that it has not been sent yet."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.rows = dict(watch.rows)
        self.version = watch.version
        self.seq = watch.seq
        self.queued_seq = watch.seq
        self.new_count: int | None = None
        self.case_shown: tuple[Fragment, ...] = ()
        self._new_due = False
        self._outbox: dict[str, Fragment] = {}
        self._overflown = False

    def offer(self, fragments: Iterable[Fragment]) -> None:
        """Fragments to send; a newer one takes the place of one that still waits."""
        for fragment in fragments:
            waiting = self._outbox.get(fragment.id)
            if waiting is None or waiting.version <= fragment.version:
                self._outbox[fragment.id] = fragment
        if len(self._outbox) > OUTBOX_MAX:
            self.overflow()

    def offer_timeline(self, items: Iterable[Fragment], through: int) -> None:
        """Items of the timeline up to seq `through`; there is no hole between them and what was queued before."""
        self.offer([item for item in items if item.version > self.queued_seq])
        self.queued_seq = max(self.queued_seq, through)

    def offer_new(self, count: int) -> None:
        """How many rows are newer than the page; told when it differs from what was told."""
        self._new_due = self._new_due or count != self.new_count
        self.new_count = count

    def unseen(self, listed: Collection[uuid.UUID]) -> int:
        """How many of the rows that its list holds now it does not show."""
        return len(set(listed) - self.rows.keys())

    def overflow(self) -> None:
        """Something may have been missed: the page is asked to say anew what it shows."""
        self._outbox.clear()
        self._overflown = True

    def sent(self, fragments: Iterable[Fragment]) -> None:
        """Remember what the page has been sent, so that nothing older follows."""
        for one in fragments:
            if one.seq is not None:
                self.seq = max(self.seq, one.seq)
            elif one.id.startswith(ROW):
                self.rows[uuid.UUID(one.id[len(ROW) :])] = one.version
            else:
                self.version = max(self.version, one.version)
        self.queued_seq = max(self.queued_seq, self.seq)

    def take(self) -> list[str]:
        """The frames that are due."""
        if self._overflown:
            self._overflown = False
            return [wire.STALE]
        frames = self._fragments()
        if self._new_due:
            self._new_due = False
            frames.append(wire.frame("new", count=self.new_count))
        return frames

    def _fragments(self) -> list[str]:
        fragments = [one for one in self._outbox.values() if self._is_news(one)]
        self._outbox.clear()
        if not fragments:
            return []
        if sum(one.id.startswith(ROW) for one in fragments) > wire.REFETCH_ABOVE:
            return [wire.REFETCH]
        self.sent(fragments)
        return [wire.fragments_frame(fragments)]

    def _is_news(self, one: Fragment) -> bool:
        if one.seq is not None:
            return one.seq > self.seq
        if one.id.startswith(ROW):
            return one.version > self.rows.get(uuid.UUID(one.id[len(ROW) :]), 0)
        return one.version >= self.version  # a part also tells of what its version does not count


class Viewer:
    """A connected page. `woken` is set whenever there is something to send."""

    def __init__(self, who: Who) -> None:
        self.who = who
        self.page: Page | None = None
        self.code: int | None = None
        self.woken = asyncio.Event()
        self._notes: dict[str, str] = {}

    def tell(self, kind: str, text: str) -> None:
        """A frame of which only the newest matters (`counts`, `beat`)."""
        self._notes[kind] = text
        self.woken.set()

    def end(self, code: int) -> None:
        """Nothing more is sent, and the socket is closed with this code."""
        self.code = code
        self.woken.set()

    def take(self, sure: bool = True) -> list[str]:
        """Everything that is due now, as frames; what has changed waits until it is `sure` that it may be seen."""
        frames = [*(self.page.take() if self.page and sure else ()), *self._notes.values()]
        self._notes.clear()
        return frames
