"""The rest of a run's life: parallel effects, backoff, two runs of one order, and wake-ups in the instant of a suspend."""

from __future__ import annotations

import time
from datetime import timedelta
from itertools import permutations

import pytest

from ledger import accounts
from ledger.models import Account
from reconciliation import webhooks
from runs import cancellation, leases, lifecycle, transition, waiting
from runs.models import ClientKey, Run
from tests.fakes import webhook
from tests.makers import (
    SUPPORT,
    WORKER,
    cancel,
    claim,
    fresh,
    kinds,
    let_time_pass,
    new_run,
    refused,
    send,
    step,
    sweep,
    tell,
)
from tests.races.conftest import contenders  # noqa: F401
from tests.races.line import RUN

pytestmark = pytest.mark.usefixtures("counters")

GOOD = {"signature": "good"}


# Three effects at once ----------------------------------------------------------------------------------------------

ANSWERS = {"A": "landed", "B": "landed", "C": "refused"}


@pytest.mark.parametrize("late", ["A", "B", "C"])
@pytest.mark.parametrize("early", [0, 1], ids=["first to last", "last to first"])
@pytest.mark.parametrize("before_stop", [True, False])
def test_two_have_landed_and_one_is_in_flight_at_the_cancel(late, early, before_stop):
    """Whichever of three parallel effects answers last, and whether before or after its worker stops: each stands once, and rightly."""
    run, token = new_run()
    sent = {name: send(run, token, ref=f"PO-{name}", ordinal=n) for n, name in enumerate("ABC")}
    others = [name for name in "ABC" if name != late]
    for name in others if early == 0 else reversed(others):
        tell(sent[name], "landed", external_id=f"S-{name}")
    receipt = cancel(run).request.receipt
    assert [line["ref"] for line in receipt["in_flight"]] == [sent[late].effect.ref]
    assert {line["ref"] for line in receipt["landed"]} == {sent[name].effect.ref for name in others}
    if before_stop:
        tell(sent[late], "landed", external_id="S-last")
    leases.stopped(WORKER, run.pk, token)
    if not before_stop:
        first = accounts.latest(fresh(run))
        assert [line["ref"] for line in first["unknown"]] == [sent[late].effect.ref]
        assert len(first["landed"]) == 2 and not first["final"]
        tell(sent[late], "landed", external_id="S-last")
    account = accounts.latest(fresh(run))
    assert {line["ref"]: line["confirmed_relative_to_cancel"] for line in account["landed"]} == {
        sent[name].effect.ref: "after" if name == late else "before" for name in "ABC"
    }
    assert (account["final"], account["totals"]["effects_total"], account["version"]) == (True, 3, 1 if before_stop else 2)


@pytest.mark.parametrize("order", list(permutations("ABC")), ids="".join)
def test_three_in_flight_at_the_cancel_that_answer_in_any_order(order):
    run, token = new_run()
    sent = {name: send(run, token, ref=f"PO-{name}", ordinal=n) for n, name in enumerate("ABC")}
    assert len(cancel(run).request.receipt["in_flight"]) == 3
    for name in order:
        assert fresh(run).state == "cancelling"
        tell(sent[name], ANSWERS[name], external_id=f"S-{name}")
    leases.stopped(WORKER, run.pk, token)
    account = accounts.latest(fresh(run))
    assert {line["ref"] for line in account["landed"]} == {sent["A"].effect.ref, sent["B"].effect.ref}
    assert [line["ref"] for line in account["did_not_happen"]] == [sent["C"].effect.ref]
    assert Account.objects.filter(run=run).count() == 1 and account["final"]


# Backoff ------------------------------------------------------------------------------------------------------------


def test_a_step_in_backoff_never_runs_again_after_the_cancel():
    run, token = new_run()
    step(run, token, "fetch")
    waiting.suspend(WORKER, run.pk, token, "time", wake_at=transition.clock() + timedelta(seconds=30))
    assert (fresh(run).state, leases.claim(WORKER, "w-2", ["purchase-order"])) == ("scheduled", None)
    cancel(run)
    assert (fresh(run).state, fresh(run).wake_at, fresh(run).waits_for) == ("cancelled", None, None)
    let_time_pass(3600)
    sweep()
    assert waiting.wake_due() == 0
    assert leases.claim(WORKER, "w-2", ["purchase-order"]) is None
    assert kinds(run).count("step.started") == 1
    for late in (token, "another"):
        with refused("cancelled" if late == token else "lease_lost"):
            step(run, late, "fetch")


@pytest.mark.parametrize("cancel_first", [True, False])
def test_the_timer_and_the_cancel_at_once(contenders, cancel_first):  # noqa: F811
    run, token = new_run()
    wake_at = transition.clock() + timedelta(seconds=0.5)
    waiting.suspend(WORKER, run.pk, token, "time", wake_at=wake_at)
    while transition.clock() < wake_at:
        time.sleep(0.05)
    if cancel_first:
        contenders.race(RUN, (run.pk,), lambda: cancel(run))
        assert waiting.wake_due() == 0
    else:
        assert waiting.wake_due() == 1
        contenders.race(RUN, (run.pk,), lambda: cancel(run))
    assert fresh(run).state == "cancelled"
    assert leases.claim(WORKER, "w-2", ["purchase-order"]) is None


# Two runs of one order ----------------------------------------------------------------------------------------------


def test_a_cancel_of_run_one_that_arrives_after_run_two_of_the_same_order_has_started():
    first, token = new_run("w-1", business_ref="PO-1042", client_key="k-1")
    lifecycle.finish(WORKER, first.pk, token, "failed", error="no stock")
    second, _ = new_run("w-2", business_ref="PO-1042", client_key="k-2")
    before = fresh(second).version
    assert cancel(first).kind == "already_closed"
    by_key = cancellation.cancel_by_key(SUPPORT, "purchase-order", "k-1", "late")
    assert not isinstance(by_key, ClientKey) and (by_key.kind, by_key.run.pk) == ("already_closed", first.pk)
    assert (fresh(second).state, fresh(second).cancel_position, fresh(second).version) == ("running", None, before)


def test_nor_when_run_one_is_still_going():
    first, token = new_run("w-1", business_ref="PO-1042")
    second, second_token = new_run("w-2", business_ref="PO-1042")
    sent = send(first, token)
    cancel(first)
    assert leases.heartbeat(WORKER, second.pk, second_token)["directive"] == "continue"
    step(second, second_token, "order")
    tell(sent, "landed")
    leases.stopped(WORKER, first.pk, token)
    assert (fresh(first).state, fresh(second).state) == ("cancelled", "running")


# In the instant of a suspend ----------------------------------------------------------------------------------------


def unknown(holder: str = "w-1") -> tuple[Run, str, object]:
    run, token = new_run(holder)
    sent = send(run, token, provider="fake", ref=f"PO-{holder}")
    tell(sent, "unknown")
    return run, token, sent


def hook(sent) -> None:
    body = webhook("landed", sent.effect.pk, external_id="S-1", amount=12500, currency="EUR")
    webhooks.receive("fake", GOOD, body)


@pytest.mark.parametrize("suspend_first", [True, False])
def test_a_webhook_settles_the_effect_in_the_instant_in_which_its_run_suspends_on_it(contenders, fake, suspend_first):  # noqa: F811
    run, token, sent = unknown()
    hook(sent)
    acts = [lambda: waiting.suspend(WORKER, run.pk, token, "evidence"), webhooks.process_due]
    contenders.race(RUN, (run.pk,), *(acts if suspend_first else reversed(acts)))
    assert (fresh(run).state, fresh(run).waits_for) == ("scheduled", None)
    assert claim("w-2")[0].pk == run.pk


@pytest.mark.parametrize("suspend_first", [True, False])
def test_a_webhook_settles_what_another_run_suspends_on(contenders, fake, suspend_first):  # noqa: F811
    holder, _, sent = unknown("w-1")
    run, token = new_run("w-2")
    hook(sent)

    def suspend():
        return waiting.suspend(WORKER, run.pk, token, "operation", operation_id=sent.effect.pk)

    if suspend_first:
        contenders.race(RUN, (run.pk,), suspend)
        contenders.race(RUN, (holder.pk,), webhooks.process_due)
        assert waiting.wake_due() == 1
    else:
        contenders.race(RUN, (holder.pk,), webhooks.process_due)
        suspend()
    assert (fresh(run).state, fresh(run).waits_for) == ("scheduled", None)
    leases.gone(WORKER, "w-1", "exit 0")
