"""What a topic of `runs/hints.py` makes run sooner: one Celery task each, sent by name after the commit. Losing every one loses nothing."""

from __future__ import annotations

from console.celery import app

TASKS = {
    "webhook.received": "reconciliation.process_webhooks",
    "looks.due": "reconciliation.look_due",
    "case.wanted": "reconciliation.keep_cases",
    "bulk.requested": "runs.work_off_bulk",
    "operation.settled": "runs.wake_waiting",
    "notification.made": "notifications.deliver",
    "undo.due": "ledger.carry_out_undos",
}


def deliver(topic: str) -> None:
    """Send the topic's task. A broker that is down is somebody else's alarm: the sweeps find the work."""
    app.send_task(TASKS[topic], expires=5, retry=False, ignore_result=True)
