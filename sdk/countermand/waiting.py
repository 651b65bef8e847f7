"""Waiting without a process: suspending, approvals, children, times. The stored condition decides when the run goes
on, not a timer here.
"""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from countermand import steps
from countermand.clock import now_s
from countermand.errors import ApprovalRejected, ChildCancelled, ChildFailed, Json, Problem, RunSuspended, Unreachable
from countermand.suspending import given_back, suspend

if TYPE_CHECKING:
    from countermand.run import Run

_CLOSED = ("completed", "failed", "cancelled", "terminated")


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's yes. Pass it to `run.effect(approval=…)`, which spends it."""

    id: str
    by: Any = None
    comment: str | None = None


def approval(run: Run, key: str, **asked: Any) -> Approval:
    """See Run.approval."""
    steps.check_key(key)
    run.authority.check()
    body = {"lease": run.lease.token, "key": key, **{name: value for name, value in asked.items() if value is not None}}
    run.authority.wait_until_idle()
    try:
        answer = run.authority.act(lambda: run.authority.door.request_approval(run.id, body))
    except Problem as problem:
        if problem.code != "effects_in_flight":
            raise
        suspend(run, "evidence", "effects of the run are not known yet; the approval is asked for after them")
    if answer.status == 200 and "decision" in answer.body:
        return _decided(answer.body, key)
    given_back(run)
    raise RunSuspended("approval", f"the run waits for an approval: {asked['question']}")


def _decided(answer: Json, key: str) -> Approval:
    by = answer.get("by")
    if answer["decision"] == "approved":
        return Approval(str(answer.get("approval") or answer.get("id") or key), by, answer.get("comment"))
    facts = {"decision": answer["decision"], "by": by, "comment": answer.get("comment")}
    raise ApprovalRejected(f"the approval {key!r} was {answer['decision']}", facts)


def child(run: Run, key: str, body: Json, *, wait: bool) -> Any:
    """See Run.child."""
    start = steps.opening("child", title=body["title"])
    stored = steps.begin(run, key, start)
    if stored is not None:
        return steps.outcome_of(stored, key)
    create = {**body, "client_key": f"{run.id}:{key}", "parent": {"run": run.id, "lease": run.lease.token}}
    made = run.authority.act(lambda: run.authority.door.create_run(create)).body
    child_id = str((made.get("run") or made)["id"])
    if not wait:
        return None
    until_s = now_s() + (run.block_s or 0)
    while True:
        found = run.authority.act(lambda: run.authority.door.get_run(child_id)).body
        if found["state"] in _CLOSED:
            return _child_closed(run, key, found)
        run.authority.check()
        if run.block_s is None or now_s() >= until_s:
            suspend(run, "child", f"the run waits for its child {found.get('ref')}", child=child_id)
        time.sleep(0.5)


def _child_closed(run: Run, key: str, found: Json) -> Any:
    facts = {"run": found["id"], "ref": found.get("ref"), "state": found["state"]}
    if found["state"] == "completed":
        steps.finish(run, key, {"outcome": "done", "result": found.get("result")})
        return found.get("result")
    if found["state"] == "failed":
        error: ChildFailed | ChildCancelled = ChildFailed(f"child {found.get('ref')} failed", {**facts, "error": found.get("error")})
    else:
        error = ChildCancelled(f"child {found.get('ref')} was {found['state']}", {**facts, "account": _account(run, str(found["id"]))})
    steps.finish(run, key, steps.failed(error))
    raise error


def _account(run: Run, child_id: str) -> Json | None:
    try:
        return run.authority.door.get_account(child_id).body
    except (Problem, Unreachable):
        return None  # the token may not read accounts; the plan is told all the same


def sleep_until(run: Run, key: str, wake_at: str) -> None:
    """See Run.sleep_until. The control plane's clock decides whether the time has come, not this machine's."""
    when = datetime.datetime.fromisoformat(wake_at)
    if when.tzinfo is None:
        raise ValueError(f"wake_at needs an offset (2026-01-31T09:00:00+00:00), not {wake_at!r}")
    if steps.begin(run, key, steps.opening("wait", title=f"wait until {wake_at}")) is not None:
        return
    if run.lease.server_now() < when:
        suspend(run, "time", f"the run waits until {wake_at}", wake_at=wake_at)
    steps.finish(run, key, {"outcome": "done", "result": None})
