"""Reads the event table in commit order and tells this process's coroutines what is new. It misses no event and decides nothing.

Events are read by (tx, id) below the oldest transaction that is still running, so that one which commits late is not skipped.
What is told is a hint (ids and kinds); whoever is told reads the rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
from django.db import connections
from psycopg import sql

from runs import nudge

log = logging.getLogger(__name__)

WATCHED_PAUSE_S = 0.02
IDLE_PAUSE_S = 0.25
BATCH = 1000
QUEUE_SIZE = 10_000
POLL_TIMEOUT_S = 10.0
RECONNECT_AFTER_S = (0.1, 0.3, 1.0, 2.0)
LIVE_LAG_S = 2.0
RECHECK_LIVE_S = 5.0
RECHECK_BLIND_S = 0.5
RECHECKS_PER_S = 50.0  # of all waiters together: many of them that look for themselves must not starve the rest

_NOW = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
_NEXT = """
SELECT e.id, e.tx::text, e.run_id, e.seq, e.kind, e.subject, s.xmin::text, s.xmax::text
FROM (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS xmin, pg_snapshot_xmax(pg_current_snapshot()) AS xmax) AS s
LEFT JOIN LATERAL (
    SELECT * FROM runs_event WHERE (tx, id) > (%s::text::xid8, %s::bigint) AND tx < s.xmin ORDER BY tx, id LIMIT %s
) AS e ON true
"""


@dataclass(frozen=True, slots=True)
class Seen:
    """One event as the tail tells it. `run_id` and `seq` are None for an event of the system stream."""

    id: int
    tx: int
    run_id: uuid.UUID | None
    seq: int | None
    kind: str
    subject: str


GAP = Seen(id=0, tx=0, run_id=None, seq=None, kind="tail.gap", subject="")
"""Told instead of events that a full queue could not take: whoever gets it compares everything it shows with the database."""

Predicate = Callable[[Seen], bool]


class Watch:
    """Wakes a waiter when an event that it cares for is seen. Look at the database after making it and again after every wake."""

    def __init__(self, tail: Tail, wanted: Predicate) -> None:
        self._tail = tail
        self._wanted = wanted
        self._woken = asyncio.Event()
        self._seen: Seen | None = None

    async def wait(self, timeout_s: float) -> Seen | None:
        """The event that woke it, or None after `timeout_s` or when it is time to look again because the tail may be blind."""
        try:
            async with asyncio.timeout(min(timeout_s, self._tail.recheck_s)):
                await self._woken.wait()
        except TimeoutError:
            return None
        self._woken.clear()
        return self._seen

    def tell(self, event: Seen) -> None:
        try:
            wanted = self._wanted(event)
        except Exception:
            log.exception("a predicate of the tail failed")
            wanted = True
        if wanted:
            self._seen = event
            self._woken.set()


class Tail:
    """The tail of one process, run by one event loop. Everything except `lag_s`, `position` and `running` is for that loop's coroutines."""

    def __init__(self) -> None:
        self.position: tuple[int, int] | None = None
        self._caught_up_s: float | None = None
        self._mark: tuple[int, float] | None = None
        self._task: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._attention = asyncio.Event()
        self._placed = asyncio.Event()
        self._queues: set[asyncio.Queue[Seen]] = set()
        self._watches: set[Watch] = set()

    @property
    def running(self) -> bool:
        """Whether it has been started and not stopped."""
        return self._task is not None and not self._task.done()

    @property
    def lag_s(self) -> float | None:
        """Age in seconds of the moment up to which every event has been told, None before the first poll.

        An open writing transaction anywhere holds that moment back.
        """
        return None if self._caught_up_s is None else max(0.0, time.monotonic() - self._caught_up_s)

    @property
    def live(self) -> bool:
        """Whether events are told promptly now."""
        lag_s = self.lag_s
        return self.running and lag_s is not None and lag_s < LIVE_LAG_S

    @property
    def recheck_s(self) -> float:
        """How long a waiter may trust in being woken before it looks for itself."""
        trusted = self.live and asyncio.get_running_loop() is self._loop
        return max(RECHECK_LIVE_S if trusted else RECHECK_BLIND_S, len(self._watches) / RECHECKS_PER_S)

    async def start(self) -> None:
        """Start following, from the snapshot of the first connection. Does not wait for the database."""
        if self.running:
            return
        self.position = self._caught_up_s = self._mark = None
        self._attention, self._placed = asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.create_task(self._run(), name="runs.tail")

    async def ready(self) -> None:
        """Wait until it has its position: what is committed from then on is told."""
        await self._placed.wait()

    async def stop(self) -> None:
        """Stop following; waiters fall back to looking for themselves."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    @contextlib.asynccontextmanager
    async def subscribe(self, size: int = QUEUE_SIZE) -> AsyncIterator[asyncio.Queue[Seen]]:
        """Every event from now on, in a queue. One that is not emptied loses its content and gets a `GAP` instead."""
        queue: asyncio.Queue[Seen] = asyncio.Queue(size)
        self._queues.add(queue)
        self._attention.set()
        try:
            yield queue
        finally:
            self._queues.discard(queue)

    @contextlib.contextmanager
    def watch(self, wanted: Predicate) -> Iterator[Watch]:
        """Be woken by events that are `wanted`. What happens after this call is not missed, so look at the database inside the `with`."""
        watch = Watch(self, wanted)
        self._watches.add(watch)
        self._attention.set()
        try:
            yield watch
        finally:
            self._watches.discard(watch)

    async def wait(self, wanted: Predicate, timeout_s: float) -> Seen | None:
        """The next event that is `wanted`, or None when it is time to look oneself. What came before the call is missed: see `watch`."""
        with self.watch(wanted) as watch:
            return await watch.wait(timeout_s)

    async def _run(self) -> None:
        failures = 0
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(autocommit=True, **_parameters())
                try:
                    connection.add_notify_handler(self._nudged)
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(nudge.CHANNEL)))
                    async for _ in self._follow(connection):
                        failures = 0
                finally:
                    await connection.close()
            except (psycopg.Error, OSError, TimeoutError) as error:
                # The position is kept: after the next connection everything since then is told.
                log.warning("the tail of the event table lost its connection: %s", error)
            await asyncio.sleep(RECONNECT_AFTER_S[min(failures, len(RECONNECT_AFTER_S) - 1)])
            failures += 1

    async def _follow(self, connection: psycopg.AsyncConnection[Any]) -> AsyncIterator[None]:
        while True:
            full = await self._poll(connection)
            yield
            if not full:
                await self._pause()

    async def _pause(self) -> None:
        if self._queues or self._watches:
            await asyncio.sleep(WATCHED_PAUSE_S)
            return
        self._attention.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(IDLE_PAUSE_S):
                await self._attention.wait()

    async def _poll(self, connection: psycopg.AsyncConnection[Any]) -> bool:
        """Tell what is new. Returns whether there may be more at once."""
        began_s = time.monotonic()
        async with asyncio.timeout(POLL_TIMEOUT_S):
            if self.position is None:
                xmin = await (await connection.execute(_NOW)).fetchone()
                assert xmin is not None
                self.position = (int(xmin[0]), 0)
                self._placed.set()
            tx, last_id = self.position
            rows = await (await connection.execute(_NEXT, (str(tx), last_id, BATCH))).fetchall()
        for event_id, event_tx, run_id, seq, kind, subject, _, _ in rows:
            if event_id is not None:
                self.position = (int(event_tx), event_id)
                self._tell(Seen(event_id, int(event_tx), run_id, seq, kind, subject))
        full = len(rows) == BATCH
        if not full:
            self._note_lag(began_s, int(rows[0][6]), int(rows[0][7]))
        return full

    def _note_lag(self, began_s: float, xmin: int, xmax: int) -> None:
        """Everything below `xmin` has been told: that covers a moment as soon as `xmin` has reached the `xmax` of that moment."""
        if xmin >= xmax:
            self._caught_up_s, self._mark = began_s, None
        elif self._mark is None:
            self._mark = (xmax, began_s)
            self._caught_up_s = began_s if self._caught_up_s is None else self._caught_up_s
        elif xmin >= self._mark[0]:
            self._caught_up_s, self._mark = self._mark[1], (xmax, began_s)

    def _nudged(self, notification: psycopg.Notify) -> None:
        """Waiters look at once; their event follows in its order, and is what subscribers are told."""
        for run_id in nudge.read(notification.payload):
            hint = Seen(id=0, tx=0, run_id=run_id, seq=None, kind="run.nudged", subject="")
            for watch in self._watches:
                watch.tell(hint)

    def _tell(self, event: Seen) -> None:
        for watch in self._watches:
            watch.tell(event)
        for queue in self._queues:
            try:
                queue.put_nowait(event)
            except asyncio.QueueFull:
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(GAP)


def _parameters() -> dict[str, Any]:
    """The database of the process, without what belongs to Django's own cursors."""
    settings = connections["default"].settings_dict
    named = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    options = {name: value for name, value in settings["OPTIONS"].items() if name.startswith("ssl") or name == "options"}
    return {
        **options,
        **{name: settings[key] for name, key in named.items() if settings.get(key)},
        "application_name": "countermand tail",
        "connect_timeout": 5,
        "keepalives_idle": 10,
    }


tail = Tail()
"""The tail of this process; the composition root starts and stops it."""
