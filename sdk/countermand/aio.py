"""The front door of the SDK for asyncio programs: the same names as Countermand."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from countermand.async_run import AsyncRun, in_thread
from countermand.client import Countermand, Started


class AsyncCountermand(Countermand):
    """As Countermand; plans, handlers and `send` functions may be async, and `async with cm.start(...)` gives an
    AsyncRun.
    """

    def start(self, agent: str, **options: Any) -> AsyncStarted:  # type: ignore[override]
        """See Countermand.start."""
        return AsyncStarted(super().start(agent, **options))


class AsyncStarted:
    """A run of this process, as an async context manager."""

    def __init__(self, started: Started) -> None:
        self._started = started

    async def __aenter__(self) -> AsyncRun:
        return AsyncRun(await in_thread(self._started.__enter__))

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        return bool(await in_thread(self._started.__exit__, kind, error, trace))
