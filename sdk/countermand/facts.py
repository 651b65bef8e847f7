"""Facts (outcome, heard, stopped, gone): told once, and spooled when they cannot be told now. A known fact is never
lost.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Literal

from countermand.doors import Answer, Door
from countermand.errors import Json, Problem, SpoolFull, Unreachable
from countermand.spool import Spool

log = logging.getLogger("countermand")

Verb = Literal["outcome", "heard", "stopped", "gone", "finish_step"]


class Facts:
    """Tells facts through a door, with a spool behind it."""

    def __init__(self, door: Door, spool: Spool) -> None:
        self.door = door
        self.spool = spool
        self._held: list[Json] = []
        self._lock = threading.Lock()

    def tell(self, verb: Verb, subject: str, body: Json) -> Answer | None:
        """Deliver now, else spool. Returns the answer, or None when it was spooled (or kept aside as undeliverable)."""
        fact: Json = {"verb": verb, "subject": subject, "body": body}
        try:
            return self.send(fact)
        except Unreachable as error:
            log.warning("cannot tell the control plane now, spooling: %s", error)
            self.keep(fact)
        except Problem as problem:
            self.refused(fact, problem)
        return None

    def keep(self, fact: Json) -> Path | None:
        """Spool a fact. When the disk is full it is held in memory, and tried again by `flush` (None is returned)."""
        try:
            return self.spool.append(fact)
        except SpoolFull:
            with self._lock:
                self._held.append(fact)
            return None

    def refused(self, fact: Json, problem: Problem) -> None:
        """A fact that is answered 4xx: kept aside when it can never succeed, spooled when a new token may help. Said
        loudly.
        """
        path = self.keep(fact)
        if path and problem.status not in (401, 403):
            self.spool.bury(path, str(problem))
        elif path:
            log.error("the control plane refuses a fact for now (%s); it waits in the spool", problem)

    def flush(self) -> int:
        """Deliver what waits, in order, as far as possible. Returns how many were delivered. Never raises."""
        with self._lock:
            held, self._held = self._held, []
        for fact in held:
            self.keep(fact)
        try:
            return self.spool.deliver(self.send)
        except OSError as error:
            log.critical("the spool %s cannot be read: %s", self.spool.folder, error)
            return 0

    @property
    def undelivered(self) -> int:
        """How many facts wait in this spool and in this process's memory."""
        return len(self._held) + len(self.spool.waiting())

    def send(self, fact: Json) -> Answer:
        """Deliver one fact now. Raises Unreachable or Problem."""
        verb, subject, body = fact["verb"], fact["subject"], fact["body"]
        if verb == "outcome":
            return self.door.outcome(subject, body)
        if verb == "heard":
            return self.door.heard(subject, body)
        if verb == "stopped":
            return self.door.stopped(subject, body)
        if verb == "gone":
            return self.door.gone(subject, body)
        if verb == "finish_step":
            return self.door.finish_step(subject, fact["key"], body)
        raise Problem(400, "invalid", f"a spooled fact has the unknown verb {verb!r}")
