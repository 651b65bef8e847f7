"""Celery's door to the agents that run inside it. Losing a task loses nothing: the next one finds the same rows."""

from __future__ import annotations

from celery import shared_task


@shared_task(name="console.run_agents")
def run_agents() -> int:
    """Run what is scheduled for Celery."""
    from console import runtime  # the SDK is loaded only in workers that run agents

    return runtime.work_off()
