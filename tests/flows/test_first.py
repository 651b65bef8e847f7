import pytest

from ledger import accounts, outcomes
from runs import cancellation, leases, lifecycle
from tests.makers import SUPPORT, WORKER, claim, fresh, new_run, send

pytestmark = pytest.mark.usefixtures("database")


def test_an_order_lands_and_the_run_completes():
    run, token = new_run()
    sent = send(run, token)
    assert fresh(run).status == "writing"
    used, effect = outcomes.report(WORKER, sent.effect.pk, 1, "landed", "S-1", 12500, "EUR")
    assert (used, effect.state) == ("applied", "landed")
    lifecycle.finish(WORKER, run.pk, token, "completed", {"order": "S-1"})
    run = fresh(run)
    assert (run.status, run.landed, run.effects_total) == ("completed", 1, 1)
    assert accounts.latest(run)["totals"]["landed"] == 1
    assert cancellation.request_cancel(SUPPORT, run.pk).kind == "already_closed"


def test_cancel_while_in_flight_then_it_lands():
    run, token = new_run(plan=["order", "notify"])
    sent = send(run, token)
    answer = cancellation.request_cancel(SUPPORT, run.pk, reason="wrong order")
    assert answer.kind == "accepted"
    receipt = answer.request.receipt
    assert [line["operation_id"] for line in receipt["in_flight"]] == [str(sent.effect.pk)]
    assert [line["step"] for line in receipt["not_started"]] == ["notify"]
    with pytest.raises(cancellation.Busy if False else Exception) as refused:
        send(run, token, ref="PO-2", step="second")
    assert refused.value.code == "cancelled"
    cancellation.heard(WORKER, run.pk, token)
    outcomes.report(WORKER, sent.effect.pk, 1, "landed", "S-1", 12500, "EUR")
    leases.stopped(WORKER, run.pk, token)
    run = fresh(run)
    assert (run.status, run.quiet_basis, run.refused_after_cancel) == ("cancelled", "stopped", 1)
    assert run.heard_at and run.quiet_at and run.settled_at
    assert cancellation.request_cancel(SUPPORT, run.pk).kind == "repeat"


def test_a_killed_worker_leaves_unknown():
    run, token = new_run(ttl_s=0.2)
    sent = send(run, token)
    import time

    time.sleep(0.3)
    leases.expire_due()
    run = fresh(run)
    assert run.status == "awaiting_evidence"
    with pytest.raises(Exception) as refused:
        send(run, token)
    assert refused.value.code == "lease_lost"
    used, effect = outcomes.report(WORKER, sent.effect.pk, 1, "landed", "S-1", 12500, "EUR")
    assert (used, effect.state) == ("applied", "landed")
    again, token2 = claim()
    assert again.pk == run.pk
    assert send(again, token2).kind == "known"
