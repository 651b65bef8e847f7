"""Many who ask for the same kind of thing at the same time are answered by one query."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Together(Generic[K, V]):
    """Reads begin one after the other, each for all who have asked since the last one began: an answer is never older than its question."""

    def __init__(self, read: Callable[[Collection[K]], Awaitable[Mapping[K, V]]]) -> None:
        self._read = read
        self._one_at_a_time = asyncio.Lock()
        self._asked: set[K] = set()
        self._next: asyncio.Task[Mapping[K, V]] | None = None

    async def get(self, keys: Collection[K]) -> dict[K, V]:
        """What there is of these keys."""
        self._asked.update(keys)
        if self._next is None:
            self._next = asyncio.create_task(self._read_next())
        # Others wait for the same read: it goes on when one of them gives up.
        found = await asyncio.shield(self._next)
        return {key: found[key] for key in keys if key in found}

    async def _read_next(self) -> Mapping[K, V]:
        async with self._one_at_a_time:
            asked, self._asked, self._next = self._asked, set(), None
            return await self._read(asked)
