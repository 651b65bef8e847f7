"""Celery's doors to finding out: every task is a sweep that is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from reconciliation import cases, ceilings, looks, webhooks

LOOK_TURN_S = 2.0  # twice the schedule's interval: while there is much to ask, two turns run side by side


@shared_task(name="reconciliation.look_due")
def look_due() -> int:
    """Ask about what is due, for a turn."""
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
