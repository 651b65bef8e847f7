"""Cancelling many: fixed at the click, one line and one answer for each run, and nothing lost or repeated when a worker dies."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest

from runs import actors, bulk, cancellation, children, leases, lifecycle, waiting
from runs.actors import Actor
from runs.lifecycle import NewRun
from runs.models import BulkCancel, BulkLine, CancelRequest, Run
from tests.makers import SUPPORT, WORKER, assert_counters, cancel, child_of, fresh, new_run, refused, send, tell
from tests.races.line import RUN, line

pytestmark = pytest.mark.usefixtures("database")

MACHINE = Actor("machine", "tok-mine", "billing token", "api", actors.MACHINE_SCOPES, frozenset({"billing"}))


def answers(job: BulkCancel) -> list[str]:
    return list(BulkLine.objects.filter(job=job).order_by("number").values_list("answer", flat=True))


def work_off(job: BulkCancel) -> dict[str, int]:
    while bulk.work_off():
        pass
    job.refresh_from_db()
    assert job.finished_at is not None
    sums = bulk.sums(job)
    assert sum(value for name, value in sums.items() if name != "total") == sums["total"] == job.total
    assert sums["open"] == 0
    return sums


def test_one_line_each_whatever_the_run_is_doing():
    running, token = new_run("w-1")
    sending, sending_token = new_run("w-2")
    sent = send(sending, sending_token)
    waits, waits_token = new_run("w-3")
    tell(send(waits, waits_token, ref="PO-2"), "unknown")
    waiting.suspend(WORKER, waits.pk, waits_token, "evidence")
    queued, _ = new_run("")
    stopping, _ = new_run("w-4")
    cancel(stopping)
    cancelled, _ = new_run("")
    cancel(cancelled)
    completed, done = new_run("w-5")
    lifecycle.finish(WORKER, completed.pk, done, "completed", {})
    names = [running.ref, sending.ref.lower(), str(waits.pk), queued.ref, stopping.ref, cancelled.ref, completed.ref]
    job = bulk.request(SUPPORT, "The import was wrong.", names=[*names, "R-0000000000", "nonsense", running.ref])
    assert job.total == 9, "twice the same is once"
    sums = work_off(job)
    assert answers(job) == ["accepted"] * 4 + ["repeat", "repeat", "already_closed", "not_found", "not_found"]
    assert sums == {
        "accepted": 4,
        "repeat": 2,
        "already_closed": 1,
        "not_allowed": 0,
        "not_found": 2,
        "failed": 0,
        "open": 0,
        "total": 9,
    }
    for run in (running, sending, waits, queued):
        asked = CancelRequest.objects.get(run=run)
        assert (asked.answer, asked.reason, asked.channel, asked.actor_name) == ("accepted", "The import was wrong.", "bulk", "Sam Support")
    assert [line["ref"] for line in CancelRequest.objects.get(run=sending).receipt["in_flight"]] == [sent.effect.ref]
    details = dict(BulkLine.objects.filter(job=job).values_list("number", "detail"))
    assert details[4] == "Cancelled." and details[1] == "Cancelling." and details[7] == "It had already completed."
    tell(sent, "landed")
    assert_counters()


def test_what_may_not_be_cancelled_is_said_and_keeps_nobody_else_waiting():
    ours, _ = new_run("", agent="billing")
    theirs, _ = new_run("")
    more, _ = new_run("", agent="billing")
    job = bulk.request(MACHINE, names=[ours.ref, theirs.ref, more.ref])
    work_off(job)
    assert answers(job) == ["accepted", "not_allowed", "accepted"]
    assert fresh(theirs).state == "scheduled"
    assert "billing token may not cancel runs of purchase-order" in BulkLine.objects.get(job=job, number=2).detail
    with refused("not_allowed"):
        bulk.request(Actor("person", "p", "Ode", "web", frozenset({actors.RUN_READ})), names=[theirs.ref])


def test_a_locked_run_is_a_failure_of_its_own(monkeypatch):
    monkeypatch.setattr(cancellation, "LOCK_WAIT_S", 0.0)
    locked, _ = new_run("")
    free, _ = new_run("")
    job = bulk.request(SUPPORT, names=[locked.ref, free.ref])
    with line() as held, held.holder.transaction():
        held.holder.execute(RUN, (locked.pk,))
        bulk.work_off()
    assert answers(job) == ["failed", "accepted"]
    assert "Nothing was stopped" in BulkLine.objects.get(job=job, number=1).detail
    assert fresh(locked).cancel_position is None


def test_none_and_too_many_are_refused(monkeypatch):
    with refused("invalid"):
        bulk.request(SUPPORT, names=[])
    with refused("invalid"):
        bulk.request(SUPPORT, matching=Run.objects.filter(agent="nobody"), selection={"filter": {"agent": "nobody"}})
    with refused("invalid") as told:
        bulk.request(SUPPORT, names=[str(uuid.uuid4()) for _ in range(5001)])
    assert "5,000" in told.value.detail
    monkeypatch.setattr(bulk, "RUNS_MAX", 2)
    for _ in range(3):
        new_run("")
    with refused("invalid"):
        bulk.request(SUPPORT, matching=Run.objects.all(), selection={"filter": {}})
    assert not BulkCancel.objects.exists()


def test_five_thousand_are_not_too_many():
    job = bulk.request(SUPPORT, names=[str(uuid.uuid4()) for _ in range(5000)])
    assert (job.total, BulkLine.objects.filter(job=job).count()) == (5000, 5000)


def test_runs_that_start_after_the_click_are_not_included():
    early, _ = new_run("")
    job = bulk.request(SUPPORT, matching=Run.objects.filter(agent="purchase-order"), selection={"filter": {"agent": ["purchase-order"]}})
    late, _ = new_run("")
    work_off(job)
    assert (fresh(early).state, fresh(late).state, job.total) == ("cancelled", "scheduled", 1)


@pytest.mark.parametrize("killed_at", ["in a batch", "between cancels and their lines"])
def test_a_restart_in_the_middle_repeats_and_loses_nothing(monkeypatch, killed_at):
    """A worker that dies is a transaction that never commits, or one that has while its lines have not been written."""
    made = [new_run("")[0] for _ in range(6)]
    monkeypatch.setattr(bulk, "TOGETHER", 2)
    job = bulk.request(SUPPORT, "Wrong.", names=[run.ref for run in made])

    class Killed(BaseException):
        pass

    turns = iter(range(3))
    real = cancellation.request_cancels

    def dies(*args, **kwargs):
        second = next(turns) == 1
        if second and killed_at == "in a batch":
            raise Killed
        got = real(*args, **kwargs)
        if second:
            raise Killed
        return got

    with monkeypatch.context() as patched:
        patched.setattr(cancellation, "request_cancels", dies)
        with pytest.raises(Killed):
            bulk.work_off()
    done_before = sum(fresh(run).is_closed for run in made)
    assert done_before == (4 if killed_at == "between cancels and their lines" else 2)
    assert bulk.sums(job)["open"] == 4
    work_off(job)
    assert answers(job) == ["accepted"] * 6, "what this very job had cancelled is not called somebody else's"
    assert CancelRequest.objects.filter(answer="accepted").count() == 6
    assert all(fresh(run).state == "cancelled" for run in made)


def test_somebody_else_who_was_first_stays_the_one_who_asked():
    run, _ = new_run("w-1")
    job = bulk.request(SUPPORT, names=[run.ref])
    cancel(run, reason="by hand")
    work_off(job)
    assert answers(job) == ["repeat"]
    assert CancelRequest.objects.get(run=run, answer="accepted").reason == "by hand"


def test_parents_and_their_children_in_one_selection():
    parent, token = new_run("w-1")
    child, child_token = child_of(parent, token, "w-2")
    grandchild, _ = child_of(child, child_token)
    job = bulk.request(SUPPORT, names=[grandchild.ref, parent.ref, child.ref])
    work_off(job)
    assert answers(job) == ["accepted"] * 3
    causes = {asked.run_id: asked.caused_by and asked.caused_by.run_id for asked in CancelRequest.objects.all()}
    assert causes == {parent.pk: None, child.pk: parent.pk, grandchild.pk: child.pk}


def family(size: int, holder: str) -> tuple[Run, list[tuple[uuid.UUID, str]]]:
    """A running parent with running children; every lease that is held."""
    parent, token = new_run(holder, ttl_s=600)
    held = [(parent.pk, token)]
    for _ in range(size):
        made = lifecycle.create(
            WORKER, NewRun("purchase-order", "Part", {}), holder=holder, ttl_s=600, parent_id=parent.pk, parent_lease=token
        )
        held.append((made.run.pk, made.grant.token))
    return parent, held


def close_all(held: list[tuple[uuid.UUID, str]]) -> None:
    for run_id, token in held:
        leases.stopped(WORKER, run_id, token)
    while children.recount_due() or cancellation.advance_due():
        pass


@pytest.mark.timeout(900)
def test_five_hundred_families_and_a_large_one_are_all_closed():
    """500 runs with 3 children each and one with 250 children, half of the families at work and half queued."""
    held, parents = [], []
    for number in range(500):
        if number % 10:  # the parent gave its lease back and waits for a worker; its children were never claimed
            parent, token = new_run("w-0")
            for _ in range(3):
                child_of(parent, token)
            leases.release(WORKER, parent.pk, token)
        else:
            parent, leases_of = family(3, f"w-{number}")
            held += leases_of
        parents.append(parent)
    large, leases_of = family(250, "w-large")
    held += leases_of
    job = bulk.request(SUPPORT, "All of it.", names=[run.ref for run in [*parents, large]])
    assert work_off(job)["accepted"] == 501
    assert not Run.objects.filter(cancel_position=None).exists()
    close_all(held)
    assert Counter(Run.objects.values_list("state", flat=True)) == {"cancelled": 501 + 1500 + 250}
    assert not Run.objects.exclude(children_open=0).exists()
