"""Two real processes that race for one run after the other: one is its worker, the other cancels, and they change places every time.

A barrier lets both go at once. Then each first makes a random number of round trips to the database, so that neither is always first.
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from typing import Any

PATIENCE_S = 60.0
WORKER_TRIPS_MAX, CANCEL_TRIPS_MAX = 16, 6
"""A cancel makes some round trips of its own before it asks for the lock."""


@dataclass(frozen=True)
class Race:
    """How one race went: what the act and the cancel were answered, and what the provider received."""

    run: str
    act: str
    cancel: str
    received: list[dict[str, Any]]


@dataclass(frozen=True)
class Contest:
    """`times` races at each of the boundaries; `sabotage` names a variant of tests/twin/broken.py that both processes run."""

    boundaries: tuple[str, ...]
    times: int
    seed: int
    sabotage: str = ""


def race(contest: Contest) -> Iterator[list[Race]]:
    """Run the contest in two processes of its own: the races of one boundary after the other. RuntimeError when one of them fails."""
    spawn = multiprocessing.get_context("spawn")
    barrier, lines = spawn.Barrier(2), spawn.Pipe()
    ends = [spawn.Pipe(duplex=False) for _ in lines]
    processes = [
        spawn.Process(target=_contend, args=(contest, number, barrier, line, ends[number][1]), daemon=True)
        for number, line in enumerate(lines)
    ]
    for process in processes:
        process.start()
    for _, writer in ends:
        writer.close()
    try:
        for _ in contest.boundaries:
            yield [one for reader, _ in ends for one in _told(reader)]
    finally:
        for process in processes:
            process.join(PATIENCE_S)
            process.kill()


def _told(reader: Connection) -> list[Race]:
    try:
        told: list[Race] = reader.recv()
    except EOFError:
        raise RuntimeError("a contender ended without a word; its traceback is on stderr") from None
    return told


def _contend(contest: Contest, number: int, barrier: Barrier, line: Connection, end: Connection) -> None:
    """One process's life: in every second race it is the worker."""
    import django

    django.setup()
    from django.db import connections

    if contest.sabotage:
        _sabotage(contest.sabotage)
    chance = random.Random(f"{contest.seed}-{number}")
    try:
        for boundary in contest.boundaries:
            raced = []
            for turn in range(contest.times):
                if turn % 2 == number:
                    raced.append(_as_worker(boundary, f"{boundary} {turn}", barrier, line, chance))
                else:
                    _as_canceller(barrier, line, chance)
            end.send(raced)
    except BaseException:
        barrier.abort()  # or else the other one would wait for its patience's end
        raise
    finally:
        connections.close_all()


def _sabotage(name: str) -> None:
    import pytest

    from tests.twin import broken

    getattr(broken, name)(pytest.MonkeyPatch())


def _as_worker(boundary: str, reference: str, barrier: Barrier, line: Connection, chance: random.Random) -> Race:
    from tests.races.boundaries import BOUNDARIES, answered, prepared

    at = BOUNDARIES[boundary]
    worker = prepared(at, reference)
    line.send(worker.run.pk)
    _let_go(barrier, chance.randrange(WORKER_TRIPS_MAX))
    act = answered(lambda: at.act(worker))
    worker.write()
    cancelled = line.recv()
    worker.ends()
    return Race(str(worker.run.pk), act, cancelled, worker.received)


def _as_canceller(barrier: Barrier, line: Connection, chance: random.Random) -> None:
    from runs.models import Run
    from tests import makers

    run = Run(pk=line.recv())
    _let_go(barrier, chance.randrange(CANCEL_TRIPS_MAX))
    line.send(makers.cancel(run).kind)


def _let_go(barrier: Barrier, round_trips: int) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")  # connected, before it counts
        barrier.wait(PATIENCE_S)
        for _ in range(round_trips):
            cursor.execute("SELECT 1")
