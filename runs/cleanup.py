"""What becomes of cleanup items: which are left to do, the run's budget for them, and what is left behind (listed, and a person is told).

It hands nothing out: the worker's verbs are in `cleaning.py`.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from runs import states, transition
from runs.actors import Actor
from runs.book import Line, book
from runs.models import Cleanup, Run

UNCLAIMED_FOR = timedelta(minutes=10)
REGISTERED, CLAIMED, DONE, LEFT_BEHIND, VOIDED = Cleanup.STATES
OPEN = (REGISTERED, CLAIMED)


def to_do(run: Run) -> list[Cleanup]:
    """What is registered and not yet handed out, in order."""
    return list(Cleanup.objects.filter(run=run, state=REGISTERED).order_by("order", "registered_at", "id"))


def waits(run: Run, item: Cleanup) -> bool:
    """Whether the item still waits for the effect it cleans to be known."""
    return item.cleans is not None and not book().condition_met(run, {"kind": "operation", "operation_id": str(item.cleans)})


def spend_call(run: Run, item: Cleanup) -> None:
    """Count one outside call of an item on the locked run; the item's first was counted when it was handed out."""
    run.cleanup_calls += int(item.calls > 0)
    item.calls += 1
    item.save(update_fields=["calls"])


def over_calls(run: Run) -> str:
    """Why no further call may begin ('' while there is budget)."""
    return f"its budget of {run.cleanup_calls_max} calls was used up" if run.cleanup_calls >= run.cleanup_calls_max else ""


def over_time(run: Run) -> str:
    """Why the time for cleaning is over ('' while there is budget)."""
    if run.cleanup_started_at is not None:
        used_s = (transition.clock() - run.cleanup_started_at).total_seconds()
        if used_s >= run.cleanup_seconds_max:
            return f"its budget of {run.cleanup_seconds_max:g} s was used up"
    return ""


def enforce_budget(run: Run, actor: Actor) -> None:
    """Leave behind what the budget no longer reaches."""
    if why := over_calls(run) or over_time(run):
        leave(run, to_do(run), why, actor)


def leave(run: Run, items: list[Cleanup], why: str, actor: Actor) -> None:
    """Items that will not be run: listed with the reason, and a case is opened for them."""
    for item in items:
        item.state, item.why, item.finished_at = LEFT_BEHIND, why, transition.clock()
        item.save(update_fields=["state", "why", "finished_at"])
        transition.record(run, "cleanup.left_behind", actor, subject=item.key, data={"why": why})


def advance(run: Run, actor: Actor) -> bool:
    """Whether a quiet run has cleanup left to do; interrupted, over-budget and unclaimed items are left behind on the way."""
    interrupted = list(Cleanup.objects.filter(run=run, state=CLAIMED).order_by("order"))
    if run.lease_token is not None:
        return True
    leave(run, interrupted, "its worker was lost; it is never run twice", actor)
    enforce_budget(run, actor)
    if run.quiet_at is not None and _last_activity(run) + UNCLAIMED_FOR <= transition.clock():
        _leave_unclaimed(run, actor)
    return bool(to_do(run))


def _leave_unclaimed(run: Run, actor: Actor) -> None:
    """What had its time and was not taken. What stood behind another handler's item had no chance yet: its time begins now."""
    waiting = [item for item in to_do(run) if waits(run, item)]
    leave(run, waiting, "the effect that it cleans was still not known after 10 minutes", actor)
    offered = to_do(run)
    leave(run, [item for item in offered if item.handler == offered[0].handler], "no worker took it within 10 minutes", actor)


def _last_activity(run: Run) -> datetime:
    times = Cleanup.objects.filter(run=run, finished_at__isnull=False).values_list("finished_at", flat=True)
    return max(time for time in [run.quiet_at, *times] if time is not None)


def is_registered(run: Run) -> bool:
    """Whether the run has anything to clean."""
    return Cleanup.objects.filter(run=run, state=REGISTERED).exists()


def give_up(run: Run, closed_as: str, actor: Actor) -> None:
    """The run closes now: nothing is cleaned after a completion; after a termination it is left behind and listed."""
    items = list(Cleanup.objects.filter(run=run, state__in=OPEN).order_by("order", "registered_at"))
    if closed_as == states.COMPLETED:
        Cleanup.objects.filter(pk__in=[i.pk for i in items]).update(state=VOIDED, finished_at=transition.clock())
    else:
        leave(run, items, f"the run was {closed_as}", actor)


def lines(run: Run, *states_wanted: str) -> list[Line]:
    """The items as JSON lines (all of them, or those in some states)."""
    rows = Cleanup.objects.filter(run=run).order_by("order", "registered_at")
    if states_wanted:
        rows = rows.filter(state__in=states_wanted)
    return [line(item) for item in rows]


def line(item: Cleanup) -> Line:
    """One item as a JSON line."""
    return {
        "key": item.key,
        "handler": item.handler,
        "state": item.state,
        "why": item.why or None,
        "cleans": str(item.cleans) if item.cleans else None,
    }
