"""The SDK's door without HTTP: inside the Django process (Celery tasks, tests) the same calls run in the caller's own thread.

It gives the same dicts and the same refusals as the API, because both go through the same calls; it adds no rule and no right.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connection, connections

from console.problems import unanswered
from countermand.doors import Answer
from countermand.errors import Json, Problem, Unreachable
from ledger import api as effects
from runs import api as worker
from runs import errors, life, reading, schema
from runs.actors import Actor
from runs.calls import Answer as Made
from runs.calls import Call
from runs.parsing import parse

LOOK_EVERY_S = 0.2
LISTEN_S = 2.0
"""A thread that listens for directives looks up this often whether its run is over."""


class DjangoDoor:
    """Implements `countermand.doors.Door` as `actor`, a machine with the scope run:work. Its threads use Django's own connections."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    def create_run(self, body: Json, idempotency_key: str | None = None) -> Answer:
        return self._do(worker.create_run, given=body, idempotency_key=idempotency_key)

    def claim(self, body: Json) -> Answer:
        given = _told(lambda: parse(schema.ClaimBody, body))
        return _until(given["wait_s"], lambda: self._do(worker.claim, given=body), lambda answer: answer.status != 204)

    def heartbeat(self, run: str, body: Json) -> Answer:
        try:
            return self._do(worker.heartbeat, run, given=body)
        finally:
            self._leave()

    def directives(self, runs: list[tuple[str, int]], heard: list[str], wait_s: float) -> Answer:
        query = {"runs": ",".join(f"{run}:{epoch}" for run, epoch in runs), "heard": ",".join(heard), "wait_s": wait_s}
        try:
            wait_s = min(wait_s, LISTEN_S)
            return _until(wait_s, lambda: self._do(worker.directives, given=query), lambda answer: bool(answer.body["directives"]))
        finally:
            self._leave()

    def heard(self, run: str, body: Json) -> Answer:
        return self._do(worker.heard, run, given=body)

    def start_step(self, run: str, body: Json) -> Answer:
        return self._do(worker.start_step, run, given=body)

    def finish_step(self, run: str, key: str, body: Json) -> Answer:
        return self._do(worker.finish_step, run, key, given=body)

    def begin_effect(self, run: str, body: Json) -> Answer:
        return self._do(effects.begin_effect, run, given=body)

    def begin_declared(self, operation_id: str, body: Json) -> Answer:
        return self._do(effects.begin_declared, operation_id, given=body)

    def outcome(self, operation_id: str, body: Json) -> Answer:
        return self._do(effects.outcome, operation_id, given=body)

    def request_approval(self, run: str, body: Json) -> Answer:
        return self._do(life.request_approval, run, given=body)

    def register_cleanup(self, run: str, body: Json) -> Answer:
        return self._do(life.register_cleanup, run, given=body)

    def claim_cleanup(self, body: Json) -> Answer:
        return self._do(life.claim_cleanup, given=body)

    def heartbeat_cleanup(self, cleanup: str, body: Json) -> Answer:
        return self._do(life.heartbeat_cleanup, cleanup, given=body)

    def finish_cleanup(self, cleanup: str, body: Json) -> Answer:
        return self._do(life.finish_cleanup, cleanup, given=body)

    def suspend(self, run: str, body: Json) -> Answer:
        return self._do(worker.suspend, run, given=body)

    def stopped(self, run: str, body: Json) -> Answer:
        return self._do(worker.stopped, run, given=body)

    def release(self, run: str, body: Json) -> Answer:
        return self._do(worker.release, run, given=body)

    def gone(self, holder: str, body: Json) -> Answer:
        return self._do(worker.gone, holder, given=body)

    def finish_run(self, run: str, body: Json) -> Answer:
        return self._do(worker.finish_run, run, given=body)

    def get_run(self, run: str) -> Answer:
        return self._do(reading.get_run, run)

    def get_account(self, run: str) -> Answer:
        return self._do(effects.get_account, run)

    def after_fork(self) -> None:
        """Forget inherited connections; psycopg does not close those of another process."""
        for inherited in connections.all(initialized_only=True):
            inherited.connection = None

    def close(self) -> None:
        """Give back this thread's connection."""
        connection.close()

    def _leave(self) -> None:
        """The SDK's own threads end with the run, and their connections would outlive them."""
        if threading.current_thread().name.startswith("countermand-"):
            connection.close()

    def _do(self, made: Call, *path: str, **given: Any) -> Answer:
        close_old_connections()
        answer: Made = _told(functools.partial(made, self.actor, *path, **given))
        return Answer(answer.status, answer.body or {})


def _told(work: Callable[[], Any]) -> Any:
    """Run it, with refusals and failures as the SDK knows them."""
    try:
        return work()
    except errors.Problem as refused:
        if refused.status >= 500:
            raise Unreachable(refused.detail) from refused
        raise Problem(refused.status, refused.code, refused.detail, refused.body()) from refused
    except (DatabaseError, InterfaceError) as error:
        if not unanswered(error):
            raise
        connection.close()
        raise Unreachable(f"the database did not answer: {error}") from error


def _until(wait_s: float, look: Callable[[], Answer], good: Callable[[Answer], bool]) -> Answer:
    until_s = time.monotonic() + wait_s
    while True:
        answer = look()
        left_s = until_s - time.monotonic()
        if good(answer) or left_s <= 0:
            return answer
        time.sleep(min(LOOK_EVERY_S, left_s))
