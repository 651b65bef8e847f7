"""cm.work(): a supervisor that claims nothing, and child processes that it waits for.

A child that is gone has been reaped: that is the fact with which its effects can be proved absent. The supervisor
must stay single-threaded (it forks) and must report a child as gone only after it has been reaped and its process
group killed.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import threading
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from countermand import worker
from countermand.clock import now_s
from countermand.holders import holder_for

if TYPE_CHECKING:
    from countermand.client import Countermand

log = logging.getLogger("countermand")

_SIGNALS = frozenset({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT})
_FLUSH_EVERY_S = 5.0
_PR_SET_PDEATHSIG = 1


@dataclass(slots=True)
class Child:
    """One worker process. `holder`: the name its leases are held under."""

    pid: int
    holder: str
    started_s: float


class Supervisor:
    """See Countermand.work."""

    def __init__(self, cm: Countermand, *, processes: int, concurrency: int, ttl_s: float | None, grace_s: float) -> None:
        if not cm.agents and not cm.cleanups:
            raise ValueError("no agent is registered: decorate your plan with @cm.agent('name') before cm.work()")
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("cm.work() forks and waits for signals: call it from the main thread")
        self.cm = cm
        self.processes = processes
        self.options = worker.Options(concurrency=concurrency, ttl_s=ttl_s)
        self.grace_s = grace_s
        self.children: dict[int, Child] = {}
        self._start_after_s = 0.0
        self._quick_deaths = 0
        self._stop_by_s: float | None = None

    def run(self) -> None:
        """Supervise until told to stop and every child has been reaped."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        try:
            self.cm.facts.flush()
            flushed_s = now_s()
            while self._stop_by_s is None or self.children:
                self._start_missing()
                self._take_signal(before)
                self._reap()
                if now_s() - flushed_s >= _FLUSH_EVERY_S:
                    self.cm.facts.flush()
                    flushed_s = now_s()
            self.cm.facts.flush()
            left = self.cm.facts.undelivered
            if left:
                log.warning(
                    "%d facts wait in the spool %s and are delivered at the next start",
                    left,
                    self.cm.facts.spool.folder,
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _take_signal(self, before: set[int | signal.Signals]) -> None:
        wait_s = 1.0 if self._stop_by_s is not None or self._quick_deaths else _FLUSH_EVERY_S
        taken = signal.sigtimedwait(_SIGNALS, wait_s)
        if taken is not None and taken.si_signo in (signal.SIGTERM, signal.SIGINT):
            self._stop()
        elif self._stop_by_s is not None and now_s() > self._stop_by_s:
            log.warning("children did not stop within %g s: killing them", self.grace_s)
            self._kill()

    def _stop(self) -> None:
        if self._stop_by_s is not None:
            log.warning("told to stop a second time: killing the children")
            self._kill()
            return
        self._stop_by_s = now_s() + self.grace_s
        for pid in self.children:
            os.kill(pid, signal.SIGTERM)

    def _kill(self) -> None:
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)

    def _start_missing(self) -> None:
        while self._stop_by_s is None and len(self.children) < self.processes and now_s() >= self._start_after_s:
            child = self._fork()
            self.children[child.pid] = child

    def _fork(self) -> Child:
        salt = uuid.uuid4().hex[:12]
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if pid == 0:
            code = 70
            try:
                os.setpgid(0, 0)
                _die_with(parent)
                signal.pthread_sigmask(signal.SIG_SETMASK, set())
                code = worker.main(self.cm, holder_for(os.getpid(), salt), self.options)
            except BaseException:
                log.exception("worker process failed")
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        try:
            os.setpgid(pid, pid)
        except OSError:
            log.debug("the child set its process group itself")
        return Child(pid, holder_for(pid, salt), now_s())

    def _reap(self) -> None:
        for child in list(self.children.values()):
            if os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _kill_group(child.pid)  # while the zombie still reserves the number
            _, status = os.waitpid(child.pid, 0)
            del self.children[child.pid]
            how = _how(status)
            log.log(logging.INFO if status == 0 else logging.ERROR, "worker %s: %s", child.holder, how)
            self.cm.facts.tell("gone", child.holder, {"how": how})
            self._hold_back(child)

    def _hold_back(self, child: Child) -> None:
        """A worker that dies at once is started again ever more slowly, up to 10 s."""
        if now_s() - child.started_s > 2:
            self._quick_deaths = 0
            return
        self._quick_deaths += 1
        self._start_after_s = now_s() + min(10.0, 0.1 * 2**self._quick_deaths)


def _die_with(parent: int) -> None:
    """On Linux, die when the supervisor dies: nobody would notice this process's death any more."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(70)


def _kill_group(pid: int) -> None:
    """Processes that the child started could still be sending; gone means all of them."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
