"""The tail tells every committed event, late committers included, and survives the loss of its connection."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from functools import partial

import psycopg
import pytest
from channels.db import database_sync_to_async

from runs import cancellation, timeline
from runs.actors import system
from runs.tail import GAP, Seen, Tail
from tests import platform
from tests.makers import SUPPORT, new_run

pytestmark = pytest.mark.usefixtures("database")


@contextlib.asynccontextmanager
async def following() -> AsyncIterator[Tail]:
    tail = Tail()
    await tail.start()
    try:
        async with asyncio.timeout(5):
            await tail.ready()
        yield tail
    finally:
        await tail.stop()


in_a_thread = partial(database_sync_to_async, thread_sensitive=False)


@in_a_thread
def say(subject: str) -> None:
    timeline.append_system("test.said", system("test"), subject)


async def heard(queue: asyncio.Queue[Seen], count: int) -> list[str]:
    async with asyncio.timeout(5):
        return [(await queue.get()).subject for _ in range(count)]


async def test_what_is_committed_is_told_in_order():
    async with following() as tail, tail.subscribe() as queue:
        for n in range(5):
            await say(str(n))
        assert await heard(queue, 5) == list("01234")
        assert tail.running and tail.lag_s is not None


async def test_it_starts_at_the_snapshot():
    """What had ended before that is history; a transaction that is open elsewhere in the cluster only moves the snapshot back."""
    await say("before")
    async with following() as tail, tail.subscribe() as queue:
        assert tail.position is not None
        start, told = tail.position[0], ""
        await say("after")
        async with asyncio.timeout(5):
            while told != "after":
                event = await queue.get()
                assert event.tx >= start
                told = event.subject


async def test_a_late_committer_is_not_skipped_and_counts_as_lag():
    async with following() as tail, tail.subscribe() as queue:
        async with await psycopg.AsyncConnection.connect(platform.APP_URL) as late:
            await late.execute(
                "INSERT INTO runs_event (kind, subject, actor_type, actor_id, actor_name, channel, data)"
                " VALUES ('test.said', 'early id', 'system', 't', 't', '', '{}')"
            )
            await say("later id, first committed")
            await asyncio.sleep(0.3)
            assert queue.empty(), "what is above an open transaction must wait, or the open one would be skipped"
            assert tail.lag_s is not None and tail.lag_s > 0.2
            await late.commit()
        assert sorted(await heard(queue, 2)) == ["early id", "later id, first committed"]


async def test_losing_the_connection_loses_nothing(owner_connection: psycopg.Connection[tuple[object, ...]]):
    async with following() as tail, tail.subscribe() as queue:
        await say("0")
        assert await heard(queue, 1) == ["0"]
        killed = owner_connection.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE application_name = 'countermand tail' AND datname = current_database()"
        ).fetchone()
        assert killed == (1,)
        for n in range(1, 4):
            await say(str(n))
        assert await heard(queue, 3) == list("123")


async def test_a_watch_wakes_only_for_what_it_wants():
    async with following() as tail:
        with tail.watch(lambda event: event.subject == "mine") as watch:
            await say("other")
            assert await watch.wait(0.2) is None
            began = time.monotonic()
            await say("mine")
            found = await watch.wait(5)
            assert found is not None and found.subject == "mine"
            assert time.monotonic() - began < 0.5


async def test_a_cancel_wakes_its_waiters_even_while_the_tail_is_held_back():
    run, _ = await in_a_thread(new_run)()
    async with following() as tail, await psycopg.AsyncConnection.connect(platform.APP_URL) as held_open:
        await held_open.execute("SELECT pg_current_xact_id()")
        with tail.watch(lambda event: event.run_id == run.pk) as watch:
            await in_a_thread(cancellation.request_cancel)(SUPPORT, run.pk)
            seen = await watch.wait(2)
        assert seen is not None and seen.kind == "run.nudged"


async def test_without_a_tail_a_waiter_is_told_to_look_for_itself():
    began = time.monotonic()
    assert await Tail().wait(lambda _: True, timeout_s=20) is None
    assert time.monotonic() - began < 2


async def test_a_queue_that_is_not_emptied_gets_a_gap():
    async with following() as tail, tail.subscribe(size=2) as slow, tail.subscribe() as quick:
        for n in range(3):
            await say(str(n))
        await heard(quick, 3)
        assert slow.get_nowait() is GAP
