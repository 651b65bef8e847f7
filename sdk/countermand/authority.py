"""The right of this process to act for one run (or one cleanup item): checked before every act, held back while bytes
are leaving.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Protocol

from countermand.doors import Answer, Door
from countermand.errors import ControlFlow, Json, LeaseLost, Problem, RunReleased, Unreachable
from countermand.facts import Facts

_in_send: ContextVar[bool] = ContextVar("countermand_in_send", default=False)


class Held(Protocol):
    """What an authority needs of a lease: a run's or a cleanup item's."""

    token: str
    run: str

    def check(self) -> None: ...
    def read(self, problem: Problem) -> ControlFlow | None: ...
    def lose(self, why: str) -> LeaseLost: ...
    def out_of_time(self, margin_s: float = 0.0) -> bool: ...


class Authority:
    """`role`: work or cleanup. `shutdown`: set when this process should give its leases back."""

    def __init__(self, door: Door, facts: Facts, lease: Held, *, role: str = "work", shutdown: threading.Event | None = None) -> None:
        self.door = door
        self.facts = facts
        self.lease = lease
        self.role = role
        self.shutdown = shutdown or threading.Event()
        self.given_back = False
        self._sends = 0
        self._idle = threading.Condition()

    def check(self) -> None:
        """Raise the control flow that ends this plan, if any. Held back inside a `send`."""
        if _in_send.get():
            return
        self.lease.check()
        if self.shutdown.is_set():
            raise RunReleased("this worker is shutting down")

    @contextlib.contextmanager
    def sending(self) -> Iterator[None]:
        """From asking for a go-ahead until its outcome is told: nothing interrupts, and the lease is not given back."""
        held = _in_send.set(True)
        with self._idle:
            self._sends += 1
        try:
            yield
        finally:
            _in_send.reset(held)
            with self._idle:
                self._sends -= 1
                self._idle.notify_all()

    def wait_until_idle(self) -> None:
        """Wait for sends that other threads of the plan still have open. Heartbeats go on meanwhile."""
        with self._idle:
            self._idle.wait_for(lambda: self._sends == 0)

    def act(self, call: Callable[[], Answer], *, fact: Json | None = None) -> Answer:
        """Make a call that may safely be repeated, patiently, while the lease lasts.

        Raises RunCancelled or LeaseLost, or Problem. `fact`: what to spool when the call could not be made in time.
        """
        pause_s = 0.1
        while True:
            try:
                return call()
            except Unreachable as error:
                if self.lease.out_of_time(pause_s):
                    if fact:
                        self.facts.keep(fact)
                    raise self.lease.lose(f"the control plane could not be reached while the lease lasted ({error})") from error
                time.sleep(pause_s)
                pause_s = min(2.0, pause_s * 2)
            except Problem as problem:
                over = self.lease.read(problem)
                if over is not None:
                    raise over from problem
                raise
