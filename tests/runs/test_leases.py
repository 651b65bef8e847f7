"""Leases: one holder, a rising epoch, authority only while it lasts, facts for ever."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import transaction

from ledger import intents
from runs import actors, cancellation, leases, lifecycle, steps, transition, waiting
from runs.actors import RUN_WORK
from runs.errors import Invalid, NotAllowed
from runs.models import Lease
from tests.makers import (
    WORKER,
    again,
    cancel,
    claim,
    fresh,
    intent,
    kinds,
    let_time_pass,
    new_run,
    nonce,
    refused,
    send,
    step,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")


def acts(run, token, sent=None):
    """Everything that needs authority."""
    return [
        lambda: leases.heartbeat(WORKER, run.pk, token),
        lambda: steps.start(WORKER, run.pk, token, steps.NewStep("more")),
        lambda: intents.declare(WORKER, run.pk, token, nonce(), intent(ref="PO-NEW", ordinal=5)),
        lambda: waiting.suspend(WORKER, run.pk, token, "evidence"),
        lambda: lifecycle.finish(WORKER, run.pk, token, "completed"),
        lambda: lifecycle.finish(WORKER, run.pk, token, "failed"),
        lambda: lifecycle.create(WORKER, lifecycle.NewRun("purchase-order", "c", {}), parent_id=run.pk, parent_lease=token),
        *([lambda: intents.begin(WORKER, sent.effect.pk, token, nonce())] if sent else []),
    ]


def test_a_thawed_worker_is_refused_every_act_and_every_fact_is_kept():
    run, token = new_run()
    sent = send(run, token)
    declared = send(run, token, ref="PO-2", ordinal=1, begin=False)
    step(run, token, "think", kind="model_call")
    let_time_pass(31)
    leases.expire_due()
    version = fresh(run).version
    for act in acts(run, token, declared):
        with refused("lease_lost"):
            act()
    assert fresh(run).version == version
    assert tell(sent, "landed") == "applied"
    assert cancellation.heard(WORKER, run.pk, token).pk == run.pk
    thought, recorded = steps.finish(WORKER, run.pk, token, "think", "done", {"x": 1}, cost={"usd": 1})
    assert (recorded, thought.state, thought.result) == ("discarded", "running", None)
    leases.stopped(WORKER, run.pk, token)
    assert Lease.objects.get(run=run).stopped_how == "worker"


def test_before_the_sweep_too_an_old_lease_is_over():
    run, token = new_run()
    let_time_pass(31)
    for act in acts(run, token):
        with refused("lease_lost"):
            act()


def test_another_worker_goes_on_and_the_old_one_stays_out():
    run, token = new_run()
    let_time_pass(31)
    taken, second = claim("w-2")
    assert (taken.pk, taken.lease_epoch) == (run.pk, 2)
    for act in acts(run, token):
        with refused("lease_lost"):
            act()
    assert leases.heartbeat(WORKER, run.pk, second)["directive"] == "continue"
    assert list(Lease.objects.filter(run=run).order_by("epoch").values_list("epoch", "ended_how")) == [(1, "expired"), (2, "")]


def test_a_lease_of_another_run_is_no_lease():
    run, _ = new_run()
    _, foreign = new_run("w-2")
    for act in acts(run, foreign):
        with refused("lease_lost"):
            act()
    with refused("lease_lost"):
        leases.stopped(WORKER, run.pk, foreign)


def test_the_heartbeat_renews_it():
    run, token = new_run()
    let_time_pass(20)
    leases.heartbeat(WORKER, run.pk, token)
    let_time_pass(20)
    assert leases.expire_due() == 0
    let_time_pass(11)
    assert leases.expire_due() == 1


@pytest.mark.parametrize("ttl_s", [0.1, 120, 600])
def test_it_is_given_and_renewed_for_the_length_that_was_asked(ttl_s):
    run, token = new_run(ttl_s=ttl_s)
    given = fresh(run)
    assert (given.lease_expires_at - given.heartbeat_at, given.lease_epoch) == (timedelta(seconds=ttl_s), 1)
    if ttl_s > 1:
        let_time_pass(ttl_s / 2)
        assert leases.heartbeat(WORKER, run.pk, token)["lease_expires_in_s"] == ttl_s
        renewed = fresh(run)
        assert (renewed.lease_expires_at - renewed.heartbeat_at).total_seconds() == pytest.approx(ttl_s, abs=ttl_s / 10)


def test_expiry_goes_where_the_doubt_is():
    quiet, _ = new_run("w-1")
    doubtful, token = new_run("w-2")
    sent = send(doubtful, token)
    stopping, _ = new_run("w-3")
    cancel(stopping)
    let_time_pass(31)
    assert leases.expire_due() == 3
    assert (fresh(quiet).state, fresh(doubtful).state, fresh(stopping).state) == ("scheduled", "awaiting_evidence", "cancelled")
    assert again(sent).state == "unknown"
    assert again(sent).attempts.get().stopped_at is None, "a lost lease is no stop: a frozen sender may thaw"
    assert fresh(stopping).quiet_basis == "presumed"


def test_a_lease_that_was_renewed_before_the_sweep_had_the_lock_is_not_over():
    run, token = new_run()
    before = kinds(run)
    with transaction.atomic(durable=True):
        assert not leases.expire(transition.lock(run.pk), actors.system("sweep"))
    assert (fresh(run).lease_token, kinds(run)) == (token, before)


def test_release_and_stopped_and_gone_stop_the_sender():
    run, token = new_run()
    sent = send(run, token)
    with refused("effects_in_flight"):
        leases.release(WORKER, run.pk, token)
    tell(sent, "landed")
    assert leases.release(WORKER, run.pk, token).state == "scheduled"
    run, token = claim("w-2")
    sent = send(run, token, ref="PO-2", ordinal=1)
    assert leases.stopped(WORKER, run.pk, token).state == "awaiting_evidence"
    attempt = again(sent).attempts.get()
    assert (again(sent).state, attempt.state, attempt.stopped_how) == ("unknown", "unknown", "worker")
    assert leases.stopped(WORKER, run.pk, token).version == fresh(run).version, "said twice, recorded once"


def test_gone_takes_every_run_of_that_process():
    runs = [new_run("w-1") for _ in range(3)]
    sent = [send(run, token, ref=f"PO-{n}") for n, (run, token) in enumerate(runs)]
    other, _ = new_run("w-2")
    assert sorted(leases.gone(WORKER, "w-1", "SIGKILL")) == sorted(run.ref for run, _ in runs)
    assert {again(one).attempts.get().stopped_how for one in sent} == {"supervisor"}
    assert fresh(other).state == "running"
    assert leases.gone(WORKER, "w-1", "SIGKILL") == []


def test_only_for_its_own_agents():
    run, token = new_run()
    foreign = replace(WORKER, agents=frozenset({"refunds"}))
    expires = fresh(run).lease_expires_at
    for act in (
        lambda: leases.claim(foreign, "w-9", ["purchase-order"]),
        lambda: leases.heartbeat(foreign, run.pk, token),
        lambda: leases.stopped(foreign, run.pk, token),
        lambda: leases.release(foreign, run.pk, token),
        lambda: steps.start(foreign, run.pk, token, steps.NewStep("s")),
        lambda: cancellation.heard(foreign, run.pk, token),
        lambda: lifecycle.finish(foreign, run.pk, token, "completed"),
        lambda: intents.declare(foreign, run.pk, token, nonce(), intent()),
    ):
        with pytest.raises(NotAllowed):
            act()
    assert fresh(run).lease_expires_at == expires
    with pytest.raises(NotAllowed):
        leases.claim(replace(WORKER, scopes=WORKER.scopes - {RUN_WORK}), "w-9", ["purchase-order"])


def test_claims_come_in_order_and_only_for_what_may_run():
    first, _ = new_run(holder="")
    second, _ = new_run(holder="")
    new_run(holder="", agent="refunds")
    assert claim("w-1")[0].pk == first.pk
    assert claim("w-2")[0].pk == second.pk
    assert leases.claim(WORKER, "w-3", ["purchase-order"]) is None


def test_a_run_that_executes_somewhere_is_claimed_there():
    plain, _ = new_run(holder="")
    in_celery, _ = new_run(holder="", runtime="celery")
    elsewhere, _ = new_run(holder="", runtime="temporal")
    assert claim("c-1", runtime="celery")[0].pk == in_celery.pk
    assert leases.claim(WORKER, "c-1", ["purchase-order"], runtime="celery") is None
    assert [claim("w-1")[0].pk, claim("w-1")[0].pk] == [plain.pk, elsewhere.pk], "whoever names no place takes what is not Celery's"


@pytest.mark.parametrize("ttl_s", [0, -1, 601, 10**9])
def test_a_lease_has_a_sensible_length(ttl_s):
    with pytest.raises(Invalid):
        new_run(ttl_s=ttl_s)


def test_where_tells_each_run_that_is_no_longer_ours():
    run, token = new_run("w-1")
    other, _ = new_run("w-2")
    pairs = [(run.pk, 1), (other.pk, 1)]
    assert leases.where(pairs) == []
    cancel(run)
    (line,) = leases.where(pairs)
    assert (line["ref"], line["directive"], line["position"]) == (run.ref, "cancel", fresh(run).cancel_position)
    leases.stopped(WORKER, run.pk, token)
    (line,) = leases.where(pairs)
    assert (line["directive"], line["why"]) == ("stop", "cancelled")
    assert "lease.stopped" in kinds(run)
