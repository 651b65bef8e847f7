"""What has changed and is not sent yet. The first change of a thing is due at once, later ones some time after it was last sent."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Mapping

RUN, CASES, INBOXES = "run", "cases", "inboxes"
What = tuple[str, uuid.UUID | None]
ALL_CASES: What = (CASES, None)
ALL_INBOXES: What = (INBOXES, None)
COALESCE_S: Mapping[str, float] = {RUN: 0.1, CASES: 0.5, INBOXES: 0.5}


class Changes:
    """For one loop; `take` is called by one coroutine."""

    def __init__(self) -> None:
        self._due: dict[What, float] = {}
        self._version: dict[What, int] = {}
        self._sent: dict[What, float] = {}
        self._touched = asyncio.Event()

    def touch(self, what: What, version: int, after_s: float = 0.0) -> None:
        """It is to be shown at `version` or newer, not before `after_s` seconds from now."""
        self._version[what] = max(version, self._version.get(what, 0))
        if what not in self._due:
            rested_s = self._sent.get(what, 0.0) + COALESCE_S[what[0]]
            self._due[what] = max(time.monotonic() + after_s, rested_s)
            self._touched.set()

    async def take(self) -> dict[What, int]:
        """Wait until something is due; all of it, with the versions wanted."""
        while True:
            now = time.monotonic()
            due = {what: self._version.pop(what) for what, at_s in self._due.items() if at_s <= now}
            if due:
                self._sent = {what: at_s for what, at_s in self._sent.items() if now - at_s < COALESCE_S[what[0]]} | dict.fromkeys(due, now)
                for what in due:
                    del self._due[what]
                return due
            self._touched.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(self._due.values()) - now if self._due else None):
                    await self._touched.wait()

    def clear(self) -> None:
        self._due.clear()
        self._version.clear()
