"""What has been rendered, the newest of each thing only, shared by everybody who is shown it. It never gives out an older version than it
has given before, and renders nothing twice at the same time."""

from __future__ import annotations

import asyncio
import uuid
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

KEPT_MAX = 4000
ALWAYS = 2**63
"""As the version that is wanted: render it in any case, because something changed that its version does not count."""


class Rendered(Protocol):
    @property
    def version(self) -> int: ...


Key = tuple[str, uuid.UUID]
Render = Callable[[str, list[uuid.UUID]], Awaitable[Mapping[uuid.UUID, Any]]]


class Shelf:
    """`render(kind, ids)` reads the database now and leaves out what does not exist."""

    def __init__(self, render: Render, kept_max: int = KEPT_MAX) -> None:
        self._render = render
        self._kept_max = kept_max
        self._kept: OrderedDict[Key, Rendered] = OrderedDict()
        self._flights: dict[Key, asyncio.Future[None]] = {}

    async def get(self, kind: str, wanted: Mapping[uuid.UUID, int]) -> dict[uuid.UUID, Any]:
        """Each wanted thing at its version or a newer one, by id; what does not exist is left out."""
        found: dict[uuid.UUID, Any] = {}
        left = dict(wanted)
        while left:
            for one in [one for one, version in left.items() if self._has(kind, one, version)]:
                found[one] = self._kept[kind, one]
                del left[one]
            others = {flight for one in left if (flight := self._flights.get((kind, one)))}
            mine = [one for one in left if (kind, one) not in self._flights]
            if mine:
                # Read after it was wanted, so it is new enough whatever its version says.
                found |= await self._fly(kind, mine)
                left = {one: version for one, version in left.items() if one not in mine}
            if others:
                await asyncio.wait(others)
        return found

    def peek(self, kind: str, one: uuid.UUID) -> Any:
        """What was rendered last, if it is still kept."""
        return self._kept.get((kind, one))

    def _has(self, kind: str, one: uuid.UUID, version: int) -> bool:
        kept = self._kept.get((kind, one))
        return kept is not None and kept.version >= version

    async def _fly(self, kind: str, ids: list[uuid.UUID]) -> dict[uuid.UUID, Any]:
        landed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._flights |= {(kind, one): landed for one in ids}
        try:
            made = await self._render(kind, ids)
            return {one: self._keep((kind, one), thing) for one, thing in made.items()}
        finally:
            for one in ids:
                del self._flights[kind, one]
            landed.set_result(None)

    def _keep(self, key: Key, thing: Rendered) -> Rendered:
        kept = self._kept.get(key)
        if kept is not None and kept.version > thing.version:
            return kept
        self._kept[key] = thing
        self._kept.move_to_end(key)
        while len(self._kept) > self._kept_max:
            self._kept.popitem(last=False)
        return thing
