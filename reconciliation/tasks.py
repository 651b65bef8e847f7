"""Celery's doors to finding out: every task is a sweep that is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from reconciliation import cases, ceilings, looks, webhooks

LOOK_TURN_S = 1.0  # as often as the schedule starts it


@shared_task(name="reconciliation.look_due")
def look_due() -> int:
    """Ask about what is due, until the next beat of this task."""
    return looks.look_for(LOOK_TURN_S)


@shared_task(name="reconciliation.process_webhooks")
def process_webhooks() -> int:
    """Use the webhooks that are stored."""
    return webhooks.process_due()


@shared_task(name="reconciliation.keep_cases")
def keep_cases() -> int:
    """Open the cases that are wanted, settle those that are moot, free lapsed claims."""
    opened = ceilings.pass_ceilings() + ceilings.open_wanted() + ceilings.watch_stopping() + ceilings.open_left_behind()
    return opened + cases.settle_moot() + ceilings.settle_outages() + cases.release_lapsed()
