"""The end of a run: when it is quiet, how we know, and the one UPDATE that closes it."""

from __future__ import annotations

from typing import Any

from runs import cleanup, decisions, deliveries, epochs, states, transition
from runs.actors import Actor
from runs.book import book
from runs.models import Lease, Run, Step

STOPPED = "stopped"
REAPED = "reaped"
PRESUMED = "presumed"


def advance(run: Run, actor: Actor) -> None:
    """Move a stopping run as far as the facts allow: quiet, then cleaned up and its children closed, then closed.

    A terminated run is closed before it is quiet; when it is, that is noted too.
    """
    if run.state not in states.STOPPING and run.state != states.TERMINATED:
        return
    if run.quiet_at is None:
        if not is_quiet(run):
            return
        mark_quiet(run, actor)
    if run.is_closed or cleanup.advance(run, actor) or run.children_open:
        return
    close(run, states.CANCELLED if run.state == states.CANCELLING else states.FAILED, actor)


def close_unstarted(runs: list[Run], actor: Actor) -> None:
    """Close runs that are being cancelled and never had a lease, all at once: nobody ever acted for them, and they hold nothing."""
    now = transition.clock()
    for run in runs:
        run.quiet_at, run.quiet_basis = now, STOPPED
    transition.record_all(runs, "run.quiet", actor, {"basis": STOPPED, "held": False})
    for run in runs:
        run.state, run.closed_at = states.CANCELLED, now
    transition.record_all(runs, "run.cancelled", actor)
    book().issue_accounts(runs)


def is_quiet(run: Run) -> bool:
    """Nobody holds the lease, nothing is sending, and no attempt may still act (its sender has stopped or its time to answer is over)."""
    return run.lease_token is None and run.in_flight == 0 and book().may_act_until(run) is None


def mark_quiet(run: Run, actor: Actor) -> None:
    """Stamp the moment after which nothing of the run is acting, with how we know it."""
    run.quiet_at = transition.clock()
    run.quiet_basis = basis(run)
    deliveries.at_quiet(run)
    transition.record(run, "run.quiet", actor, data={"basis": run.quiet_basis, "held": run.lease_epoch > 0})


def basis(run: Run) -> str:
    """The weakest of what we know of every sender the run ever had: presumed, reaped or stopped."""
    known = set(Lease.objects.filter(run=run).values_list("stopped_how", flat=True))
    if "" in known:
        return PRESUMED
    return REAPED if known - {"worker"} else STOPPED


def upgrade_basis(run: Run, actor: Actor) -> None:
    """A late fact about a sender may turn *presumed* into something we know."""
    if run.quiet_at is not None and run.quiet_basis == PRESUMED and (better := basis(run)) != PRESUMED:
        run.quiet_basis = better
        transition.record(run, "run.quiet_confirmed", actor, data={"basis": better})


def close(
    run: Run,
    state: str,
    actor: Actor,
    data: dict[str, Any] | None = None,
    lease_ended: str = "closed",
    sender_stopped: str = "",
) -> None:
    """Close the locked run for ever: declared effects are withheld, what still sends becomes unknown, the account is issued.

    A lease that is still held ends as `lease_ended`; `sender_stopped` says by whom its sender is known to have stopped.
    """
    ledger = book()
    if sender_stopped:
        ledger.sender_stopped(run, run.lease_epoch, sender_stopped, actor)
    ledger.give_up(run, None, "closed", actor)
    ledger.withhold(run, state, actor)
    ledger.leave_unasked([run])
    decisions.withdraw(run, f"the run was {state}", actor)
    cleanup.give_up(run, state, actor)
    if state != states.COMPLETED:
        Step.objects.filter(run=run, state__in=["running", "waiting"]).update(state="stopped", finished_at=transition.clock())
    if run.lease_token is not None:
        epochs.end(run, lease_ended, sender_stopped)
    run.state = state
    run.closed_at = transition.clock()
    run.waits_for = None
    run.wake_at = None
    transition.record(run, f"run.{state}", actor, data=data)
    ledger.issue_accounts([run])
