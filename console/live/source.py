"""What the live pages read: rows, parts of a run's page, timelines, counts. Each function is one visit to the database, in a thread of its
own; an `int` or text that somebody sent is never trusted to name something that exists."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from console.live.who import Who
from console.live.wire import Fragment, Watch
from runs.actors import Actor


@dataclass(frozen=True)
class Parts:
    """The parts of the page of a run or case at one version of it, and the runs below it, of which they also tell.

    `looked_at`: something of it is in doubt, so that when it is looked at next changes without the version.
    """

    version: int
    fragments: tuple[Fragment, ...]
    children: frozenset[uuid.UUID] = field(default_factory=frozenset)
    looked_at: bool = False

    @property
    def move_alone(self) -> bool:
        """Whether they change without the version."""
        return bool(self.children) or self.looked_at


@dataclass(frozen=True)
class Slice:
    """Timeline items in order, all up to seq `through`; `more` when there are more after it."""

    items: tuple[Fragment, ...]
    through: int
    more: bool


class Source(Protocol):
    """Every method may be called by many coroutines at once."""

    async def who(self, sessions: Collection[str]) -> dict[str, Who]:
        """Who is signed in by these sessions."""

    async def versions(self, kind: str, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
        """The versions of these rows now, in one query."""

    async def render(self, kind: str, ids: list[uuid.UUID]) -> Mapping[uuid.UUID, Any]:
        """`runs`, `cases` and `approvals`: a row each (Fragment); `run` and `case`: the Parts of its page."""

    async def timeline(self, run: uuid.UUID, after: int) -> Slice:
        """The next items of a run's timeline, a hundred at most."""

    async def matching(self, actor: Actor, watch: Watch, ids: Collection[uuid.UUID]) -> set[uuid.UUID] | None:
        """Which of these rows meet the page's filter; None when it has none."""

    async def newer(self, actor: Actor, watch: Watch, marks: Collection[str]) -> dict[str, int]:
        """How many rows of the page's list are newer than each mark."""

    async def listed(self, actor: Actor, watch: Watch) -> set[uuid.UUID]:
        """Every row that an inbox holds now: it is short, so what is new is what a page does not show."""

    async def counts(self) -> dict[str, dict[str, Any]]:
        """The groups of a `counts` frame."""


def filter_key(actor: Actor, watch: Watch) -> tuple[str, str, str]:
    """Pages with the same key have the same list; a list `=me` or `=mine`, and an inbox, is each person's own."""
    return watch.kind, watch.query, actor.id if "=m" in watch.query or watch.kind == "approvals" else ""
