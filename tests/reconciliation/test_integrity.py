"""The invariants on a live database: what disagrees is found soon, told once, shown until it is explained, and never invented."""

from __future__ import annotations

import pytest
from django.core.management import CommandError, call_command

from reconciliation import integrity
from reconciliation.models import Discrepancy, IntegrityCheck
from runs import leases, timeline
from runs.errors import Invalid, NotFound
from runs.models import Event
from tests.makers import ADMIN, WORKER, cancel, fresh, new_run, send, step, sweep, tell

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def owner(owner_connection):
    owner_connection.execute("SET session_replication_role = replica")
    return owner_connection


def stopped_run():
    run, token = new_run()
    tell(send(run, token), "landed")
    send(run, token, ref="PO-2", ordinal=1, begin=False)
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    sweep()
    return run


def spoil_counter(owner, run):
    owner.execute("UPDATE runs_run SET effects_total = effects_total + 1 WHERE id = %s", (run.pk,))


def act_after_quiet(owner, run):
    version = fresh(run).version + 1
    timeline.append(run.pk, version, "step.started", WORKER, "late", {"epoch": 1})
    owner.execute("UPDATE runs_run SET version = %s WHERE id = %s", (version, run.pk))


def test_records_that_agree_raise_nothing():
    integrity.check_recent()
    stopped_run()
    new_run()
    assert integrity.check_recent() == 0
    last = integrity.last_check()
    assert last is not None and (last.checked, last.found) == (2, 0)
    assert integrity.check_all() == 0
    assert integrity.banner() == ""


def test_a_wrong_counter_is_found_by_the_next_sweep_told_once_and_cleared_when_mended(owner):
    integrity.check_recent()
    run = stopped_run()
    spoil_counter(owner, run)
    assert integrity.check_recent() == 1
    assert integrity.check_recent() == 1
    one = Discrepancy.objects.get()
    assert one.run == run and one.invariant == "I8" and "effects_total is 3" in one.sentence
    assert Event.objects.filter(kind="integrity.broken", subject=one.ref).count() == 1
    assert integrity.banner() == (
        f"Records disagree: the counts of {run.ref} are not what its actions say. Do not rely on its account until this is explained."
        f" Engineers were told ({one.ref})."
    )
    owner.execute("UPDATE runs_run SET effects_total = effects_total - 1 WHERE id = %s", (run.pk,))
    assert integrity.check_recent() == 0
    assert Event.objects.filter(kind="integrity.cleared", subject=one.ref).count() == 1
    assert integrity.banner() == ""


def test_an_act_after_quiet_reads_as_the_design_says(owner):
    run = stopped_run()
    act_after_quiet(owner, run)
    integrity.check([run.pk])
    said = [one.invariant for one in integrity.open_ones()]
    assert "quiet" in said and "I1" in said
    Discrepancy.objects.exclude(invariant="quiet").delete()
    one = Discrepancy.objects.get()
    assert integrity.banner() == (
        f"Records disagree: an action started after quiet on {run.ref}. Treat this run as not stopped. Engineers were told ({one.ref})."
    )


def test_a_person_sets_aside_what_history_shows_for_ever(owner):
    run = stopped_run()
    act_after_quiet(owner, run)
    integrity.check([run.pk])
    for one in integrity.open_ones():
        with pytest.raises(Invalid):
            integrity.set_aside(ADMIN, one.ref, " ")
        integrity.set_aside(ADMIN, one.ref, "A test of ours wrote that row.")
    with pytest.raises(NotFound):
        integrity.set_aside(ADMIN, one.ref, "again")
    assert integrity.banner() == ""
    assert integrity.check_all() > 0
    assert integrity.open_count() == 0, "set aside means set aside"
    event = Event.objects.filter(kind="integrity.set_aside").first()
    assert event.actor_name == ADMIN.name and event.data["reason"].startswith("A test of ours")


def test_the_sweep_reads_only_what_changed_since_and_long_open_runs_when_they_stop(monkeypatch, owner):
    integrity.check_recent()
    run, token = new_run()
    integrity.check_recent()
    assert integrity.last_check().checked == 1
    integrity.check_recent()
    assert integrity.last_check().checked == 0
    monkeypatch.setattr(integrity, "LONG", 2)
    step(run, token)
    integrity.check_recent()
    assert integrity.last_check().checked == 0
    cancel(run)
    integrity.check_recent()
    assert integrity.last_check().checked == 1


def test_a_restored_copy_is_checked_from_now_on(owner):
    integrity.check_recent()
    owner.execute("UPDATE reconciliation_integritycheck SET tx = '999999999999'")
    new_run()
    integrity.check_recent()
    new_run("w-2")
    integrity.check_recent()
    assert IntegrityCheck.objects.order_by("-id").first().checked == 1


def test_the_command_names_what_disagrees(owner, capsys):
    run = stopped_run()
    call_command("check_invariants")
    assert "The records agree." in capsys.readouterr().out
    spoil_counter(owner, run)
    with pytest.raises(CommandError):
        call_command("check_invariants", run.ref)
    assert f"I8 {run.ref}: effects_total is" in capsys.readouterr().out
    ref = integrity.open_ones()[0].ref
    with pytest.raises(CommandError):
        call_command("check_invariants", set_aside=ref)
    call_command("check_invariants", set_aside=ref, reason="known")
    with pytest.raises(CommandError, match="No run is called"):
        call_command("check_invariants", "R-NOPE")
