"""Who is connected to this process, and who shows what."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator

from console.live.page import Page, Viewer
from console.live.wire import Watch


class Audience:
    """Viewers by what they show."""

    def __init__(self) -> None:
        self.viewers: set[Viewer] = set()
        self.cases: set[Viewer] = set()
        self.inboxes: set[Viewer] = set()
        self._rows: dict[uuid.UUID, set[Viewer]] = defaultdict(set)
        self._runs: dict[uuid.UUID, set[Viewer]] = defaultdict(set)

    def show(self, viewer: Viewer, watch: Watch) -> Page:
        """Replace what the viewer shows."""
        self.forget(viewer)
        page = viewer.page = Page(watch)
        for row in watch.rows:
            self._rows[row].add(viewer)
        if watch.run is not None:
            self._runs[watch.run].add(viewer)
        if watch.kind == "cases":
            self.cases.add(viewer)
        if watch.kind == "approvals":
            self.inboxes.add(viewer)
        return page

    def forget(self, viewer: Viewer) -> None:
        """The viewer shows nothing any more."""
        if viewer.page is None:
            return
        watch, viewer.page = viewer.page.watch, None
        for row in watch.rows:
            self._drop(self._rows, row, viewer)
        if watch.run is not None:
            self._drop(self._runs, watch.run, viewer)
        self.cases.discard(viewer)
        self.inboxes.discard(viewer)

    def _drop(self, index: dict[uuid.UUID, set[Viewer]], key: uuid.UUID, viewer: Viewer) -> None:
        index[key].discard(viewer)
        if not index[key]:
            del index[key]

    def has_row(self, row: uuid.UUID) -> bool:
        return row in self._rows

    def has_run(self, run: uuid.UUID) -> bool:
        return run in self._runs

    def of_rows(self, rows: Iterable[uuid.UUID]) -> set[Viewer]:
        """Those who show any of these rows."""
        return set().union(*(self._rows.get(row, ()) for row in rows))

    def of_run(self, run: uuid.UUID) -> Iterator[tuple[Viewer, Page]]:
        """Those whose page is this run's."""
        return ((viewer, viewer.page) for viewer in list(self._runs.get(run, ())) if viewer.page is not None)

    def pages(self) -> Iterator[tuple[Viewer, Page]]:
        return ((viewer, viewer.page) for viewer in list(self.viewers) if viewer.page is not None)
