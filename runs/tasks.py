"""Celery's doors to the life of a run: every task is a sweep that is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from runs import approvals, bulk, cancellation, children, leases, sealing, steps, waiting


@shared_task(name="runs.expire_leases")
def expire_leases() -> int:
    """Leases that ran out: what they were sending becomes unknown."""
    return leases.expire_due()


@shared_task(name="runs.advance_stopping")
def advance_stopping() -> int:
    """Stopping runs that have become quiet are closed."""
    return cancellation.advance_due()


@shared_task(name="runs.wake_waiting")
def wake_waiting() -> int:
    """Runs whose condition is met are scheduled."""
    return waiting.wake_due()


@shared_task(name="runs.pass_deadlines")
def pass_deadlines() -> int:
    """Runs past their deadline are cancelled; steps, approvals and stored cancels past theirs are timed out or expired."""
    passed = cancellation.cancel_past_deadline() + steps.time_out_due()
    return passed + approvals.expire_due() + cancellation.expire_stored()


@shared_task(name="runs.count_children")
def count_children() -> int:
    """Parents learn what has become of their children."""
    return children.recount_due()


@shared_task(name="runs.work_off_bulk")
def work_off_bulk() -> int:
    """Open lines of bulk cancels get their answers."""
    return bulk.work_off()


@shared_task(name="runs.seal_events")
def seal_events() -> int:
    """What was committed lately is sealed into the hash chains."""
    return sealing.seal_due()
