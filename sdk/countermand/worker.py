"""One worker process: threads that claim and run, and a main thread that waits to be told to stop."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from countermand.clock import now_s
from countermand.errors import Problem, Unreachable

if TYPE_CHECKING:
    from countermand.client import Countermand

log = logging.getLogger("countermand")

_CLAIM_WAIT_S = 20.0
_CLEANUP_EVERY_S = 2.0


@dataclass(frozen=True, slots=True)
class Options:
    """`concurrency`: runs at a time in this process. `ttl_s`: lease in seconds, None for the agent's."""

    concurrency: int = 1
    ttl_s: float | None = None


class Worker:
    """The threads of one process, all holding leases under one name."""

    def __init__(self, cm: Countermand, holder: str, options: Options) -> None:
        self.cm = cm
        self.holder = holder
        self.options = options
        self.shutdown = threading.Event()
        self._busy = 0
        self._quiet = threading.Condition()

    def run(self) -> None:
        """Work until told to stop, then until nothing is being run any more."""
        loops: list[Callable[[], None]] = [self._run_loop] * self.options.concurrency if self.cm.agents else []
        if self.cm.cleanups:
            loops.append(self._clean_loop)
        threads = [threading.Thread(target=loop, name=f"countermand-{n}", daemon=True) for n, loop in enumerate(loops)]
        for thread in threads:
            thread.start()
        while not self.shutdown.wait(1.0):
            if not all(thread.is_alive() for thread in threads):
                raise RuntimeError("a worker thread ended by itself; see the error above")
        with self._quiet:
            # A claim that is still waiting is left: should it get a lease, our being reaped gives it back.
            self._quiet.wait_for(lambda: self._busy == 0)

    def _run_loop(self) -> None:
        while not self.shutdown.is_set():
            self._patiently(self._claim_and_run)

    def _claim_and_run(self) -> None:
        asked_s = now_s()
        body = {"holder": self.holder, "agents": sorted(self.cm.agents), "wait_s": _CLAIM_WAIT_S}
        if self.options.ttl_s is not None:
            body["ttl_s"] = self.options.ttl_s
        answer = self.cm.door.claim(body)
        if answer.status == 204 or "lease" not in answer.body:
            if now_s() - asked_s < 0.5:
                self.shutdown.wait(0.5)  # the control plane did not wait; we do
            return
        with self._working():
            self.cm.execute(answer.body, ttl_s=self.options.ttl_s, shutdown=self.shutdown)

    def _clean_loop(self) -> None:
        while not self.shutdown.is_set():
            self._patiently(self._claim_and_clean)

    def _claim_and_clean(self) -> None:
        with self._working():
            ended = self.cm.clean_once(holder=self.holder)
        if ended is None:
            self.shutdown.wait(_CLEANUP_EVERY_S)

    def _patiently(self, turn: Callable[[], None]) -> None:
        try:
            turn()
        except Unreachable as error:
            log.warning("cannot claim: %s", error)
            self.shutdown.wait(1.0)
        except Problem as problem:
            log.error("the control plane refuses to give work: %s", problem)
            self.shutdown.wait(5.0)

    def _working(self) -> _Working:
        return _Working(self)


class _Working:
    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def __enter__(self) -> None:
        with self._worker._quiet:
            self._worker._busy += 1

    def __exit__(self, *exc: object) -> None:
        with self._worker._quiet:
            self._worker._busy -= 1
            self._worker._quiet.notify_all()


def main(cm: Countermand, holder: str, options: Options) -> int:
    """A child process's life. Returns its exit code."""
    cm.door.after_fork()
    worker = Worker(cm, holder, options)
    signal.signal(signal.SIGTERM, lambda *_: worker.shutdown.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker.run()
    cm.facts.flush()
    return 0
