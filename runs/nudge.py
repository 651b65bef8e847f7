"""A word to the waiting, right after a cancel has committed. It carries no truth: when it is lost, the tail tells the same a little later.

The tail tells events in order and so waits for any older transaction in the cluster; a worker that must stop should not wait for that.
NOTIFY never goes into a transaction that writes: commits that carry one queue behind each other.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable

from django.db import DatabaseError, connection, transaction

log = logging.getLogger(__name__)

CHANNEL = "runs_stopped"
IDS_AT_ONCE = 200  # a payload may have 8000 bytes


def stopped(run_ids: Iterable[uuid.UUID]) -> None:
    """After this transaction has committed, tell every web process that these runs were stopped. Never raises."""
    ids = [str(run_id) for run_id in run_ids]
    if ids:
        transaction.on_commit(lambda: _notify(ids), robust=True)


def _notify(ids: list[str]) -> None:
    try:
        with connection.cursor() as cursor:
            for first in range(0, len(ids), IDS_AT_ONCE):
                cursor.execute("SELECT pg_notify(%s, %s)", (CHANNEL, ",".join(ids[first : first + IDS_AT_ONCE])))
    except DatabaseError as error:
        log.warning("waiting workers were not nudged: %s", error)


def read(payload: str) -> list[uuid.UUID]:
    """The runs that a notification names; whatever else it says is left out, because anybody may notify."""
    found = []
    for text in payload.split(","):
        try:
            found.append(uuid.UUID(text))
        except ValueError:
            continue
    return found
