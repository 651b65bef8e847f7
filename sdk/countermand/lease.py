"""One run's lease as this process sees it: renewed by a thread, watched by another, over as soon as the control plane
says so.

It must never raise in its own threads what belongs to the plan: it remembers why the run is over, and `check` raises
it.
"""

from __future__ import annotations

import datetime
import logging
import threading
from typing import Any

from countermand.clock import now_s
from countermand.doors import Answer, Door
from countermand.errors import ControlFlow, Json, LeaseLost, Problem, RunCancelled, Unreachable
from countermand.facts import Facts

log = logging.getLogger("countermand")

POLL_S = 20.0
BEAT_EVERY_S = 1.0  # a plan that beats in a tight loop is heard this often, and hears this often


class Lease:
    """Token, epoch and local expiry (seconds on the suspend-aware clock) of one claimed run."""

    def __init__(self, door: Door, facts: Facts, run: str, lease: Json, *, ttl_s: float, asked_s: float) -> None:
        self.door = door
        self.facts = facts
        self.run = run
        self.token = str(lease["token"])
        self.epoch = int(lease["epoch"])
        self.ttl_s = ttl_s
        self.expires_s = asked_s + float(lease.get("expires_in_s") or ttl_s)
        self._expires_at = datetime.datetime.fromisoformat(str(lease["expires_at"]))
        self.cancelled = threading.Event()  # also set when the lease is lost: whoever waits on it should stop working
        self.cancel: Json = {}
        self._over: ControlFlow | None = None
        self._heard_told = False
        self._heard_done = threading.Event()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._beat_lock = threading.Lock()
        self._progress: dict[str, Json] = {}
        self._beaten_s = now_s()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Start renewing and listening."""
        for target in (self._renew, self._listen):
            thread = threading.Thread(target=target, name=f"countermand-{target.__name__.strip('_')}-{self.run}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def close(self) -> None:
        """Stop renewing and listening. Does not give the lease back."""
        self._closed.set()

    @property
    def over(self) -> ControlFlow | None:
        """RunCancelled or LeaseLost once this process must not act for the run any more, else None."""
        return self._over

    def check(self) -> None:
        """Raise RunCancelled or LeaseLost when the run is over for this process."""
        over = self._over
        if over is not None:
            raise type(over)(*over.args)

    def out_of_time(self, margin_s: float = 0.0) -> bool:
        """Whether the lease has run out by the local clock (counted from the start of the last renewal that was
        answered).
        """
        return now_s() + margin_s >= self.expires_s

    def server_now(self) -> datetime.datetime:
        """The control plane's time, from its own words about this lease (never later than it really is)."""
        return self._expires_at - datetime.timedelta(seconds=self.expires_s - now_s())

    def hear(self, cancel: Json | None = None) -> RunCancelled:
        """The cancel has been heard: remember it, say so once, and return what to raise."""
        with self._lock:
            if self._over is None:
                self._over = RunCancelled(_sentence(cancel))
                self.cancel = cancel or {}
            first, self._heard_told = not self._heard_told, True
        self.cancelled.set()
        if first:
            try:
                self.facts.tell("heard", self.run, {"lease": self.token})
            finally:
                self._heard_done.set()
        return RunCancelled(_sentence(self.cancel))

    def wait_until_told(self) -> None:
        """Wait while another thread is telling that the cancel was heard, so that *stopped* does not overtake it."""
        if self._heard_told:
            self._heard_done.wait()

    def lose(self, why: str) -> LeaseLost:
        """This process no longer holds the run; returns what to raise. A loss outranks a cancel: nothing may be acted
        on.
        """
        with self._lock:
            if not isinstance(self._over, LeaseLost):
                self._over = LeaseLost(why)
        self.cancelled.set()
        return LeaseLost(why)

    def obey(self, directive: str | None, told: Json) -> None:
        """Take over a directive (`continue`, `cancel`, `stop`) from any answer."""
        if directive == "cancel" or (directive == "stop" and told.get("why") == "cancelled"):
            self.hear(told.get("cancel"))
        elif directive == "stop":
            why = told.get("detail") or told.get("why") or "it gave no reason"
            self.lose(f"the control plane told this worker to stop acting for the run: {why}")

    def read(self, problem: Problem) -> ControlFlow | None:
        """The control flow a refusal stands for, or None when it is an ordinary problem."""
        if problem.code == "cancelled":
            return self.hear(problem.facts.get("cancel"))
        if problem.code in ("lease_lost", "already_closed"):
            return self.lose(problem.detail)
        return None

    def note(self, step: str | None, progress: float | None, message: str | None) -> None:
        """Keep a step's progress for the next heartbeat, and beat now when the last one is BEAT_EVERY_S ago."""
        if step is not None:
            entry: Json = {"key": step}
            if progress is not None:
                entry["progress"] = progress
            if message is not None:
                entry["message"] = message
            self._progress[step] = {**self._progress.get(step, {}), **entry}
        if now_s() - self._beaten_s >= min(BEAT_EVERY_S, self.ttl_s / 3):
            try:
                self.beat()
            except Unreachable as error:
                log.warning("heartbeat of %s: %s", self.run, error)

    def beat(self) -> None:
        """Renew now. Raises Unreachable; a refusal is remembered for `check`."""
        with self._beat_lock:
            steps, self._progress = self._progress, {}
            asked_s = self._beaten_s = now_s()
            body: dict[str, Any] = {"lease": self.token}
            if steps:
                body["steps"] = list(steps.values())
            try:
                answer = self.door.heartbeat(self.run, body)
            except Unreachable:
                self._progress = {**steps, **self._progress}
                raise
            except Problem as problem:
                self._refused(problem)
                return
            self._renewed(asked_s, answer)

    def _renewed(self, asked_s: float, answer: Answer) -> None:
        self.expires_s = asked_s + float(answer.body.get("lease_expires_in_s") or self.ttl_s)
        if "lease_expires_at" in answer.body:
            self._expires_at = datetime.datetime.fromisoformat(str(answer.body["lease_expires_at"]))
        self.obey(answer.body.get("directive"), answer.body)

    def _refused(self, problem: Problem) -> None:
        if self.read(problem) is None:
            log.error("heartbeat of %s was refused: %s", self.run, problem)
            if problem.status == 404:
                self.lose(problem.detail)

    def _renew(self) -> None:
        pause_s = self.ttl_s / 3
        while not self._closed.wait(pause_s) and not isinstance(self._over, LeaseLost):
            pause_s = self.ttl_s / 3
            try:
                self.beat()
            except Unreachable as error:
                log.warning("heartbeat of %s: %s", self.run, error)
                pause_s = min(1.0, self.ttl_s / 10)

    def _listen(self) -> None:
        pause_s = 0.0
        while not self._closed.wait(pause_s) and not isinstance(self._over, LeaseLost):
            asked_s = now_s()
            try:
                answer = self.door.directives([(self.run, self.epoch)], [self.run] if self.cancelled.is_set() else [], POLL_S)
            except (Unreachable, Problem) as error:
                log.debug("directives: %s", error)
                pause_s = min(5.0, pause_s * 2 or 0.2)
                continue
            if not self._closed.is_set():
                self._told(answer.body)
            # An answer at once is either news or a server that does not wait: never poll it in a tight loop.
            pause_s = 0.0 if now_s() - asked_s > 0.2 else 0.2

    def _told(self, body: Json) -> None:
        for told in body.get("directives", []):
            if told.get("run") == self.run and int(told.get("epoch", self.epoch)) == self.epoch:
                self.obey(told.get("directive"), told)


def _sentence(cancel: Json | None) -> str:
    cancel = cancel or {}
    who = cancel.get("by")
    name = who.get("name") if isinstance(who, dict) else who
    reason = cancel.get("reason")
    return "the run was cancelled" + (f" by {name}" if name else "") + (f": {reason}" if reason else "")
