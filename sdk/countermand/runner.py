"""Runs a plan to its end in this process and says truthfully how it ended: finished, waiting, stopped or given back."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from countermand import steps
from countermand.async_run import AsyncRun
from countermand.authority import Authority
from countermand.doors import Door
from countermand.errors import (
    ControlFlow,
    Json,
    LeaseLost,
    Problem,
    RunCancelled,
    RunReleased,
    RunSuspended,
    Unreachable,
    said,
)
from countermand.facts import Facts
from countermand.lease import Lease
from countermand.run import Run
from countermand.suspending import suspend

log = logging.getLogger("countermand")

TTL_S = 30.0
_GIVEN_UP = (KeyboardInterrupt, asyncio.CancelledError)  # the process stops, not the plan: another worker goes on


def open_run(
    door: Door,
    facts: Facts,
    claimed: Json,
    *,
    ttl_s: float | None,
    asked_s: float,
    shutdown: threading.Event | None = None,
    block_s: float | None = None,
) -> Run:
    """Make a Run of a claim's answer (`run`, `lease`, `steps`) and start renewing its lease."""
    run, held = claimed["run"], claimed["lease"]
    lease = Lease(door, facts, str(run["id"]), held, ttl_s=ttl_s or float(held.get("expires_in_s") or TTL_S), asked_s=asked_s)
    authority = Authority(door, facts, lease, shutdown=shutdown)
    lease.start()
    finished = [step for step in claimed.get("steps", []) if step.get("state") in ("done", "failed", "timed_out", "discarded")]
    return Run(run, authority, lease, finished, block_s=block_s)


def execute(run: Run, plan: Callable[..., Any]) -> str:
    """Run the plan to its end. Returns completed, failed, cancelled, suspended, released or lost.

    Raises KeyboardInterrupt only.
    """
    try:
        try:
            result = _call_plan(plan, run)
        except BaseException as error:
            ended = end(run, error)
            if isinstance(error, KeyboardInterrupt):
                raise
            return ended
        return end(run, None, result)
    finally:
        run.lease.close()


def _call_plan(plan: Callable[..., Any], run: Run) -> Any:
    if inspect.iscoroutinefunction(plan):
        return asyncio.run(_on_loop(plan, run))
    return plan(run)


async def _on_loop(plan: Callable[..., Any], run: Run) -> Any:
    return await plan(AsyncRun(run))


def end(run: Run, error: BaseException | None, result: Any = None) -> str:
    """Report how the plan ended."""
    if run.authority.given_back:
        return "suspended"
    if isinstance(error, _GIVEN_UP):
        error = RunReleased("this process gives up")
    # Nothing of this run may still be sending when we say that it has stopped.
    run.authority.wait_until_idle()
    try:
        if error is None or not isinstance(error, ControlFlow):
            return _finish(run, error, result)
    except ControlFlow as over:
        error = over
    if isinstance(error, RunReleased):
        return _release(run)
    run.lease.wait_until_told()
    run.authority.facts.tell("stopped", run.id, {"lease": run.lease.token})
    if isinstance(error, RunCancelled):
        return "cancelled"
    log.warning("run %s is no longer held here: %s", run.ref or run.id, error)
    return "lost"


def _finish(run: Run, error: BaseException | None, result: Any) -> str:
    body: Json = {"lease": run.lease.token, "outcome": "completed", "result": result}
    if error is None:
        try:
            body["result"] = steps.as_stored(result, "the plan")
        except TypeError as wrong:
            error = wrong
    if error is not None:
        log.error("run %s failed", run.ref or run.id, exc_info=error)
        body = {"lease": run.lease.token, "outcome": "failed", "error": said(error)}
    for _ in range(3):
        try:
            run.authority.act(lambda: run.authority.door.finish_run(run.id, body))
            return str(body["outcome"])
        except Problem as problem:
            if problem.code != "effects_in_flight":
                raise LeaseLost(f"the control plane did not accept how the run ended: {problem}") from problem
            try:
                suspend(run, "evidence", "an effect of the run is not known yet")
            except RunSuspended:
                return "suspended"
            except Problem:
                time.sleep(0.5)
    raise LeaseLost("the run cannot finish while an attempt of it is open")


def _release(run: Run) -> str:
    try:
        run.authority.door.release(run.id, {"lease": run.lease.token})
    except (Problem, Unreachable) as problem:
        log.warning(
            "run %s could not be given back (%s); saying instead that this worker has stopped",
            run.ref or run.id,
            problem,
        )
        run.authority.facts.tell("stopped", run.id, {"lease": run.lease.token})
    return "released"
