"""Every answer of a cancel, the receipt to the letter, and the way to the end that no worker can block."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

from ledger import accounts, outcomes
from ledger.models import Account
from reconciliation import webhooks
from runs import cancellation, cleaning, leases, lifecycle, preview, steps, transition, waiting
from runs.errors import NotAllowed, PlanChanged
from runs.models import CancelRequest, ClientKey, Event
from tests import fakes, platform
from tests.makers import (
    ADMIN,
    OTHER,
    SUPPORT,
    WORKER,
    again,
    cancel,
    child_of,
    claim,
    fresh,
    kinds,
    let_time_pass,
    new_run,
    open_cases,
    refused,
    send,
    settle,
    step,
    sweep,
    tell,
)
from tests.races.line import RUN

pytestmark = pytest.mark.usefixtures("counters")


def terminate(run, digest=None, actor=ADMIN, reason="It does not stop."):
    return cancel(run, actor=actor, mode="terminate", reason=reason, plan_digest=digest or preview.preview(fresh(run))["plan_digest"])


def refs(lines):
    return [line["ref"] for line in lines]


# Answers ------------------------------------------------------------------------------------------------------------


def test_accepted_and_then_only_repeats():
    run, token = new_run()
    first = cancel(run, reason="wrong supplier", seen=1)
    assert (first.kind, first.run.state) == ("accepted", "cancelling")
    second = cancel(run, actor=OTHER, reason="me too")
    assert (second.kind, second.request.pk) == ("repeat", first.request.pk)
    assert (second.request.actor_name, second.request.reason, second.request.at) == (SUPPORT.name, "wrong supplier", first.request.at)
    leases.stopped(WORKER, run.pk, token)
    assert fresh(run).status == "cancelled"
    third = cancel(run)
    assert (third.kind, third.request.pk, third.request.receipt) == ("repeat", first.request.pk, first.request.receipt)
    assert kinds(run).count("cancel.accepted") == 1
    assert kinds(run).count("cancel.repeated") == 2
    assert CancelRequest.objects.filter(run=run).count() == 3


def test_a_scheduled_run_closes_at_once():
    run, _ = new_run(holder="")
    answer = cancel(run)
    run = fresh(run)
    assert (answer.kind, run.status, run.quiet_basis) == ("accepted", "cancelled", "stopped")
    assert run.asked_at and run.quiet_at and run.settled_at and run.closed_at
    assert leases.claim(WORKER, "w-2", ["purchase-order"]) is None


def test_too_late_tells_the_final_word():
    run, token = new_run()
    tell(send(run, token), "landed")
    lifecycle.finish(WORKER, run.pk, token, "completed", {"order": "S-1"})
    answer = cancel(run)
    assert (answer.kind, answer.run.state, answer.run.result, answer.run.landed) == ("already_closed", "completed", {"order": "S-1"}, 1)
    assert cancel(run).kind == "already_closed"
    assert fresh(run).cancel_position is None
    assert fresh(run).status == "completed"


def test_a_failed_run_is_closed_too():
    run, token = new_run()
    lifecycle.finish(WORKER, run.pk, token, "failed", error="no stock")
    assert cancel(run).kind == "already_closed"


def test_busy_records_nothing(monkeypatch):
    monkeypatch.setattr(cancellation, "LOCK_WAIT_S", 0.5)
    run, _ = new_run()
    with psycopg.connect(platform.APP_URL) as other:
        other.execute(RUN, (run.pk,))
        with refused("busy"):
            cancel(run)
    assert (fresh(run).state, fresh(run).version) == ("running", run.version)
    assert not CancelRequest.objects.exists()
    assert cancel(run).kind == "accepted"


def test_busy_when_only_a_child_is_locked(monkeypatch):
    monkeypatch.setattr(cancellation, "LOCK_WAIT_S", 0.5)
    run, token = new_run()
    child, _ = child_of(run, token, "w-2")
    with psycopg.connect(platform.APP_URL) as other:
        other.execute(RUN, (child.pk,))
        with refused("busy"):
            cancel(run)
    assert (fresh(run).state, fresh(child).state) == ("running", "running")
    assert not CancelRequest.objects.exists()


def test_not_found_and_not_allowed():
    run, _ = new_run()
    with refused("not_found"):
        cancellation.request_cancel(SUPPORT, uuid.uuid4())
    with pytest.raises(NotAllowed):
        cancel(run, actor=replace(SUPPORT, scopes=frozenset()))
    with pytest.raises(NotAllowed):
        cancel(run, actor=replace(WORKER, agents=frozenset({"another"})))
    with pytest.raises(NotAllowed):
        cancel(run, actor=SUPPORT, mode="terminate", reason="r", plan_digest="x")
    with pytest.raises(NotAllowed):
        cancel(run, actor=WORKER, mode="terminate", reason="r", plan_digest="x")
    with refused("invalid"):
        cancel(run, mode="pause")
    assert fresh(run).version == run.version


def test_a_stale_view_never_blocks_it_and_the_receipt_says_what_changed():
    run, token = new_run()
    seen = fresh(run).version
    sent = send(run, token)
    answer = cancel(run, seen=seen)
    assert answer.kind == "accepted"
    assert [line["kind"] for line in answer.request.receipt["changed_since_seen"]] == ["step.started", "effect.sending"]
    assert refs(answer.request.receipt["in_flight"]) == [sent.effect.ref]


# Receipts -----------------------------------------------------------------------------------------------------------


def test_the_receipt_lists_every_attempt_whose_sender_may_still_act(fake):
    """Whatever its effect's state: sending, unknown or even landed by a webhook; and none that has stopped."""
    run, token = new_run(ttl_s=600, plan=["one", "later"])
    step(run, token, "think", kind="model_call")
    sent = {name: send(run, token, ref=name, ordinal=n, provider="fake", answer_within_s=5) for n, name in enumerate("abcdef")}
    tell(sent["a"], "landed")
    tell(sent["b"], "unknown")
    tell(sent["c"], "refused")
    webhooks.receive("fake", {"signature": "good"}, fakes.webhook("landed", sent["d"].effect.pk))
    webhooks.process_due()
    let_time_pass(6)
    outcomes.time_out_due()
    assert {name: again(one).state for name, one in sent.items()} == {
        "a": "landed",
        "b": "unknown",
        "c": "refused",
        "d": "landed",
        "e": "unknown",
        "f": "unknown",
    }
    declared = send(run, token, ref="g", ordinal=7, begin=False)
    receipt = cancel(run).request.receipt
    live = {sent[name].effect.ref for name in "def"}
    assert set(refs(receipt["in_flight"])) == live
    assert refs(receipt["unresolved"]) == [sent["b"].effect.ref]
    assert set(refs(receipt["landed"])) == {sent["a"].effect.ref, sent["d"].effect.ref}
    assert refs(receipt["withheld"]) == [declared.effect.ref]
    assert {line["step"] for line in receipt["running"]} == {"think", "order"}
    assert [line["step"] for line in receipt["not_started"]] == ["one", "later"]
    tell(sent["e"], "landed")
    assert cancel(run).request.receipt == receipt, "a receipt is never reworded"


def test_an_attempt_of_a_lost_lease_is_still_in_the_receipt():
    run, token = new_run()
    sent = send(run, token)
    let_time_pass(31)
    leases.expire_due()
    answer = cancel(run)
    assert refs(answer.request.receipt["in_flight"]) == [sent.effect.ref]
    assert answer.request.receipt["unresolved"] == []
    leases.stopped(WORKER, run.pk, token)
    assert fresh(run).quiet_basis == "stopped"


def test_a_reaped_worker_is_not_in_the_receipt():
    run, token = new_run()
    sent = send(run, token)
    leases.gone(WORKER, "w-1", "SIGKILL")
    receipt = cancel(run).request.receipt
    assert receipt["in_flight"] == []
    assert refs(receipt["unresolved"]) == [sent.effect.ref]
    assert fresh(run).status == "cancelled_pending"
    assert fresh(run).quiet_basis == "reaped"


# Trees --------------------------------------------------------------------------------------------------------------


def test_the_whole_tree_is_cancelled_and_the_receipt_is_nested():
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    grandchild, grand_token = child_of(child, child_token, "w-3")
    sent = send(grandchild, grand_token)
    answer = cancel(run)
    inner = answer.request.receipt["children"][0]
    assert (inner["run"], inner["children"][0]["run"]) == (child.ref, grandchild.ref)
    assert refs(inner["children"][0]["in_flight"]) == [sent.effect.ref]
    for one in (run, child, grandchild):
        assert fresh(one).state == "cancelling"
    cause = CancelRequest.objects.get(run=grandchild).caused_by
    assert (cause.run_id, cause.caused_by.run_id) == (child.pk, run.pk)
    for one, its in ((run, token), (child, child_token)):
        with refused("cancelled"):
            step(one, its, "more")


def test_open_children_of_a_closed_child_are_found():
    """Closed rows are walked too: below them something may be open."""
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    grandchild, _ = child_of(child, child_token, "w-3")
    lifecycle.finish(WORKER, child.pk, child_token, "failed", error="x")
    answer = cancel(run)
    assert answer.request.receipt["children"][0]["children"][0]["run"] == grandchild.ref
    assert fresh(child).state == "failed"
    assert fresh(grandchild).state == "cancelling"


def test_a_child_that_is_failing_is_left_to_its_own_end():
    """And what its cancel says it has seen was seen of the run that was asked for, not of what hangs below it."""
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    cleaning.register(WORKER, child.pk, child_token, "hold", "release-hold", {})
    lifecycle.finish(WORKER, child.pk, child_token, "failed", error="no stock")
    before = kinds(child)
    assert cancel(run, seen=1).kind == "accepted"
    assert (fresh(child).state, fresh(child).cancel_position, kinds(child)) == ("failing", None, before)
    assert [CancelRequest.objects.get(run=one).version_seen for one in (run, child)] == [1, None]


def test_a_child_alone():
    run, token = new_run()
    child, _ = child_of(run, token, "w-2")
    assert cancel(child).kind == "accepted"
    assert (fresh(run).state, fresh(child).state) == ("running", "cancelling")
    assert cancel(run).kind == "accepted"
    first = CancelRequest.objects.filter(run=child, answer="accepted")
    assert first.count() == 1 and first.get().caused_by is None


def test_no_parent_closes_before_its_children():
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    sweep()
    assert fresh(run).state == "cancelling"
    leases.stopped(WORKER, child.pk, child_token)
    assert fresh(child).state == "cancelled"


# Before it exists, and deadlines ------------------------------------------------------------------------------------


def test_cancelled_before_it_exists():
    stored = cancellation.cancel_by_key(SUPPORT, "purchase-order", "k-1", "not this one")
    assert isinstance(stored, ClientKey)
    run, token = new_run(client_key="k-1")
    run = fresh(run)
    assert (run.status, token) == ("cancelled", "")
    request = CancelRequest.objects.get(run=run)
    assert (request.actor_name, request.reason, request.receipt["in_flight"]) == (SUPPORT.name, "not this one", [])
    assert kinds(run) == ["run.created", "cancel.accepted", "run.quiet", "run.cancelled"]
    assert cancellation.cancel_by_key(SUPPORT, "purchase-order", "k-1").kind == "repeat"


def test_the_first_stored_cancel_stands_and_is_an_event():
    first = cancellation.cancel_by_key(SUPPORT, "purchase-order", "k-1", "first")
    again_ = cancellation.cancel_by_key(OTHER, "purchase-order", "k-1", "second")
    assert (again_.cancel_reason, again_.cancel_actor["name"]) == ("first", SUPPORT.name)
    assert again_.cancel_asked_at == first.cancel_asked_at
    stored = list(Event.objects.filter(run=None, kind="cancel.stored").order_by("id").values_list("actor_name", flat=True))
    assert stored == [SUPPORT.name, OTHER.name]


def test_the_longest_names_are_stored_and_expire_too():
    agent, key = "a" * 100, "k" * 200
    cancellation.cancel_by_key(SUPPORT, agent, key)
    let_time_pass(24 * 3600 + 1)
    assert cancellation.expire_stored() == 1
    for event in Event.objects.filter(run=None, kind__in=("cancel.stored", "cancel.expired")):
        assert f"{agent}/{key}".startswith(event.subject) and event.data["client_key"] == key


def test_a_stored_cancel_expires_as_an_event():
    cancellation.cancel_by_key(SUPPORT, "purchase-order", "k-1", "first")
    let_time_pass(24 * 3600 + 1)
    assert cancellation.expire_stored() == 1
    assert cancellation.expire_stored() == 0
    assert Event.objects.filter(run=None, kind="cancel.expired", subject="purchase-order/k-1").count() == 1
    run, token = new_run(client_key="k-1")
    assert fresh(run).state == "running" and token


def test_an_expired_stored_cancel_does_nothing_even_before_the_sweep():
    cancellation.cancel_by_key(SUPPORT, "purchase-order", "k-1")
    let_time_pass(24 * 3600 + 1)
    run, _ = new_run(client_key="k-1")
    assert fresh(run).state == "running"


def test_a_cancel_by_key_of_a_run_that_exists_is_an_ordinary_one():
    run, _ = new_run(client_key="k-1")
    answer = cancellation.cancel_by_key(SUPPORT, "purchase-order", "k-1", "stop")
    assert (answer.kind, answer.run.pk) == ("accepted", run.pk)


def test_it_needs_the_right_to_cancel():
    with pytest.raises(NotAllowed):
        cancellation.cancel_by_key(replace(SUPPORT, scopes=frozenset()), "purchase-order", "k-1")
    assert not ClientKey.objects.exists()


def test_the_deadline_cancels_by_the_same_path():
    run, token = new_run(deadline_at=transition.clock() + timedelta(seconds=60))
    sent = send(run, token)
    assert cancellation.cancel_past_deadline() == 0
    let_time_pass(61)
    assert cancellation.cancel_past_deadline() == 1
    request = CancelRequest.objects.get(run=run)
    assert (request.actor_type, request.actor_id, request.answer) == ("system", "deadline", "accepted")
    assert refs(request.receipt["in_flight"]) == [sent.effect.ref]
    assert cancellation.cancel_past_deadline() == 0


def test_several_at_once_get_the_answer_that_each_would_get_alone():
    """A run that is failing has its end decided: it is told so, and nothing of it is stopped."""
    failing, token = new_run("w-1")
    cleaning.register(WORKER, failing.pk, token, "hold", "release-hold", {})
    lifecycle.finish(WORKER, failing.pk, token, "failed", error="no stock")
    running, _ = new_run("w-2")
    told = cancellation.request_cancels(SUPPORT, [failing.pk, running.pk])
    assert {pk: answer.kind for pk, answer in told.items()} == {failing.pk: "already_closed", running.pk: "accepted"}
    assert (fresh(failing).state, fresh(failing).cancel_position) == ("failing", None)


def test_one_locked_run_does_not_keep_the_deadline_from_the_others(monkeypatch):
    monkeypatch.setattr(cancellation, "LOCK_WAIT_S", 0.1)
    past = transition.clock() - timedelta(seconds=1)
    stuck, _ = new_run(deadline_at=past)
    run, _ = new_run(deadline_at=past)
    with psycopg.connect(platform.APP_URL) as other:
        other.execute(RUN, (stuck.pk,))
        assert cancellation.cancel_past_deadline() == 1
    assert fresh(run).cancel_position is not None
    assert cancellation.cancel_past_deadline() == 1
    assert fresh(stuck).cancel_position is not None


# Quiet --------------------------------------------------------------------------------------------------------------


def test_a_worker_that_never_answers_does_not_keep_it_cancelling(fake):
    run, token = new_run(ttl_s=30)
    sent = send(run, token, provider="fake", answer_within_s=90)
    cancel(run)
    sweep()
    assert fresh(run).state == "cancelling"
    let_time_pass(31)
    sweep()
    assert (fresh(run).state, again(sent).state) == ("cancelling", "unknown"), "its answer may still come"
    let_time_pass(60)
    sweep()
    run = fresh(run)
    assert (run.status, run.quiet_basis) == ("cancelled_pending", "presumed")
    leases.stopped(WORKER, run.pk, token)
    assert fresh(run).quiet_basis == "stopped"
    assert "run.quiet_confirmed" in kinds(run)


def test_a_reaped_worker_upgrades_what_was_presumed(fake):
    run, token = new_run()
    send(run, token, provider="fake")
    cancel(run)
    let_time_pass(100)
    sweep()
    assert fresh(run).quiet_basis == "presumed"
    assert leases.gone(WORKER, "w-1", "killed") == [run.ref]
    assert fresh(run).quiet_basis == "reaped"
    assert leases.gone(WORKER, "w-1", "killed") == []


def test_gone_counts_only_from_the_credential_that_claimed():
    run, token = new_run()
    send(run, token)
    assert leases.gone(replace(WORKER, id="tok2"), "w-1", "killed") == []
    assert fresh(run).in_flight == 1


def test_the_four_times():
    run, token = new_run()
    sent = send(run, token)
    cancel(run)
    assert fresh(run).asked_at and not fresh(run).heard_at
    cancellation.heard(WORKER, run.pk, token)
    heard = fresh(run).heard_at
    cancellation.heard(WORKER, run.pk, token)
    assert fresh(run).heard_at == heard
    assert leases.heartbeat(WORKER, run.pk, token)["directive"] == "cancel"
    tell(sent, "unknown")
    leases.stopped(WORKER, run.pk, token)
    run = fresh(run)
    assert (run.status, run.settled_at) == ("cancelled_pending", None)
    tell(sent, "landed")
    run = fresh(run)
    assert run.asked_at < run.heard_at < run.quiet_at < run.settled_at
    assert run.status == "cancelled_reconciled"
    tell(sent, "refused")
    assert fresh(run).settled_at is None, "a contradiction reopens it"
    assert fresh(run).status == "cancelled_pending"


def test_a_waiting_run_with_a_stopped_sender_closes_at_once(fake):
    run, token = new_run()
    sent = send(run, token, provider="fake")
    tell(sent, "unknown")
    waiting.suspend(WORKER, run.pk, token, "evidence")
    answer = cancel(run)
    assert answer.kind == "accepted"
    assert refs(answer.request.receipt["unresolved"]) == [sent.effect.ref]
    assert fresh(run).status == "cancelled_pending"
    assert fresh(run).waits_for is None


def test_everything_had_landed_and_it_is_still_called_cancelled():
    run, token = new_run()
    tell(send(run, token), "landed")
    cancel(run)
    with refused("cancelled"):
        lifecycle.finish(WORKER, run.pk, token, "completed")
    leases.stopped(WORKER, run.pk, token)
    assert fresh(run).status == "cancelled"
    account = accounts.latest(fresh(run))
    assert (account["state"], account["totals"]["landed"], account["final"]) == ("cancelled", 1, True)


def test_a_model_that_answers_after_the_cancel_is_thrown_away_with_its_cost():
    run, token = new_run()
    step(run, token, "think", kind="model_call")
    cancel(run)
    thought, recorded = steps.finish(WORKER, run.pk, token, "think", "done", {"tools": ["order"]}, cost={"tokens": 9})
    assert (recorded, thought.state, thought.result, thought.cost) == ("discarded", "discarded", None, {"tokens": 9})
    assert thought.late_result["result"] == {"tools": ["order"]}


def test_a_worker_that_does_not_stop(fake):
    run, token = new_run(ttl_s=600)
    cancel(run)
    for _ in range(2):
        let_time_pass(8 * 60)
        leases.heartbeat(WORKER, run.pk, token)
        sweep()
    (case,) = open_cases()
    assert (case.kind, case.run_id, fresh(run).needs_person) == ("does_not_stop", run.pk, 1)
    with refused("invalid"):
        settle(case, "happened")
    terminate(run)
    sweep()
    assert not open_cases()
    assert fresh(run).status == "terminated"


# Terminate ----------------------------------------------------------------------------------------------------------


def test_terminate_closes_at_once():
    run, token = new_run()
    sent = send(run, token, ref="a")
    declared = send(run, token, ref="b", ordinal=1, begin=False)
    answer = terminate(run)
    assert (answer.kind, answer.run.state) == ("accepted", "terminated")
    assert refs(answer.request.receipt["in_flight"]) == [sent.effect.ref]
    assert refs(answer.request.receipt["withheld"]) == [declared.effect.ref]
    assert (again(sent).state, again(declared).state) == ("unknown", "withheld")
    run = fresh(run)
    assert (run.status, run.lease_token, run.cancel_mode) == ("terminated_pending", None, "terminate")
    with refused("cancelled"):
        step(run, token, "more")
    assert cancel(run).kind == "repeat"
    assert terminate(run).kind == "repeat"


def test_a_later_fact_is_kept_and_the_word_stays():
    run, token = new_run()
    sent = send(run, token)
    terminate(run)
    assert tell(sent, "landed", external_id="S-9") == "applied"
    run = fresh(run)
    assert (run.status, run.landed) == ("terminated_reconciled", 1)
    account = accounts.latest(run)
    assert account["landed"][0]["confirmed_relative_to_cancel"] == "after"
    assert Account.objects.filter(run=run).count() == 2


def test_terminate_after_a_cancel_is_not_a_repeat():
    run, token = new_run()
    send(run, token)
    cancel(run, reason="first")
    asked = fresh(run).asked_at
    answer = terminate(run)
    assert (answer.kind, answer.run.state) == ("accepted", "terminated")
    assert fresh(run).asked_at == asked
    assert preview.first_request(fresh(run)).reason == "first"


def test_terminate_refuses_a_stale_preview_and_shows_the_difference():
    run, token = new_run()
    seen = preview.preview(fresh(run))["plan_digest"]
    sent = send(run, token)
    with pytest.raises(PlanChanged) as told:
        terminate(run, seen)
    assert refs(told.value.facts["preview"]["in_flight"]) == [sent.effect.ref]
    assert fresh(run).state == "running"
    assert terminate(run, told.value.facts["preview"]["plan_digest"]).kind == "accepted"


@pytest.mark.parametrize("values", [{"reason": " "}, {"digest": ""}])
def test_terminate_needs_a_reason_and_a_preview(values):
    run, _ = new_run()
    with refused("invalid"):
        cancel(run, actor=ADMIN, mode="terminate", reason=values.get("reason", "x"), plan_digest=values.get("digest", "d"))


def test_terminate_takes_the_tree():
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2")
    sent = send(child, child_token)
    terminate(run)
    assert (fresh(run).state, fresh(child).state, again(sent).state) == ("terminated", "terminated", "unknown")


def test_the_sweep_tells_how_many_it_looked_at():
    run, token = new_run()
    send(run, token)
    assert cancellation.advance_due() == 0
    terminate(run)
    assert cancellation.advance_due() == 1 and fresh(run).quiet_at is None


def test_a_terminated_run_becomes_quiet_when_its_worker_has_stopped():
    """The four times are kept for every stop."""
    run, token = new_run()
    send(run, token)
    terminate(run)
    assert fresh(run).quiet_at is None
    leases.stopped(WORKER, run.pk, token)
    run = fresh(run)
    assert (run.quiet_basis, run.state) == ("stopped", "terminated")


def test_a_terminated_run_is_presumed_quiet_when_no_answer_can_come(fake):
    run, token = new_run()
    send(run, token, provider="fake")
    terminate(run)
    let_time_pass(100)
    sweep()
    assert fresh(run).quiet_basis == "presumed"
    leases.gone(WORKER, "w-1", "killed")
    assert fresh(run).quiet_basis == "reaped"


def test_no_timer_outlives_the_run():
    run, token = new_run()
    waiting.suspend(WORKER, run.pk, token, "time", wake_at=transition.clock() + timedelta(seconds=5))
    cancel(run)
    let_time_pass(10)
    sweep()
    run = fresh(run)
    assert (run.state, run.waits_for, run.wake_at) == ("cancelled", None, None)


def test_a_cancelled_run_is_not_claimed_again():
    run, token = new_run()
    cancel(run)
    let_time_pass(31)
    assert leases.claim(WORKER, "w-2", ["purchase-order"]) is None
    other, _ = new_run(holder="")
    taken, _ = claim("w-2")
    assert taken.pk == other.pk
