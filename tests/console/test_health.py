"""Whether the process lives, can serve, and whether due work is being claimed."""

from __future__ import annotations

import pytest
from django.db import DatabaseError
from django.test import Client

from console import beats, health
from console.celery import app
from console.models import SweepBeat
from tests.console.browsing import person
from tests.makers import new_run

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch):
    app.loader.import_default_modules()
    monkeypatch.setattr(beats, "_noted_s", {})


def everything_ran() -> None:
    for task in beats.sweeps():
        beats.note(task)


def ask(path: str):
    return Client().get(path)


def test_ready_needs_the_sweeps_and_serving_does_not():
    assert ask("/health/ready/").status_code == 503 and "Due work is not being claimed" in ask("/health/ready/").json()["detail"]
    assert ask("/readyz").json() == {"ready": True}
    everything_ran()
    assert ask("/health/ready/").json() == {"ready": True}


def test_one_sweep_that_has_stopped_is_enough(owner_connection):
    everything_ran()
    owner_connection.execute("UPDATE console_sweepbeat SET ran_at = ran_at - interval '5 min' WHERE task = 'runs.expire_leases'")
    assert beats.late() == ["runs.expire_leases"]
    assert ask("/health/ready/").status_code == 503


def test_a_sweep_that_runs_seldom_is_not_late_before_its_turn(monkeypatch):
    everything_ran()
    monkeypatch.setattr(beats, "sweeps", lambda: {"console.daily": 86400.0})
    assert beats.late() == []


def test_a_task_that_ends_well_is_noted_and_one_that_fails_is_not():
    app.tasks["runs.wake_waiting"].apply()
    assert beats.ages_s()["runs.wake_waiting"] is not None

    @app.task(name="tests.fails")
    def fails() -> None:
        raise ValueError("no")

    fails.apply()
    assert set(SweepBeat.objects.values_list("task", flat=True)) == {"runs.wake_waiting"}


def test_a_process_notes_a_task_once_in_a_while():
    beats.note("runs.wake_waiting")
    first = SweepBeat.objects.get().ran_at
    beats.note("runs.wake_waiting")
    assert SweepBeat.objects.get().ran_at == first


def test_every_scheduled_task_exists():
    assert set(beats.sweeps()) <= set(app.tasks)


def test_without_a_database_it_lives_and_is_not_ready(monkeypatch):
    def broken():
        raise DatabaseError("gone")

    monkeypatch.setattr(health.connection, "cursor", broken)
    assert ask("/healthz").json() == ask("/health/live/").json() == {"alive": True}
    for path in ("/readyz", "/health/ready/"):
        assert ask(path).status_code == 503 and ask(path).json()["detail"] == "The database does not answer."


def test_a_missing_migration_is_said(owner_connection, monkeypatch):
    monkeypatch.setattr(health, "_seen_migrated", False)
    row = owner_connection.execute(
        "SELECT id, app, name, applied FROM django_migrations WHERE app = 'console' ORDER BY id DESC LIMIT 1"
    ).fetchone()
    owner_connection.execute("DELETE FROM django_migrations WHERE id = %s", [row[0]])
    try:
        assert "lacks migrations" in ask("/readyz").json()["detail"]
    finally:
        owner_connection.execute("INSERT INTO django_migrations VALUES (%s, %s, %s, %s)", row)
    assert ask("/readyz").status_code == 200


def test_no_one_waiting_is_not_shown_as_someone():
    new_run()
    body = person().get("/runs/").content.decode()
    assert '<b data-count="runs.needs_person" data-zero>0</b>' in body
    assert '<b data-count="runs.running">1</b>' in body
