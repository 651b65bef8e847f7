"""When each sweep last came to its end: noted by the workers, read by whoever must know that due work is claimed. It decides nothing."""

from __future__ import annotations

import logging
import time
from typing import Any

from celery import Task
from django.db import DatabaseError, connection

log = logging.getLogger(__name__)

NOTE_EVERY_S = 5.0  # by one process: a write for every run of every sweep would cost more than it tells
FREQUENT_S = 10.0
FRESH_S = 30.0

_NOTE = """
INSERT INTO console_sweepbeat (task, ran_at) VALUES (%s, clock_timestamp())
ON CONFLICT (task) DO UPDATE SET ran_at = EXCLUDED.ran_at WHERE console_sweepbeat.ran_at < EXCLUDED.ran_at
"""
_AGES = "SELECT task, extract(epoch FROM clock_timestamp() - ran_at)::float FROM console_sweepbeat"
_noted_s: dict[str, float] = {}


class Noted(Task):
    """The base of every task: one that came to its end without an error is noted."""

    abstract = True

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
        try:
            note(self.name)
        except DatabaseError:
            log.warning("the end of %s could not be noted", self.name, exc_info=True)


def note(task: str) -> None:
    """Say that the task has just come to its end; at most every few seconds in one process."""
    now_s = time.monotonic()
    if now_s - _noted_s.get(task, -NOTE_EVERY_S) < NOTE_EVERY_S:
        return
    with connection.cursor() as cursor:
        cursor.execute(_NOTE, [task])
    _noted_s[task] = now_s


def sweeps() -> dict[str, float]:
    """The scheduled tasks and the seconds between two runs of each, without the agents, which have workers of their own."""
    from console.celery import AGENTS, SCHEDULE

    return {task: seconds for task, seconds in SCHEDULE.values() if task != AGENTS}


def ages_s() -> dict[str, float | None]:
    """Seconds since each sweep last came to its end; None for one that never has."""
    with connection.cursor() as cursor:
        cursor.execute(_AGES)
        known: dict[str, float] = dict(cursor.fetchall())
    return {task: known.get(task) for task in sorted(sweeps())}


def late() -> list[str]:
    """The frequent sweeps that have not come to their end lately: due work of theirs is not being claimed.

    A sweep that runs less than once in ten seconds is not judged, because after a start its first turn is that far away.
    """
    every = sweeps()
    return [task for task, age_s in ages_s().items() if every[task] <= FREQUENT_S and (age_s is None or age_s > FRESH_S + every[task])]
