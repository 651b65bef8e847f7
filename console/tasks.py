"""Celery's doors to what the console keeps: agents that run inside it, and what speaks for the history. Losing a task loses nothing."""

from __future__ import annotations

from celery import shared_task

from console.audit import keeping


@shared_task(name="console.run_agents")
def run_agents() -> int:
    """Run what is scheduled for Celery."""
    from console import runtime  # the SDK is loaded only in workers that run agents

    return runtime.work_off()


@shared_task(name="console.keep_anchors")
def keep_anchors() -> int:
    """The heads of the chains are kept outside the database."""
    return keeping.keep_anchors()


@shared_task(name="console.check_records")
def check_records() -> int:
    """Runs that changed are judged by the invariants; once a day every chain is verified."""
    return keeping.check_records()
