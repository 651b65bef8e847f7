"""One lease, one claim, one sending: whatever only one may have, exactly one gets."""

from __future__ import annotations

import psycopg
import pytest

from ledger import intents
from ledger.models import Effect
from reconciliation import cases
from runs import leases
from runs.errors import ClaimedByOther, InDoubt, LeaseLost
from runs.models import Lease, Run
from tests import platform
from tests.makers import (
    OTHER,
    SUPPORT,
    WORKER,
    assert_counters,
    fresh,
    intent,
    let_time_pass,
    new_run,
    nonce,
    open_cases,
    send,
    step,
    sweep,
    tell,
)
from tests.races.line import CASE, NO_EFFECTS, RUN


def test_twenty_declares_of_one_order_from_twenty_runs_make_one_sending(contenders):
    """They all pass their own run's fence and meet at the unique index."""
    runs = [new_run(f"w-{n}") for n in range(20)]
    for run, token in runs:
        step(run, token)
    acts = [lambda run=run, token=token: intents.declare(WORKER, run.pk, token, nonce(), intent()) for run, token in runs]
    answers = contenders.race(NO_EFFECTS, (), *acts)
    won = [answer for answer in answers if not isinstance(answer, Exception)]
    lost = [answer for answer in answers if isinstance(answer, InDoubt)]
    assert (len(won), len(lost)) == (1, 19)
    holder = won[0].effect
    assert {(refusal.facts["effect"], refusal.facts["run"]) for refusal in lost} == {(holder.ref, holder.run.ref)}
    assert Effect.objects.count() == 1
    assert Run.objects.filter(status="writing").count() == 1
    assert_counters()


def test_the_same_declare_twice_at_once_is_one_sending(contenders):
    run, token = new_run()
    step(run, token)
    mine = nonce()
    acts = [lambda: intents.declare(WORKER, run.pk, token, mine, intent())] * 2
    first, second = contenders.race(RUN, (run.pk,), *acts)
    assert {first.kind, second.kind} == {"sending"}
    assert first.attempt.pk == second.attempt.pk
    assert_counters(run)


def test_two_nonces_of_one_operation_at_once(contenders):
    run, token = new_run()
    step(run, token)
    acts = [lambda: intents.declare(WORKER, run.pk, token, nonce(), intent())] * 2
    first, second = contenders.race(RUN, (run.pk,), *acts)
    assert first.kind == "sending"
    assert isinstance(second, InDoubt)
    assert_counters(run)


def test_two_claims_of_one_run(contenders):
    """A claim passes over what another one holds: with the row held nobody gets it, and nobody waits."""
    run, _ = new_run(holder="")
    with psycopg.connect(platform.APP_URL) as other:
        other.execute(RUN, (run.pk,))
        assert leases.claim(WORKER, "w-1", ["purchase-order"]) is None
    taken = [leases.claim(WORKER, f"w-{n}", ["purchase-order"]) for n in range(2)]
    assert sum(one is not None for one in taken) == 1
    assert Lease.objects.filter(run=run).count() == 1
    assert_counters(run)


def test_a_heartbeat_before_the_expiry_keeps_the_lease(contenders):
    run, token = new_run(ttl_s=2)
    contenders.race(RUN, (run.pk,), lambda: leases.heartbeat(WORKER, run.pk, token))
    leases.expire_due()
    assert fresh(run).lease_token == token


def hold_until_the_lease_is_over(run):
    """First in the line, and out of it only when the lease has ended: whoever queued in time gets the row too late."""

    def hold():
        with psycopg.connect(platform.APP_URL) as other:
            other.execute(RUN, (run.pk,))
            other.execute(
                "SELECT pg_sleep(greatest(extract(epoch FROM lease_expires_at - clock_timestamp()), 0) + 0.01) FROM runs_run WHERE id = %s",
                (run.pk,),
            )

    return hold


def test_a_heartbeat_that_waited_past_its_lease_is_too_late(contenders):
    run, token = new_run(ttl_s=1.5)
    sent = send(run, token)
    beat = contenders.race(RUN, (run.pk,), hold_until_the_lease_is_over(run), lambda: leases.heartbeat(WORKER, run.pk, token))[1]
    assert isinstance(beat, LeaseLost)
    assert leases.expire_due() == 1
    assert Effect.objects.get(pk=sent.effect.pk).state == "unknown"
    assert leases.expire_due() == 0
    assert_counters(run)


def test_an_act_that_waited_past_its_lease_is_refused(contenders):
    run, token = new_run(ttl_s=1.5)
    step(run, token)
    declare = lambda: intents.declare(WORKER, run.pk, token, nonce(), intent())  # noqa: E731
    refused = contenders.race(RUN, (run.pk,), hold_until_the_lease_is_over(run), declare)[1]
    assert isinstance(refused, LeaseLost)
    assert not Effect.objects.exists()
    assert_counters(run)


@pytest.mark.parametrize("expired_first", [True, False])
def test_an_outcome_against_the_expiry_of_its_lease(contenders, expired_first):
    run, token = new_run()
    sent = send(run, token)
    let_time_pass(31)
    if expired_first:
        leases.expire_due()
        assert fresh(run).status == "awaiting_evidence"
    contenders.race(RUN, (run.pk,), lambda: tell(sent, "landed"))
    leases.expire_due()
    run = fresh(run)
    assert (run.state, run.landed, run.in_doubt) == ("scheduled", 1, 0)
    assert_counters(run)


def test_an_expired_run_is_taken_over_by_the_claim_itself(database):
    run, token = new_run()
    let_time_pass(31)
    taken = leases.claim(WORKER, "w-2", ["purchase-order"])
    assert taken is not None and taken[0].pk == run.pk
    assert taken[1].epoch == 2
    with pytest.raises(LeaseLost):
        leases.heartbeat(WORKER, run.pk, token)


def test_two_people_claim_one_case(contenders, fake):
    fake.promise(lookup="none")
    run, token = new_run()
    tell(send(run, token, provider="fake"), "unknown")
    sweep()
    case = open_cases()[0]
    first, second = contenders.race(CASE, (case.pk,), lambda: cases.claim(SUPPORT, case.pk), lambda: cases.claim(OTHER, case.pk))
    assert (first.state, first.claimed_by) == ("claimed", SUPPORT.id)
    assert isinstance(second, ClaimedByOther)
    assert second.facts["by"] == SUPPORT.name
    assert list(case.events.values_list("kind", flat=True)).count("claimed") == 1
    assert_counters(run)
