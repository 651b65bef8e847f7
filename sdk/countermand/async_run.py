"""A run as an async plan sees it: each verb runs the synchronous core in a thread of its own; functions you pass may be async.

Cancelling a task never interrupts a send: the outcome is told first, then the cancellation goes on.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable
from typing import Any

from countermand.errors import Json
from countermand.run import Run


class AsyncRun:
    """A run as an async plan sees it. Every verb of `Run`, awaited; its docstrings hold here too."""

    def __init__(self, run: Run) -> None:
        self.sync = run
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        if name in ("id", "ref", "agent", "business_ref", "input", "labels", "cancelled"):
            return getattr(self.sync, name)
        raise AttributeError(name)

    async def checkpoint(self) -> None:
        """See Run.checkpoint; also lets other tasks run."""
        await asyncio.sleep(0)
        self.sync.checkpoint()

    async def heard(self) -> None:
        """See Run.heard."""
        await in_thread(self.sync.heard)

    async def progress(self, fraction: float | None = None, message: str | None = None) -> None:
        """See Run.progress."""
        await in_thread(self.sync.progress, fraction, message)

    async def heartbeat(self) -> None:
        """See Run.heartbeat."""
        await in_thread(self.sync.heartbeat)

    async def step(self, key: str, fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """See Run.step. `fn` may be async; it gets this AsyncRun when its first parameter is called `run`."""
        return await in_thread(self.sync.step, key, self._bridge(fn), *args, **options)

    async def effect(self, provider: str, action: str, *, send: Callable[..., Any], **options: Any) -> Any:
        """See Run.effect. `send` may be async."""
        return await in_thread(self.sync.effect, provider, action, send=self._bridge(send), **options)

    async def model_call(self, key: str, fn: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """See Run.model_call. `fn` may be async."""
        return await in_thread(self.sync.model_call, key, self._bridge(fn), *args, **options)

    async def approval(self, key: str, **options: Any) -> Any:
        """See Run.approval."""
        return await in_thread(self.sync.approval, key, **options)

    async def child(self, agent: str, **options: Any) -> Any:
        """See Run.child."""
        return await in_thread(self.sync.child, agent, **options)

    async def sleep_until(self, key: str, wake_at: str) -> None:
        """See Run.sleep_until."""
        await in_thread(self.sync.sleep_until, key, wake_at)

    async def cleanup(self, key: str, handler: str, arguments: Json, **options: Any) -> None:
        """See Run.cleanup."""
        await in_thread(self.sync.cleanup, key, handler, arguments, **options)

    def _bridge(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Call fn so that what it awaits is awaited on the plan's loop, while the core waits in its thread."""
        wants_run = next(iter(inspect.signature(fn).parameters), None) == "run"

        def bridged(*args: Any, **kwargs: Any) -> Any:
            result = fn(self, *args, **kwargs) if wants_run else fn(*args, **kwargs)
            if not inspect.isawaitable(result):
                return result
            return asyncio.run_coroutine_threadsafe(_await(result), self._loop).result()

        return bridged


async def _await(awaitable: Any) -> Any:
    return await awaitable


async def in_thread(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run fn in a thread of its own (a shared pool could fill up with calls that wait for each other).

    When the awaiting task is cancelled, fn is waited for all the same before the cancellation goes on.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            result = context.run(fn, *args, **kwargs)
        except BaseException as error:
            loop.call_soon_threadsafe(_set, done, None, error)
        else:
            loop.call_soon_threadsafe(_set, done, result, None)

    threading.Thread(target=work, name="countermand-async", daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        while not done.done():
            try:
                await asyncio.shield(done)
            except asyncio.CancelledError:
                continue
            except BaseException:
                break
        done.exception()
        raise


def _set(done: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    elif isinstance(error, StopIteration):
        done.set_exception(RuntimeError("StopIteration raised"))
    else:
        done.set_exception(error)
