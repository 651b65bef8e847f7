"""The front door of the SDK: which agents this program knows, and the ways to run them."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, TypeVar

from countermand.cleaning import clean
from countermand.clock import now_s
from countermand.doors import Answer, Door, HttpDoor
from countermand.errors import (
    CountermandError,
    Json,
    LeaseLost,
    RunReleased,
    RunSuspended,
    RunWaits,
    Unreachable,
)
from countermand.facts import Facts
from countermand.holders import new_holder
from countermand.run import Run
from countermand.runner import end, execute, open_run
from countermand.spool import Spool, default_folder
from countermand.work import Supervisor

Plan = TypeVar("Plan", bound=Callable[..., Any])


class Countermand:
    """A program's connection to the control plane.

    `url`, `token`: where and as whom (`cm_<id>_<secret>`), or `door`: another implementation of `Door`. `spool`:
    folder for facts that cannot be delivered (default COUNTERMAND_SPOOL or ~/.countermand/spool).
    """

    def __init__(self, url: str = "", token: str = "", *, door: Door | None = None, spool: Spool | str | None = None) -> None:
        if door is None and not (url and token):
            raise CountermandError("give url and token, or set COUNTERMAND_URL and COUNTERMAND_TOKEN and use Countermand.from_env()")
        self.door: Door = door or HttpDoor(url, token)
        if not isinstance(spool, Spool):
            spool = Spool(spool or default_folder(url or "in-process"))
        self.facts = Facts(self.door, spool)
        self.agents: dict[str, Callable[..., Any]] = {}
        self.cleanups: dict[str, Callable[..., Any]] = {}

    @classmethod
    def from_env(cls) -> Countermand:
        """Read COUNTERMAND_URL and COUNTERMAND_TOKEN. Raises CountermandError naming what is missing."""
        missing = [name for name in ("COUNTERMAND_URL", "COUNTERMAND_TOKEN") if not os.environ.get(name)]
        if missing:
            raise CountermandError(f"set {' and '.join(missing)} (an administrator makes tokens on the dashboard's Access page)")
        return cls(os.environ["COUNTERMAND_URL"], os.environ["COUNTERMAND_TOKEN"])

    def agent(self, name: str) -> Callable[[Plan], Plan]:
        """Register a plan: `fn(run)`, sync or async. Its return value (JSON) is the run's result."""

        def register(plan: Plan) -> Plan:
            self.agents[name] = plan
            return plan

        return register

    def cleanup(self, name: str) -> Callable[[Plan], Plan]:
        """Register a cleanup handler: `fn(**arguments)`, or `fn(scope, **arguments)` to cause effects."""

        def register(handler: Plan) -> Plan:
            self.cleanups[name] = handler
            return handler

        return register

    def create(self, agent: str, *, title: str | None = None, input: Any = None, **options: Any) -> Json:
        """Create a run for some worker to claim; returns the run. Safe to repeat with the same `client_key`.

        `options`: business_ref, client_key, labels, plan (step keys known beforehand), deadline_at (ISO 8601), runtime.
        Raises Problem (client_key_reused, cancelled), Unreachable.
        """
        body = {
            "agent": agent,
            "title": title or agent,
            "input": {} if input is None else input,
            **{k: v for k, v in options.items() if v is not None},
        }
        answer = self._create(body)
        run: Json = answer.body.get("run") or answer.body
        return run

    def start(
        self,
        agent: str,
        *,
        business_ref: str | None = None,
        input: Any = None,
        title: str | None = None,
        client_key: str | None = None,
        labels: Json | None = None,
        plan: list[str] | None = None,
        deadline_at: str | None = None,
        ttl_s: float = 30.0,
        block_s: float = 60.0,
    ) -> Started:
        """A run in this process: `with cm.start("purchase-order", business_ref="PO-1042") as run:`.

        `ttl_s`: lease in seconds. `block_s`: how many seconds doubt may block before RunWaits is raised out of the
        `with`.
        """
        options = {
            "business_ref": business_ref,
            "client_key": client_key,
            "labels": labels,
            "plan": plan,
            "deadline_at": deadline_at,
        }
        body: Json = {
            "agent": agent,
            "title": title or agent,
            "input": {} if input is None else input,
            **{k: v for k, v in options.items() if v is not None},
        }
        return Started(self, body, ttl_s=ttl_s, block_s=block_s)

    def claim_once(
        self,
        *,
        agents: list[str] | None = None,
        holder: str | None = None,
        ttl_s: float | None = None,
        wait_s: float = 0.0,
        shutdown: threading.Event | None = None,
    ) -> str | None:
        """Claim one run and run its plan to its end, in this thread. Returns how it ended, or None when there was
        nothing to do.

        Raises Unreachable or Problem when the claim itself fails. For Celery tasks, cron jobs and tests; `work` is
        the usual way.
        """
        body: Json = {"holder": holder or new_holder(), "agents": agents or sorted(self.agents), "wait_s": wait_s}
        if ttl_s is not None:
            body["ttl_s"] = ttl_s
        asked_s = now_s()
        answer = self.door.claim(body)
        if answer.status == 204 or "lease" not in answer.body:
            return None
        # A claim that waited began long before its lease did: then the lease counts from its answer.
        return self.execute(answer.body, ttl_s=ttl_s, asked_s=asked_s if wait_s == 0 else now_s(), shutdown=shutdown)

    def execute(
        self,
        claimed: Json,
        *,
        ttl_s: float | None = None,
        asked_s: float | None = None,
        shutdown: threading.Event | None = None,
    ) -> str:
        """Run the plan of an already claimed run (a claim's answer) to its end. Returns how it ended."""
        run = open_run(self.door, self.facts, claimed, ttl_s=ttl_s, asked_s=asked_s or now_s(), shutdown=shutdown)
        plan = self.agents.get(run.agent)
        if plan is None:
            run.lease.close()
            return end(run, RunReleased(f"no agent {run.agent!r} is registered here"))
        return execute(run, plan)

    def clean_once(self, *, holder: str | None = None) -> str | None:
        """Claim one cleanup item and run its handler, in this thread. Returns done, failed, lost, or None when there
        was none.
        """
        asked_s = now_s()
        answer = self.door.claim_cleanup({"holder": holder or new_holder(), "handlers": sorted(self.cleanups)})
        if answer.status == 204 or "lease" not in answer.body:
            return None
        return clean(self.door, self.facts, answer.body, self.cleanups, asked_s)

    def work(self, *, processes: int = 1, concurrency: int = 1, ttl_s: float | None = None, grace_s: float = 30.0) -> None:
        """Claim and run, for ever: `processes` child processes with `concurrency` runs each, supervised by this one.

        `ttl_s`: lease in seconds (default: the agent's). SIGTERM or SIGINT: sends in progress finish, leases are
        given back, the spool is delivered, within `grace_s` seconds; a second one kills the children. Call it from
        the main thread.
        """
        Supervisor(self, processes=processes, concurrency=concurrency, ttl_s=ttl_s, grace_s=grace_s).run()

    def deliver_spool(self) -> int:
        """Deliver spooled facts now, as far as possible. Returns how many were delivered."""
        return self.facts.flush()

    def close(self) -> None:
        """Give connections back."""
        self.door.close()

    def _create(self, body: Json) -> Answer:
        key = uuid.uuid4().hex
        for last in (False, False, True):
            try:
                return self.door.create_run(body, key)
            except Unreachable:
                if last:
                    raise
        raise AssertionError("unreachable")


class Started:
    """A run of this process, as a context manager. Leaving it normally completes the run; an exception fails it."""

    def __init__(self, cm: Countermand, body: Json, *, ttl_s: float, block_s: float) -> None:
        self._cm = cm
        self._body = body
        self._ttl_s = ttl_s
        self._block_s = block_s
        self._run: Run | None = None
        self.result: Any = None

    def __enter__(self) -> Run:
        body = {**self._body, "claim": {"holder": new_holder(), "ttl_s": self._ttl_s}}
        self._cm.facts.flush()
        asked_s = now_s()
        answer = self._cm._create(body)
        if "lease" not in answer.body:
            run = answer.body.get("run") or answer.body
            raise RunWaits(
                "worker",
                f"run {run.get('ref')} exists already with this client_key: a worker continues it",
            )
        self._run = open_run(self._cm.door, self._cm.facts, answer.body, ttl_s=self._ttl_s, asked_s=asked_s, block_s=self._block_s)
        return self._run

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> Literal[False]:
        run = self._run
        if run is None:
            return False
        try:
            ended = end(run, error, self.result)
        finally:
            run.lease.close()
        self._cm.facts.flush()
        if isinstance(error, RunSuspended):
            raise RunWaits(error.waits_for, f"{error} (run {run.ref}); a worker started with cm.work() continues it") from error
        if error is None and ended == "suspended":
            raise RunWaits("evidence", f"an effect of run {run.ref} is not known yet; a worker started with cm.work() continues it")
        if error is None and ended in ("cancelled", "lost"):
            run.lease.check()
            raise LeaseLost(f"run {run.ref} was not completed by this process")
        return False
