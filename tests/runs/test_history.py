"""History cannot be changed: by the app role, which has no right to, nor by the owner, whom the triggers stop."""

from __future__ import annotations

import psycopg
import pytest

from ledger import intents
from ledger.models import Account, Evidence, Reliance
from reconciliation.models import CaseEvent
from runs import leases, lifecycle, sealing
from runs.models import CancelRequest, Event, Seal
from tests import platform
from tests.makers import WORKER, assert_counters, cancel, intent, new_run, nonce, send, step, sweep, tell

pytestmark = pytest.mark.usefixtures("database")

TABLES = (
    "runs_event",
    "runs_cancelrequest",
    "runs_seal",
    "ledger_evidence",
    "ledger_account",
    "ledger_reliance",
    "reconciliation_caseevent",
)
CHANGES = ("UPDATE {} SET id = id", "DELETE FROM {}", "TRUNCATE {} CASCADE")


@pytest.fixture
def history(fake):
    """At least one row in every table of history."""
    fake.promise(lookup="none")
    run, token = new_run()
    tell(send(run, token), "landed")
    lifecycle.finish(WORKER, run.pk, token, "completed")
    other, other_token = new_run("w-2")
    step(other, other_token)
    intents.declare(WORKER, other.pk, other_token, nonce(), intent(if_exists="reuse"))
    tell(send(other, other_token, ref="PO-2", ordinal=1, provider="fake"), "unknown")
    sweep()
    cancel(other)
    leases.stopped(WORKER, other.pk, other_token)
    sealing.seal_due()
    for model in (Event, CancelRequest, Seal, Evidence, Account, Reliance, CaseEvent):
        assert model.objects.exists(), model
    assert_counters()


@pytest.mark.parametrize("url", [platform.APP_URL, platform.OWNER_URL], ids=["app", "owner"])
def test_no_history_is_changed_by_anybody(history, url):
    for table in TABLES:
        with psycopg.connect(url, autocommit=True) as connection:
            before = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            for change in CHANGES:
                with pytest.raises((psycopg.errors.InsufficientPrivilege, psycopg.errors.RestrictViolation)) as refusal:
                    connection.execute(change.format(table))
                if url == platform.OWNER_URL:
                    assert "append-only" in str(refusal.value), (table, change)
                else:
                    assert isinstance(refusal.value, psycopg.errors.InsufficientPrivilege), (table, change)
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == before


def test_the_app_role_cannot_switch_the_triggers_off(history):
    with psycopg.connect(platform.APP_URL, autocommit=True) as connection:
        for trick in (
            "SET session_replication_role = replica",
            "ALTER TABLE runs_event DISABLE TRIGGER ALL",
            "DROP TRIGGER runs_event_append_only ON runs_event",
            "DROP TABLE runs_event",
            "CREATE TABLE mine (id int)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(trick)


def test_models_refuse_it_too(history):
    for model in (Event, CancelRequest, Seal, Evidence, Account, Reliance, CaseEvent):
        row = model.objects.first()
        with pytest.raises(TypeError):
            row.save()
        with pytest.raises(TypeError):
            row.delete()


def test_every_event_has_its_place_and_its_actor(history):
    for run_id in Event.objects.exclude(run=None).values_list("run_id", flat=True).distinct():
        seqs = list(Event.objects.filter(run=run_id).order_by("seq").values_list("seq", flat=True))
        assert seqs == list(range(1, len(seqs) + 1))
    assert not Event.objects.filter(actor_type="").exists()
    assert not Event.objects.filter(tx=None).exists()
