"""Another transaction in the middle of a fence: it begins when the fence has read, and has to wait for the row lock if there is one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
from django.db import connections

from ledger import intents
from runs.errors import Problem
from tests import platform

_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


class Meanwhile:
    """A second person's thread, with a connection of its own."""

    def __init__(self) -> None:
        self.thread = ThreadPoolExecutor(1)
        self.monitor = psycopg.connect(platform.APP_URL, autocommit=True)

    def close(self) -> None:
        self.thread.submit(connections.close_all).result(10)
        self.thread.shutdown()
        self.monitor.close()

    @contextmanager
    def during_a_fence(self, act: Callable[[], Any]) -> Iterator[list[Any]]:
        """In the block the first fence that lets an attempt begin is met by `act`, which is finished, or waits, before the fence writes.

        The list holds what `act` returned, or the `Problem` it met; it is empty when no fence came that far.
        """
        came: list[Future[Any]] = []
        outcome: list[Any] = []
        written = intents.new_attempt

        def met(*values: Any) -> Any:
            if not came:
                came.append(self.thread.submit(_answer, act))
                self._until_it_waits(came[0])
            return written(*values)

        intents.new_attempt = met
        try:
            yield outcome
        finally:
            intents.new_attempt = written
            outcome += [future.result(30) for future in came]

    def _until_it_waits(self, future: Future[Any]) -> None:
        until = time.monotonic() + 20
        while not future.done() and self.monitor.execute(_WAITING).fetchone() == (0,):
            assert time.monotonic() < until, "neither finished nor waits"
            time.sleep(0.001)


def _answer(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except Problem as problem:
        return problem
