"""Sealing: every committed event gets its place in its chain, once, in order, whatever commits meanwhile."""

from __future__ import annotations

import threading

import psycopg
import pytest
from django.db import IntegrityError, connections

from console.audit import chains
from runs import sealing, timeline
from runs.actors import system
from runs.models import Event, Seal
from tests import platform
from tests.makers import cancel, fresh, new_run, send, step, tell

pytestmark = pytest.mark.usefixtures("database")
TESTER = system("tester")
SAY = (
    "INSERT INTO runs_event (run_id, seq, kind, subject, actor_type, actor_id, actor_name, channel, data)"
    " VALUES (%s, %s, 'test.said', %s, 'system', 'x', 'x', '', '{}')"
)


def say(subject):
    timeline.append_system("test.said", TESTER, subject)


def verified():
    report = chains.verify_all()
    assert report.bad == []
    return report


def places():
    """Every place of every chain that is sealed, as (run, place)."""
    return [(seal.run_id, place) for seal in Seal.objects.all() for place in range(seal.first, seal.last + 1)]


def sealed_subjects():
    ids = [pk for seal in Seal.objects.filter(run=None).order_by("first") for pk in seal.events]
    subjects = dict(Event.objects.values_list("pk", "subject"))
    return [subjects[pk] for pk in ids]


def test_what_is_committed_is_sealed_and_verifies():
    run, token = new_run()
    tell(send(run, token), "landed")
    say("one")
    assert sealing.seal_due() == Event.objects.count()
    cancel(run)
    say("two")
    waiting = Event.objects.count() - len(places())
    assert sealing.seal_due() == waiting > 0
    report = verified()
    assert (report.count.sealed, report.unsealed) == (Event.objects.count(), 0)
    assert sorted(p for r, p in places() if r == run.pk) == list(range(1, fresh(run).version + 1))
    assert sealed_subjects() == ["one", "two"]
    assert sealing.seal_due() == 0


def test_nothing_is_sealed_that_an_earlier_commit_may_still_precede():
    with psycopg.connect(platform.APP_URL) as late:
        late.execute(SAY, (None, None, "first"))
        say("second")
        assert sealing.seal_due() == 0
        late.commit()
    assert sealing.seal_due() == 2
    assert sealed_subjects() == ["first", "second"]
    verified()


def test_a_run_is_not_sealed_past_an_event_that_is_not_safe_yet():
    run, token = new_run()
    sealing.seal_due()
    with psycopg.connect(platform.APP_URL) as early, psycopg.connect(platform.APP_URL) as long:
        early.execute("SELECT pg_current_xact_id()")
        long.execute("SELECT pg_current_xact_id()")
        step(run, token)  # seq n, in a younger transaction than that of seq n + 1
        version = fresh(run).version
        early.execute("UPDATE runs_run SET version = %s WHERE id = %s", (version + 1, run.pk))
        early.execute(SAY, (run.pk, version + 1, "next"))
        early.commit()
        assert sealing.seal_due() == 0
        long.rollback()
    assert sealing.seal_due() == 2
    assert verified().unsealed == 0


def test_fifty_writers_and_four_sweeps_fork_no_chain(monkeypatch):
    monkeypatch.setattr(sealing, "BATCH", 25)
    run, token = new_run()
    begin, stop = threading.Barrier(54), threading.Event()
    failures = []

    def guarded(work):
        def act():
            try:
                begin.wait()
                work()
            except Exception as error:
                failures.append(error)
            finally:
                connections.close_all()

        return threading.Thread(target=act)

    def write(number):
        step(run, token, f"step-{number}")
        for turn in range(4):
            say(f"{number}.{turn}")
        new_run(f"w-{number}")

    def sweep():
        while not stop.is_set():
            sealing.seal_due()

    writers = [guarded(lambda number=number: write(number)) for number in range(50)]
    sweeps = [guarded(sweep) for _ in range(4)]
    for thread in writers + sweeps:
        thread.start()
    for thread in writers:
        thread.join()
    stop.set()
    for thread in sweeps:
        thread.join()
    while sealing.seal_due():
        pass
    assert failures == []
    assert len(places()) == len(set(places())) == Event.objects.count()
    assert verified().count.sealed == Event.objects.count()


@pytest.mark.parametrize("of_run", [True, False])
def test_the_database_refuses_a_fork(of_run):
    run, _ = new_run()
    say("one")
    sealing.seal_due()
    seal = Seal.objects.filter(run__isnull=not of_run).first()
    twin = Seal(run_id=seal.run_id, first=seal.first, last=seal.last, previous=seal.previous, links=b"", head=seal.head)
    with pytest.raises(IntegrityError, match="follows_once"):
        twin.save()


def test_sealing_goes_on_in_the_cluster_that_a_copy_was_restored_into(owner_connection):
    say("before")
    sealing.seal_due()
    owner = owner_connection
    owner.execute("UPDATE runs_sealplace SET tx = (tx::text::bigint + 1000000)::text::xid8")
    owner.execute(
        "INSERT INTO runs_event (tx, kind, subject, actor_type, actor_id, actor_name, channel, data)"
        " SELECT (tx::text::bigint + 5)::text::xid8, 'test.said', 'copied unsealed', 'system', 'x', 'x', '', '{}' FROM runs_sealplace"
    )
    say("after")
    for _ in range(3):
        sealing.seal_due()
    assert sealed_subjects() == ["before", "copied unsealed", "after"]
    run, _ = new_run()
    say("and on")
    sealing.seal_due()
    assert sealed_subjects()[-1] == "and on"
    assert len(places()) == Event.objects.count()


def test_a_long_history_is_sealed_in_batches(monkeypatch):
    monkeypatch.setattr(sealing, "BATCH", 3)
    monkeypatch.setattr(sealing, "HELD_BACK_MAX", 0)
    run, token = new_run()
    for number in range(10):
        step(run, token, f"step-{number}")
    sealing.seal_due()
    assert verified().unsealed == 0
    assert Seal.objects.filter(run=run).count() > 1
