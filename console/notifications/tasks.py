"""Celery's doors to telling: every task is a sweep that is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from console.notifications import delivering, following


@shared_task(name="notifications.follow")
def follow() -> int:
    """Events that are to be told become messages."""
    return following.follow()


@shared_task(name="notifications.deliver")
def deliver() -> int:
    """Messages that are due are sent."""
    return delivering.deliver_due()
