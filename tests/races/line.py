"""Races without chance: a second connection holds the row (or table) that the contenders need, they queue up one after the other,
and PostgreSQL's own lock queue decides. That each of them waits is read from pg_stat_activity, never hoped for after a sleep."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from django.db import connections

from runs.errors import Problem
from tests import platform

RUN = "SELECT 1 FROM runs_run WHERE id = %s FOR NO KEY UPDATE"
CASE = "SELECT 1 FROM reconciliation_case WHERE id = %s FOR NO KEY UPDATE"
KEY = "SELECT 1 FROM runs_clientkey WHERE agent = %s AND key = %s FOR NO KEY UPDATE"
NO_EFFECTS = "LOCK TABLE ledger_effect IN SHARE MODE"
_WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"

Act = Callable[[], Any]


@dataclass
class Line:
    """Contenders, each with a thread and a database connection of its own."""

    holder: psycopg.Connection[Any]
    monitor: psycopg.Connection[Any]
    threads: list[ThreadPoolExecutor] = field(default_factory=list)

    def race(self, held: str, parameters: tuple[Any, ...], *acts: Act) -> list[Any]:
        """Hold the lock, let the acts queue up in this order, let go. Returns what each returned, or the `Problem` it met."""
        while len(self.threads) < len(acts):
            self.threads.append(ThreadPoolExecutor(1))
        futures: list[Future[Any]] = []
        with self.holder.transaction():
            self.holder.execute(held, parameters)
            for thread, act in zip(self.threads, acts, strict=False):
                futures.append(thread.submit(_answer, act))
                self._until_waiting(len(futures), futures)
        return [future.result(30) for future in futures]

    def _until_waiting(self, count: int, futures: list[Future[Any]]) -> None:
        until = time.monotonic() + 20
        while self.monitor.execute(_WAITING).fetchone() != (count,):
            early = [future.result() for future in futures if future.done()]
            assert not early, f"did not wait for the lock: {early}"
            assert time.monotonic() < until, "never queued for the lock"
            time.sleep(0.001)


def _answer(act: Act) -> Any:
    try:
        return act()
    except Problem as problem:
        return problem


@contextmanager
def line() -> Iterator[Line]:
    with psycopg.connect(platform.APP_URL) as holder, psycopg.connect(platform.APP_URL, autocommit=True) as monitor:
        made = Line(holder, monitor)
        try:
            yield made
        finally:
            for thread in made.threads:
                thread.submit(connections.close_all).result(10)
                thread.shutdown()
