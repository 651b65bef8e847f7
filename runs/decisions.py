"""What becomes of an undecided approval, written once with its step and event. Who may decide, and when, is judged in `approvals.py`."""

from __future__ import annotations

from runs import transition
from runs.actors import Actor
from runs.models import Approval, Run, Step


def record(run: Run, approval: Approval, state: str, actor: Actor, comment: str) -> None:
    """Write what became of an undecided approval of a locked run, with its step and event."""
    approval.state, approval.comment = state, comment
    approval.decided_at, approval.decided_by, approval.decided_name = transition.clock(), actor.id, actor.name
    approval.save(update_fields=["state", "comment", "decided_at", "decided_by", "decided_name"])
    result = {"decision": state, "by": actor.name, "comment": comment, "digest": approval.digest}
    ended = "stopped" if state == "withdrawn" else "done"
    Step.objects.filter(run=run, key=approval.key).update(state=ended, result=result, finished_at=approval.decided_at)
    transition.record(run, f"approval.{state}", actor, subject=approval.key, data=result)


def withdraw(run: Run, why: str, actor: Actor) -> list[str]:
    """The locked run is being stopped: its undecided approvals are withdrawn with the reason. Returns their keys."""
    keys = []
    for approval in Approval.objects.select_for_update().filter(run=run, state="requested").order_by("pk"):
        record(run, approval, "withdrawn", actor, why)
        keys.append(approval.key)
    return keys
