"""Celery for Countermand: hints and a schedule, never the truth. The schedule is the one table below."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

app = Celery("countermand")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()

# name → (task, seconds between two runs). Every task is a sweep that is safe to run twice.
SCHEDULE: dict[str, tuple[str, float]] = {}

app.conf.beat_schedule = {
    name: {"task": task, "schedule": seconds_between, "options": {"expires": max(seconds_between, 5)}}
    for name, (task, seconds_between) in SCHEDULE.items()
}
