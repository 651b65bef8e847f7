"""Celery for Countermand: hints and a schedule, never the truth. The schedule is the one table below."""

import os

from celery import Celery
from django.conf import settings

from console import broker

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

broker.install()
app = Celery("countermand", task_cls="console.beats:Noted")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# name → (task, seconds between two runs). Every task is a sweep that is safe to run twice.
SCHEDULE: dict[str, tuple[str, float]] = {
    "expired leases": ("runs.expire_leases", 1.0),
    "attempts past their answer_by": ("ledger.time_out_attempts", 1.0),
    "stopping runs that are quiet": ("runs.advance_stopping", 1.0),
    "waiting runs whose condition is met": ("runs.wake_waiting", 1.0),
    "deadlines of runs and steps": ("runs.pass_deadlines", 1.0),
    "children of parents": ("runs.count_children", 1.0),
    "open lines of bulk cancels": ("runs.work_off_bulk", 2.0),
    "approved undos": ("ledger.carry_out_undos", 1.0),
    "due looks": ("reconciliation.look_due", 1.0),
    "stored webhooks": ("reconciliation.process_webhooks", 1.0),
    "cases wanted, moot or lapsed": ("reconciliation.keep_cases", 2.0),
    "events to be told": ("notifications.follow", 1.0),
    "messages to be delivered": ("notifications.deliver", 2.0),
    "events to seal": ("runs.seal_events", 5.0),
    "heads of the chains, kept outside": ("console.keep_anchors", settings.ANCHOR_EVERY_S),
    "records that should agree": ("console.check_records", 30.0),
}

AGENTS = "console.run_agents"
if settings.CELERY_AGENTS:
    SCHEDULE["agents that run inside Celery"] = (AGENTS, 1.0)

app.conf.beat_schedule = {
    name: {"task": task, "schedule": seconds_between, "options": {"expires": max(seconds_between, 5)}}
    for name, (task, seconds_between) in SCHEDULE.items()
}
