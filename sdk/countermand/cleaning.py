"""Cleanup items: run under a lease of their own, with a budget of seconds and calls, undisturbed by further cancels."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Callable
from typing import Any

from countermand.authority import Authority
from countermand.clock import now_s
from countermand.doors import Door
from countermand.effects import Sent, interpret
from countermand.errors import ControlFlow, CountermandError, Json, LeaseLost, Problem, Unreachable, said
from countermand.facts import Facts
from countermand.faultpoints import reached
from countermand.sending import Doubt, Send, carry_out

log = logging.getLogger("countermand")

_TTL_S = 30.0


class OverBudget(CountermandError):
    """The run's cleanup budget (seconds or calls) is used up; what is left is listed as left behind."""


class CleanupLease:
    """A cleanup item's lease. A cancel is not heard here: cleanup is what follows it."""

    def __init__(self, door: Door, cleanup: str, run: str, lease: Json, asked_s: float) -> None:
        self.door = door
        self.cleanup = cleanup
        self.run = run
        self.token = str(lease["token"])
        self.ttl_s = float(lease.get("expires_in_s") or _TTL_S)
        self.expires_s = asked_s + self.ttl_s
        self._lost: LeaseLost | None = None
        self._closed = threading.Event()

    def start(self) -> None:
        """Start renewing."""
        threading.Thread(target=self._renew, name=f"countermand-cleanup-{self.cleanup}", daemon=True).start()

    def close(self) -> None:
        """Stop renewing."""
        self._closed.set()

    def check(self) -> None:
        """Raise LeaseLost when this process no longer holds the item."""
        if self._lost is not None:
            raise LeaseLost(*self._lost.args)

    def out_of_time(self, margin_s: float = 0.0) -> bool:
        """Whether the lease has run out by the local clock."""
        return now_s() + margin_s >= self.expires_s

    def lose(self, why: str) -> LeaseLost:
        """The item is no longer held here."""
        self._lost = LeaseLost(why)
        return self._lost

    def read(self, problem: Problem) -> ControlFlow | None:
        """The control flow a refusal stands for. `cancelled` here means that the budget is used up: an ordinary refusal."""
        return self.lose(problem.detail) if problem.code in ("lease_lost", "already_closed") else None

    def _renew(self) -> None:
        while not self._closed.wait(self.ttl_s / 3) and self._lost is None:
            asked_s = now_s()
            try:
                answer = self.door.heartbeat_cleanup(self.cleanup, {"lease": self.token})
            except Unreachable as error:
                log.warning("heartbeat of cleanup %s: %s", self.cleanup, error)
            except Problem as problem:
                if self.read(problem) is None:
                    log.error("heartbeat of cleanup %s was refused: %s", self.cleanup, problem)
            else:
                self.expires_s = asked_s + float(answer.body.get("lease_expires_in_s") or self.ttl_s)


class Cleanup:
    """What a handler gets as its first argument when that is called `scope`: effects with role cleanup, within the
    budget.
    """

    def __init__(self, item: Json, authority: Authority, lease: CleanupLease, budget: Json) -> None:
        self.item = item
        self.authority = authority
        self._lease = lease
        self._until_s = now_s() + float(budget["seconds"]) if budget.get("seconds") is not None else None
        self._calls_left = budget.get("calls")
        self._ordinals = 0

    @property
    def seconds_left(self) -> float | None:
        """Seconds left of the budget, None when it has no such limit."""
        return None if self._until_s is None else self._until_s - now_s()

    def checkpoint(self) -> None:
        """Raise OverBudget or LeaseLost when this item should not go on."""
        self.authority.check()
        if self._until_s is not None and now_s() >= self._until_s:
            raise OverBudget("the time for cleaning up this run is used up")

    def effect(self, provider: str, action: str, *, ref: str, send: Send, request: Json, **options: Any) -> Sent:
        """As `Run.effect`, for tidying only: the control plane refuses what is not `cleanup_ok` at the provider."""
        self.checkpoint()
        if self._calls_left is not None and self._ordinals >= int(self._calls_left):
            raise OverBudget("the calls for cleaning up this run are used up")
        self._ordinals += 1
        body: Json = {
            "lease": self._lease.token, "step": self.item["key"], "ordinal": self._ordinals, "role": "cleanup",
            "provider": provider, "action": action, "business_ref": ref, "request": request,
            **{name: value for name, value in options.items() if value is not None},
        }  # fmt: skip
        return interpret(carry_out(self.authority, body, send), body)


def clean(door: Door, facts: Facts, claimed: Json, handlers: dict[str, Callable[..., Any]], asked_s: float) -> str:
    """Run one claimed item (`cleanup`, `lease`, `budget`) and say how it ended: done, failed or lost."""
    item = claimed["cleanup"]
    run = item["run"]["id"] if isinstance(item["run"], dict) else str(item["run"])
    lease = CleanupLease(door, str(item["id"]), run, claimed["lease"], asked_s)
    authority = Authority(door, facts, lease, role="cleanup")
    scope = Cleanup(item, authority, lease, claimed.get("budget") or {})
    lease.start()
    outcome, detail = "done", ""
    try:
        reached("during_cleanup", run=run, key=item["key"])
        _call(handlers[item["handler"]], scope, item.get("arguments") or {})
    except Doubt:
        outcome, detail = "failed", "it is not known whether the cleanup action happened; it is being looked up"
    except LeaseLost as lost:
        log.warning("cleanup %s is no longer held here: %s", item["key"], lost)
        return "lost"
    except Exception as error:
        log.exception("cleanup %s failed", item["key"])
        outcome, detail = "failed", said(error)
    finally:
        lease.close()
    return _finish(authority, door, item, {"lease": lease.token, "outcome": outcome, **({"detail": detail} if detail else {})})


def _finish(authority: Authority, door: Door, item: Json, body: Json) -> str:
    try:
        authority.act(lambda: door.finish_cleanup(str(item["id"]), body))
    except (LeaseLost, Problem) as error:
        log.warning("how cleanup %s ended could not be recorded: %s", item["key"], error)
        return "lost"
    return str(body["outcome"])


def _call(handler: Callable[..., Any], scope: Cleanup, arguments: Json) -> None:
    first = next(iter(inspect.signature(handler).parameters), None)
    if first == "scope":
        handler(scope, **arguments)
    else:
        handler(**arguments)
