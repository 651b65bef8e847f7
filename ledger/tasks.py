"""Celery's doors to the ledger: every task is a sweep that is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from ledger import compensations, executing, outcomes


@shared_task(name="ledger.time_out_attempts")
def time_out_attempts() -> int:
    """Attempts past their `answer_by`: silence means unknown."""
    return outcomes.time_out_due()


@shared_task(name="ledger.carry_out_undos")
def carry_out_undos() -> int:
    """What was approved is sent, once; requests that expired or went stale end."""
    return executing.execute_due() + compensations.lapse_due()
