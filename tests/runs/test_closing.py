"""Quiet and closed: what every close does, whoever closes."""

from __future__ import annotations

import pytest

from ledger import outcomes
from ledger.models import Account
from runs import closing, leases, lifecycle, preview
from tests.makers import (
    ADMIN,
    WORKER,
    again,
    cancel,
    claim,
    fresh,
    let_time_pass,
    look,
    new_run,
    send,
    step,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")


def by_cancel(run, token):
    cancel(run)
    leases.stopped(WORKER, run.pk, token)


def by_terminate(run, token):
    cancel(run, actor=ADMIN, mode="terminate", reason="x", plan_digest=preview.preview(fresh(run))["plan_digest"])


def by_failing(run, token):
    lifecycle.finish(WORKER, run.pk, token, "failed", error="x")


def by_completing(run, token):
    lifecycle.finish(WORKER, run.pk, token, "completed")


def by_silence(run, token):
    cancel(run)
    let_time_pass(100)
    sweep()


@pytest.mark.parametrize("close", [by_cancel, by_terminate, by_failing, by_completing, by_silence])
def test_every_close_withholds_issues_an_account_and_ends_the_lease(close):
    run, token = new_run()
    tell(send(run, token, ref="a"), "landed")
    declared = send(run, token, ref="b", ordinal=1, begin=False)
    close(run, token)
    run = fresh(run)
    assert run.is_closed and run.closed_at and run.settled_at
    assert (run.lease_token, run.lease_holder, run.lease_expires_at, run.waits_for) == (None, None, None, None)
    assert (again(declared).state, again(declared).holds_action) == ("withheld", False)
    assert Account.objects.filter(run=run).count() == 1
    assert run.leases.get().ended_at is not None
    assert leases.claim(WORKER, "w-2", ["purchase-order"]) is None
    before = run.version
    sweep()
    assert fresh(run).version == before, "and no sweep finds anything more to do"


@pytest.mark.parametrize("close", [by_terminate, by_silence])
def test_what_still_sends_becomes_unknown(close):
    run, token = new_run()
    sent = send(run, token)
    close(run, token)
    assert again(sent).state == "unknown"
    assert fresh(run).in_flight == 0
    assert fresh(run).settlement == "pending"


def test_the_basis_is_the_weakest_of_what_we_know_of_every_sender():
    run, token = new_run("w-1")
    assert closing.basis(fresh(run)) == "presumed"
    leases.release(WORKER, run.pk, token)
    assert closing.basis(fresh(run)) == "stopped"
    run, token = claim("w-2")
    leases.gone(WORKER, "w-2", "killed")
    assert closing.basis(fresh(run)) == "reaped"
    run, token = claim("w-3")
    let_time_pass(31)
    leases.expire_due()
    assert closing.basis(fresh(run)) == "presumed"
    cancel(run)
    assert fresh(run).quiet_basis == "presumed"
    leases.stopped(WORKER, run.pk, token)
    assert fresh(run).quiet_basis == "reaped"


def test_a_worker_that_fails_its_run_has_stopped_sending_so_what_it_was_silent_about_can_be_proved_absent(fake):
    run, token = new_run(ttl_s=600)
    sent = send(run, token, provider="fake")
    let_time_pass(100)
    assert outcomes.time_out_due() == 1
    by_failing(run, token)
    assert again(sent).attempts.get().stopped_how == "worker"
    look(12)
    look(12)
    assert again(sent).state == "absent"


def test_nobody_closes_over_a_worker_that_still_holds_its_lease():
    run, token = new_run(ttl_s=600)
    step(run, token)
    cancel(run)
    for _ in range(3):
        let_time_pass(60)
        leases.heartbeat(WORKER, run.pk, token)
        sweep()
    assert (fresh(run).state, fresh(run).quiet_at) == ("cancelling", None)


def test_closing_is_one_way():
    run, token = new_run()
    by_completing(run, token)
    version = fresh(run).version
    sweep()
    leases.stopped(WORKER, run.pk, token)
    assert fresh(run).version == version
    assert fresh(run).state == "completed"
