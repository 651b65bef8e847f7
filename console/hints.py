"""What a topic of `runs/hints.py` makes run sooner: one Celery task each, sent by name after the commit. Losing every one loses nothing."""

from __future__ import annotations

import time

from console.celery import app

NOT_SOONER_S = 0.2  # a hint for each of ten thousand effects would start ten thousand sweeps: the next turn of the schedule has them all

TASKS = {
    "webhook.received": "reconciliation.process_webhooks",
    "looks.due": "reconciliation.look_due",
    "case.wanted": "reconciliation.keep_cases",
    "bulk.requested": "runs.work_off_bulk",
    "operation.settled": "runs.wake_waiting",
    "notification.made": "notifications.deliver",
    "undo.due": "ledger.carry_out_undos",
}

_sent: dict[str, float] = {}


def deliver(topic: str) -> None:
    """Send the topic's task, unless this process has just done so. A broker that is down is another alarm: the sweeps find the work."""
    now = time.monotonic()
    if now - _sent.get(topic, -NOT_SOONER_S) < NOT_SOONER_S:
        return
    app.send_task(TASKS[topic], expires=5, retry=False, ignore_result=True)
    _sent[topic] = now
