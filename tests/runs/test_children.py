"""Trees of runs: nothing escapes a cancel, a parent is told what became of its children, and its account follows theirs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.db import connections

from ledger import accounts, intents
from ledger.models import Account
from runs import children, cleaning, leases, lifecycle, transition, waiting
from runs.errors import Cancelled
from runs.models import CancelRequest, Event, Run
from tests.makers import (
    OTHER,
    SUPPORT,
    WORKER,
    cancel,
    child_of,
    claim,
    fresh,
    intent,
    kinds,
    new_run,
    nonce,
    refused,
    send,
    step,
    sweep,
    tell,
)
from tests.races.conftest import contenders  # noqa: F401
from tests.races.line import RUN

pytestmark = pytest.mark.usefixtures("counters")

STARTS = ("child.created", "run.claimed", "effect.sending", "effect.declared", "step.started", "cleanup.claimed")


def started_after_their_cancel(root: Run) -> list[str]:
    """Every start, in any run of the tree, with a position after that run's cancel."""
    tree = [root, *Run.objects.filter(root=root)]
    return [
        f"{run.ref} {event.kind} {event.seq} > {run.cancel_position}"
        for run in map(fresh, tree)
        for event in Event.objects.filter(run=run, kind__in=STARTS)
        if run.cancel_position is None or event.seq > run.cancel_position
    ]


# Trees that keep spawning -------------------------------------------------------------------------------------------


class Spawners:
    """Threads that start things in a loop, each in a run of its own, until the fence refuses them."""

    def __init__(self, count: int) -> None:
        self.threads = [ThreadPoolExecutor(1) for _ in range(count)]

    def go(self, *acts: Callable[[int], object]) -> list[Future[int]]:
        """Every act is called again and again; returns once each has been done at least once."""
        started = threading.Barrier(len(acts) + 1)
        futures = [thread.submit(_until_refused, act, started) for thread, act in zip(self.threads, acts, strict=True)]
        started.wait(60)
        return futures


def _until_refused(act: Callable[[int], object], started: threading.Barrier) -> int:
    for number in range(500):
        try:
            act(number)
        except Cancelled:
            return number
        finally:
            if number == 0:
                started.wait(60)
    raise AssertionError("500 starts, and no cancel")


@contextmanager
def spawning(count: int) -> Iterator[Spawners]:
    made = Spawners(count)
    try:
        yield made
    finally:
        for thread in made.threads:
            thread.submit(connections.close_all).result(10)
            thread.shutdown()


@pytest.mark.timeout(900)
def test_a_tree_that_keeps_spawning_at_every_level_is_cancelled_a_hundred_times():
    with spawning(5) as spawners:
        for turn in range(100):
            _cancel_a_spawning_tree(spawners, turn)


def _cancel_a_spawning_tree(spawners: Spawners, turn: int) -> None:
    root, token = new_run("w-root", ttl_s=300)
    middle, middle_token = child_of(root, token, "w-middle")
    other, other_token = child_of(root, token, "w-other")
    leaf, leaf_token = child_of(middle, middle_token, "w-leaf")
    step(leaf, leaf_token, "order")

    def sends(number: int) -> None:
        wanted = intent(f"PO-{turn}-{number}", ordinal=number)
        intents.declare(WORKER, leaf.pk, leaf_token, nonce(), wanted)

    futures = spawners.go(
        lambda number: child_of(root, token, "w-new" if number % 2 else ""),
        lambda _: child_of(middle, middle_token, "w-new"),
        lambda number: child_of(other, other_token, "w-new" if number % 2 else ""),
        lambda number: step(leaf, leaf_token, f"more-{number}"),
        sends,
    )
    assert cancel(root).kind == "accepted"
    assert all(future.result(60) >= 1 for future in futures)
    assert started_after_their_cancel(root) == []
    tree = Run.objects.filter(root=root)
    assert not tree.filter(cancel_position=None).exists()
    assert CancelRequest.objects.filter(run__in=tree, answer="accepted").exclude(caused_by=None).count() == tree.count() >= 6


@pytest.mark.parametrize("cancel_first", [True, False])
def test_a_grandchild_that_is_being_created_while_its_grandparent_is_cancelled(contenders, cancel_first):  # noqa: F811
    """The lock of the run in the middle decides; a new statement for each level sees a child that was committed during the wait."""
    root, token = new_run()
    middle, middle_token = child_of(root, token, "w-2")
    acts = [lambda: cancel(root), lambda: child_of(middle, middle_token, "w-3")]
    answers = contenders.race(RUN, (middle.pk,), *(acts if cancel_first else reversed(acts)))
    if cancel_first:
        assert isinstance(answers[1], Cancelled)
        assert not middle.children.exists()
    else:
        grandchild = fresh(answers[0][0])
        assert (grandchild.state, kinds(grandchild)[-1]) == ("cancelling", "cancel.accepted")
        cause = CancelRequest.objects.get(run=grandchild).caused_by
        assert (cause.run_id, cause.caused_by.run_id) == (middle.pk, root.pk)
    assert started_after_their_cancel(root) == []


@pytest.mark.parametrize("cancel_first", [True, False])
def test_a_descendants_send_against_the_cancel_of_the_tree(contenders, cancel_first):  # noqa: F811
    root, token = new_run()
    child, child_token = child_of(root, token, "w-2")
    step(child, child_token)
    acts = [lambda: cancel(root), lambda: intents.declare(WORKER, child.pk, child_token, nonce(), intent())]
    answers = contenders.race(RUN, (child.pk,), *(acts if cancel_first else reversed(acts)))
    receipt = CancelRequest.objects.get(run=root).receipt
    listed = [line["ref"] for line in receipt["children"][0]["in_flight"]]
    if cancel_first:
        assert isinstance(answers[1], Cancelled) and listed == []
    else:
        assert listed == [answers[0].effect.ref]
    assert started_after_their_cancel(root) == []


# What children are told, and what they tell -------------------------------------------------------------------------


def test_four_running_children_are_told_whose_request_it_was():
    run, token = new_run()
    four = [child_of(run, token, f"w-{number}") for number in range(2, 6)]
    first = cancel(run, reason="Wrong prices.").request
    for child, _ in four:
        told = CancelRequest.objects.get(run=child, answer="accepted")
        assert (told.caused_by_id, told.actor_id, told.reason, told.position) == (
            first.pk,
            SUPPORT.id,
            "Wrong prices.",
            fresh(child).cancel_position,
        )
        assert fresh(child).state == "cancelling"
    for child, child_token in four:
        leases.stopped(WORKER, child.pk, child_token)
    leases.stopped(WORKER, run.pk, token)
    sweep()
    assert (fresh(run).state, fresh(run).children_open) == ("cancelled", 0)


def test_a_late_result_of_a_child_neither_wakes_nor_resumes_its_parent():
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    waiting.suspend(WORKER, run.pk, token, "child", child=child.pk)
    cancel(run)
    with refused("cancelled"):
        lifecycle.finish(WORKER, child.pk, child_token, "completed", {"price": 3})
    leases.stopped(WORKER, child.pk, child_token)
    sweep()
    sweep()
    for one in (run, child):
        assert (fresh(one).state, fresh(one).result, fresh(one).waits_for) == ("cancelled", None, None)
    assert not {"run.woke", "run.claimed"} & set(kinds(run)[fresh(run).cancel_position :])
    assert leases.claim(WORKER, "w-9", ["purchase-order"]) is None


def test_a_result_that_was_first_does_not_wake_a_parent_cancelled_before_the_sweep():
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    waiting.suspend(WORKER, run.pk, token, "child", child=child.pk)
    lifecycle.finish(WORKER, child.pk, child_token, "completed", {"price": 3})
    cancel(run)
    assert waiting.wake_due() == 0
    sweep()
    assert (fresh(run).state, fresh(child).state) == ("cancelled", "completed")


def test_a_child_that_is_cancelled_alone_wakes_the_parent_that_waits_for_it():
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    waiting.suspend(WORKER, run.pk, token, "child", child=child.pk)
    cancel(child)
    assert waiting.wake_due() == 0, "it has not closed yet"
    leases.stopped(WORKER, child.pk, child_token)
    assert waiting.wake_due() == 1
    assert claim("w-3")[0].pk == run.pk
    assert accounts.latest(fresh(child))["state"] == "cancelled"


def close(child: Run, token: str) -> Run:
    return lifecycle.finish(WORKER, child.pk, token, "completed", {"price": 3})


@pytest.mark.parametrize("close_first", [True, False])
def test_a_child_that_closes_in_the_instant_its_parent_suspends_on_it(contenders, close_first):  # noqa: F811
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    acts = [lambda: close(child, child_token), lambda: waiting.suspend(WORKER, run.pk, token, "child", child=child.pk)]
    if close_first:
        contenders.race(RUN, (child.pk,), acts[0])
        assert acts[1]().waits_for is None, "met already: scheduled at once"
    else:
        contenders.race(RUN, (run.pk,), acts[1])
        acts[0]()
        assert waiting.wake_due() == 1
    assert (fresh(run).state, fresh(run).waits_for) == ("scheduled", None)


def test_a_child_that_closes_between_the_check_and_the_commit_of_the_suspend(contenders, monkeypatch):  # noqa: F811
    """The suspend has looked and stored its condition; the child closes before that commits. Only the sweep can know, and does."""
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    looked, closed = threading.Event(), threading.Event()
    record = transition.record

    def slowly(one: Run, kind: str, *args: object, **kwargs: object) -> int:
        if kind == "run.suspended":
            looked.set()
            assert closed.wait(30)
        return record(one, kind, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(transition, "record", slowly)
    with spawning(1) as (one):
        suspended = one.threads[0].submit(waiting.suspend, WORKER, run.pk, token, "child", child=child.pk)
        assert looked.wait(30)
        close(child, child_token)
        closed.set()
        assert suspended.result(30).waits_for is not None
    assert waiting.wake_due() == 1
    assert fresh(run).state == "scheduled"


# Parents that have ended, and accounts ------------------------------------------------------------------------------


def test_a_child_outlives_its_parent_is_cancelled_and_the_account_follows():
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    sent = send(child, child_token)
    lifecycle.finish(WORKER, run.pk, token, "completed", {"done": 1})
    assert fresh(run).status == "completed_pending"
    issued = Account.objects.get(run=run)
    assert (issued.version, issued.final, issued.body["children"][0]["state"]) == (1, False, "running")

    late = cancel(run, actor=OTHER)
    assert (late.kind, fresh(child).state) == ("already_closed", "running"), "a closed run has nothing left to cancel"
    assert cancel(child).kind == "accepted"
    tell(sent, "unknown")
    leases.stopped(WORKER, child.pk, child_token)
    children.recount_due()
    second = Account.objects.filter(run=run).latest("version")
    assert (second.version, second.final) == (2, False), "the child has closed, what it sent is not known"
    assert [line["ref"] for line in second.body["children"][0]["unknown"]] == [sent.effect.ref]

    tell(sent, "landed")
    children.recount_due()
    last = Account.objects.filter(run=run).latest("version")
    assert (last.version, last.final, fresh(run).status) == (3, True, "completed")
    assert [line["ref"] for line in last.body["children"][0]["landed"]] == [sent.effect.ref]
    assert (last.body["combined"]["landed"], last.body["totals"]["landed"]) == (1, 0)
    assert children.recount_due() == 0, "nothing is issued again when nothing has changed"


def test_a_parent_stays_cancelling_until_all_below_it_have_closed():
    root, token = new_run()
    middle, middle_token = child_of(root, token, "w-2")
    leaf, leaf_token = child_of(middle, middle_token, "w-3")
    cancel(root)
    leases.stopped(WORKER, root.pk, token)
    leases.stopped(WORKER, middle.pk, middle_token)
    for _ in range(3):
        sweep()
        assert [fresh(one).state for one in (root, middle, leaf)] == ["cancelling"] * 3
    leases.stopped(WORKER, leaf.pk, leaf_token)
    for _ in range(3):
        sweep()
    assert [fresh(one).state for one in (root, middle, leaf)] == ["cancelled"] * 3
    assert accounts.latest(fresh(root))["final"]


def test_a_failing_child_keeps_its_end_when_the_tree_is_cancelled():
    """Its end is decided: it closes as failed, whoever asks."""
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    cleaning.register(WORKER, child.pk, child_token, "hold", "release-hold", {})
    lifecycle.finish(WORKER, child.pk, child_token, "failed", error="x")
    assert fresh(child).state == "failing"
    receipt = cancel(run).request.receipt
    assert (receipt["children"][0]["state"], receipt["children"][0]["position"]) == ("failing", None)
    assert CancelRequest.objects.get(run=child).answer == "already_closed"
    assert fresh(child).cancel_position is None
    assert cancel(child).kind == "already_closed"
