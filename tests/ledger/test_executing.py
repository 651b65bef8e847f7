"""Carrying an approval out: once, exactly what was approved, never while anything of it has changed; and what comes of it."""

from __future__ import annotations

import pytest
from django.db import OperationalError

from ledger import accounts, compensations, executing, outcomes
from ledger.facts import effect_facts
from ledger.models import Attempt, Effect, Evidence
from ledger.providers.base import Answer, Found, Look
from ledger.sentences import sentence
from reconciliation import webhooks
from runs import transition
from runs.approvals import action_digest
from runs.models import Event
from runs.wording import plain
from tests.fakes import DOWN, EMPTY, FAKE, found, refunds, webhook
from tests.makers import (
    APPROVER,
    SUPPORT,
    again,
    assert_counters,
    cancel,
    fresh,
    kinds,
    let_time_pass,
    look,
    open_cases,
    refused,
    sweep,
    tell,
)
from tests.undo import approve, approved, ask, landed, now, tamper, undo

pytestmark = pytest.mark.usefixtures("refunding")

LOST = Answer("unknown", detail="no answer")
NO = Answer("refused", http_status=422, detail="Too old to refund.")


def says(effect: Effect) -> str:
    return plain(sentence(effect_facts(again(effect), transition.clock())))


def bucket(run) -> str:
    body = accounts.latest(fresh(run))
    (name,) = [name for name in accounts.BUCKETS if body[name]]
    return name


def test_one_commit_makes_it_executing_with_a_durable_sending_of_its_own(refunding):
    """Looked at in the moment in which the provider is asked: from another transaction, all of it is there."""
    seen = []

    def look_at_it(send):
        request = now(request_of[0])
        attempt = Attempt.objects.get(effect=request.effect)
        seen.append((request.state, request.effect.state, request.effect.role, request.effect.business_ref, attempt.state))
        return refunds(send)

    refunding.undo_answer = look_at_it
    run, effect = landed()
    request_of = [approved(effect, 6000)]
    assert executing.execute_due() == 1
    request = now(request_of[0])
    assert seen == [("executing", "sending", "compensation", request.ref, "sending")]
    (sent,) = refunding.undone
    assert (sent.operation_id, sent.provider_reference, sent.external_id) == (str(request.effect_id), request.ref, "CH-PO-1")
    assert (sent.action, sent.amount, sent.currency) == ("refund", 6000, "EUR")
    assert (request.state, request.effect.state, request.effect.acts_on_id) == ("executed", "landed", effect.pk)
    assert request.effect_id == executing.operation_id(request.pk)
    of_the_undo = (request.ref, request.effect.request, request.effect.occurrence, 6000, "EUR")
    assert request.effect.request_digest == action_digest(FAKE, "refund", *of_the_undo)
    assert [e.data["attempt"] for e in Event.objects.filter(kind="effect.sending", subject=request.effect.ref)] == [sent.attempt] == [1]
    assert kinds(run)[-4:] == ["effect.sending", "compensation.executing", "effect.landed", "compensation.undone"]
    assert_counters(run)


def test_what_is_not_approved_is_not_sent(refunding):
    _, effect = landed()
    request = ask(effect)
    assert not executing.execute(request.pk) and executing.execute_due() == 0
    assert refunding.undone == [] and now(request).state == "requested"


def test_it_is_carried_out_once_whatever_is_tried(refunding):
    _, effect = landed()
    request = undo(effect)
    for _ in range(3):
        assert not executing.execute(request.pk)
        assert executing.execute_due() == 0
        sweep()
    assert len(refunding.undone) == 1


TAMPERED = {
    "the amount": ("UPDATE ledger_compensation SET amount = 9000 WHERE id = %s", "request"),
    "the target": ("UPDATE ledger_compensation SET target = 'CH-OTHER' WHERE id = %s", "request"),
    "the reason": ("UPDATE ledger_compensation SET note = 'another' WHERE id = %s", "request"),
    "the digest": ("UPDATE ledger_compensation SET digest = repeat('0', 64) WHERE id = %s", "request"),
    "the requester": ("UPDATE ledger_compensation SET requested_by = 'u-approver' WHERE id = %s", "request"),
    "how many must approve": ("UPDATE ledger_compensation SET approvals_needed = 2 WHERE id = %s", "request"),
    "the rule's version": ("UPDATE ledger_compensation SET rule_version = 7 WHERE id = %s", "request"),
    "what landed": ("UPDATE ledger_effect SET landed_amount = 20000 WHERE operation_id = %s", "original"),
    "its provider's id": ("UPDATE ledger_effect SET external_id = 'CH-OTHER' WHERE operation_id = %s", "original"),
    "its state": ("UPDATE ledger_effect SET state = 'reversed' WHERE operation_id = %s", "original"),
    "its outcome": ("UPDATE ledger_effect SET known_position = 99 WHERE operation_id = %s", "original"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_whatever_changed_after_the_approval_nothing_reaches_the_provider(refunding, what):
    statement, of = TAMPERED[what]
    _, effect = landed()
    request = approved(effect, 6000)
    tamper(statement, request.pk if of == "request" else effect.pk)
    assert not executing.execute(request.pk)
    kept = now(request)
    assert (kept.state, kept.effect_id) == ("stale", None)
    assert kept.ended_why and kept.ended_name == "undoing"
    assert refunding.undone == [] and not Effect.objects.filter(role="compensation").exists()


def test_another_original_put_in_by_sql_is_not_undone(refunding):
    (_, one), (_, two) = landed("PO-1"), landed("PO-2")
    request = approved(one)
    tamper("UPDATE ledger_compensation SET original_id = %s WHERE id = %s", two.pk, request.pk)
    assert not executing.execute(request.pk)
    assert (now(request).state, refunding.undone) == ("stale", [])


def test_past_expiry_with_the_sweeper_off_it_is_not_carried_out(refunding, monkeypatch):
    _, effect = landed()
    request = approved(effect)
    with monkeypatch.context() as patched:
        patched.setattr(compensations.transition, "clock", lambda: request.expires_at)
        assert not executing.execute(request.pk)
    assert (now(request).state, refunding.undone) == ("expired", [])
    assert now(request).ended_why == "It was not carried out within 72 h. Ask again."


def test_an_approver_who_may_not_any_more_does_not_count(refunding, known):
    _, effect = landed()
    request = approved(effect)
    known.leaves(APPROVER)
    assert not executing.execute(request.pk)
    assert (now(request).state, refunding.undone) == ("stale", [])
    assert "Amy Approver may not approve undoing any more" in now(request).ended_why
    assert now(request).decisions.get().by_name == "Amy Approver"


def test_refunded_elsewhere_after_the_approval_it_is_stale(refunding):
    run, effect = landed()
    request = approved(effect, 5000)
    told = webhook("landed", reference="", external_id="RE-9", amount=1000, currency="EUR", undoes="CH-PO-1")
    webhooks.receive(FAKE, {"signature": "good"}, told)
    assert webhooks.process_due() == 1
    assert not executing.execute(request.pk)
    assert (now(request).state, refunding.undone) == ("stale", [])
    assert approved(effect, 9000).state == "approved"
    with refused("exceeds_landed"):
        ask(effect, 1)
    assert "effect.partly_reversed" in kinds(run)


def test_the_providers_own_undo_is_counted_once_and_given_back_when_it_fails(refunding):
    _, effect = landed()
    for state in ("pending", "landed", "landed"):
        told = webhook(state, reference="", external_id="RE-9", amount=6000, currency="EUR", undoes="CH-PO-1")
        webhooks.receive(FAKE, {"signature": "good"}, told)
    webhooks.process_due()
    with refused("exceeds_landed") as refusal:
        ask(effect, 6000)
    assert "€40.00 EUR can still be given back" in refusal.value.detail
    assert "€60.00 EUR of it is undone." in says(effect)
    told = webhook("refused", reference="", external_id="RE-9", amount=6000, currency="EUR", undoes="CH-PO-1")
    webhooks.receive(FAKE, {"signature": "good"}, told)
    webhooks.process_due()
    assert ask(effect, 10000).state == "requested"


def test_a_part_that_is_told_as_a_sum_is_counted_and_leaves_the_rest_in_effect(refunding):
    """The provider does not say which undo it was, only that so much of it is undone by now."""
    _, effect = landed()
    told = webhook("reversed", op=effect.pk, reference="PO-1", external_id="CH-PO-1", amount=4000, currency="EUR")
    webhooks.receive(FAKE, {"signature": "good"}, told)
    webhooks.process_due()
    assert again(effect).state == "landed"
    assert "€40.00 EUR of it is undone." in says(effect)
    with refused("exceeds_landed"):
        ask(effect, 6001)


def test_all_of_it_undone_elsewhere_reads_undone_by_the_provider(refunding):
    run, effect = landed(closed=True)
    told = webhook("landed", reference="", external_id="RE-9", amount=10000, currency="EUR", undoes="CH-PO-1")
    webhooks.receive(FAKE, {"signature": "good"}, told)
    webhooks.process_due()
    assert (again(effect).state, bucket(run)) == ("reversed", "undone")
    assert_counters(run)


def test_two_parts_of_one_charge_and_no_more_than_landed(refunding):
    run, effect = landed(closed=True)
    assert undo(effect, 6000).effect.state == "landed"
    assert bucket(run) == "landed"
    assert "€60.00 EUR of it is undone." in says(effect)
    with refused("exceeds_landed"):
        ask(effect, 6000)
    undo(effect, 4000)
    assert bucket(run) == "undone"
    assert says(effect).startswith("Undone. Fake confirmed RF-")
    assert [one.amount for one in refunding.undone] == [6000, 4000]
    assert len({one.operation_id for one in refunding.undone}) == 2
    assert_counters(run)


def test_two_approved_by_a_forger_and_only_the_sum_that_landed_goes_out(refunding):
    """The sum is checked once more under the lock: even when two approvals that are too much together got past every earlier check."""
    _, effect = landed()
    first = approved(effect, 6000)
    tamper("UPDATE ledger_compensation SET state = 'withdrawn', ended_by = 'x', ended_at = now(), ended_why = 'x' WHERE id = %s", first.pk)
    second = approved(effect, 6000)
    tamper("UPDATE ledger_compensation SET state = 'approved', ended_by = '', ended_at = NULL, ended_why = '' WHERE id = %s", first.pk)
    assert executing.execute_due() in (0, 1)
    assert len(refunding.undone) <= 1
    stale = [one for one in (now(first), now(second)) if one.state == "stale"]
    assert stale and "can still be given back" in stale[0].ended_why


# What comes of it


def test_a_refusal_frees_the_sum_and_says_what_the_provider_said(refunding):
    refunding.undo_answer = NO
    run, effect = landed(closed=True)
    request = undo(effect)
    assert (request.state, request.effect.state) == ("executed", "refused")
    assert says(effect) == 'The undo did not work: Fake said "Too old to refund.". The original charge is still in effect.'
    assert bucket(run) == "landed"
    assert kinds(run)[-1] == "compensation.failed"
    assert Event.objects.filter(run=run).latest("seq").data["message"] == "Too old to refund."
    refunding.undo_answer = refunds
    assert undo(effect).effect.state == "landed"
    assert_counters(run)


def test_nothing_left_us_so_it_did_not_happen(refunding):
    refunding.undo_answer = Answer("not_sent", detail="connection refused")
    run, effect = landed()
    assert undo(effect).effect.state == "absent"
    assert ask(effect).state == "requested"
    assert_counters(run)


def test_a_lost_answer_is_unknown_and_looked_up_and_never_sent_again(refunding):
    refunding.undo_answer = LOST
    run, effect = landed(closed=True)
    request = undo(effect)
    assert (request.state, request.effect.state) == ("executed", "unknown")
    with refused("exceeds_landed"):
        ask(effect, 1)  # its sum stays reserved
    assert fresh(run).settlement == "clear" and bucket(run) == "landed"
    refunding.answer = lambda sought: found(sought, external_id="RF-1")
    assert look(10) == ["landed"]
    assert [(one.undoes, one.provider_reference) for one in refunding.asked] == [("CH-PO-1", request.ref)]
    executing.execute_due()
    sweep()
    assert (now(request).effect.state, len(refunding.undone)) == ("landed", 1)
    assert says(effect).startswith("Undone. Fake confirmed RF-1")
    assert bucket(run) == "undone"
    assert_counters(run)


def test_a_lost_answer_that_is_proved_absent_frees_the_sum(refunding):
    refunding.undo_answer, refunding.answer = LOST, EMPTY
    _, effect = landed()
    request = undo(effect)
    look(12)
    look(12)
    assert now(request).effect.state == "absent"
    assert ask(effect).state == "requested"


def test_a_crash_after_the_commit_is_unknown_by_answer_by_and_then_looked_up(refunding):
    run, effect = landed()
    request = approved(effect)
    assert executing.begin(request.pk, "n" * 32) is not None, "and here the process dies"
    assert executing.execute_due() == 0 and not executing.execute(request.pk)
    let_time_pass(61)
    assert outcomes.time_out_due() == 1
    assert (now(request).state, now(request).effect.state) == ("executed", "unknown")
    refunding.answer = EMPTY
    look(12)
    look(12)
    assert now(request).effect.state == "unknown", "nobody knows that its sender has stopped"
    refunding.answer = lambda sought: found(sought, external_id="RF-1")
    look(600)
    assert now(request).effect.state == "landed"
    assert refunding.undone == []
    assert_counters(run)


def test_a_commit_that_failed_sends_nothing(refunding, monkeypatch):
    _, effect = landed()
    request = approved(effect)
    with monkeypatch.context() as patched:
        patched.setattr(executing.endings, "record", lambda *a, **k: (_ for _ in ()).throw(OperationalError("gone")))
        with pytest.raises(OperationalError):
            executing.execute(request.pk)
    assert (now(request).state, refunding.undone) == ("approved", [])
    assert executing.execute(request.pk) and len(refunding.undone) == 1


def test_an_adapter_that_raises_in_the_middle_of_an_undo_may_have_sent_it(refunding):
    """Its bytes may have left: that is unknown, looked up, and never asked for a second time."""

    def breaks(send):
        raise RuntimeError("half of a request")

    refunding.undo_answer = breaks
    run, effect = landed()
    request = approved(effect)
    with pytest.raises(RuntimeError, match="half of a request"):
        executing.execute(request.pk)
    (kept,) = Evidence.objects.filter(effect=now(request).effect)
    assert (kept.source, kept.verdict, kept.detail["message"]) == ("sender", "unknown", "RuntimeError in the adapter")
    assert now(request).effect.state == "unknown"
    assert not executing.execute(request.pk) and len(refunding.undone) == 1
    refunding.answer = lambda sought: found(sought, external_id="RF-1")
    look(12)
    assert now(request).effect.state == "landed" and len(refunding.undone) == 1
    assert_counters(run)


def test_too_late_to_begin_writing_nothing_is_sent(refunding, monkeypatch):
    _, effect = landed()
    request = approved(effect)
    ticks = iter([0.0, 10.5])
    monkeypatch.setattr(executing, "_awake_s", lambda: next(ticks))
    assert not executing.execute(request.pk)
    assert (now(request).effect.state, refunding.undone) == ("absent", [])


def test_its_own_case_counts_for_the_request_and_not_for_the_run(refunding):
    refunding.undo_answer, refunding.answer = LOST, DOWN
    run, effect = landed(closed=True)
    request = undo(effect)
    tell(now(request).effect, "refused", attempt=1)
    tell(now(request).effect, "landed", attempt=1)
    sweep()
    (case,) = open_cases()
    assert (case.effect_id, case.kind) == (request.effect_id, "conflicting")
    assert (fresh(run).needs_person, fresh(run).settlement) == (0, "clear")
    assert_counters(run)


def test_a_refund_that_fails_later_reads_reversed_and_somebody_is_told(refunding):
    run, effect = landed(closed=True)
    request = undo(effect)
    assert bucket(run) == "undone"
    told = webhook(
        "reversed", op=request.effect_id, reference=request.ref, external_id=request.effect.external_id, amount=10000, currency="EUR"
    )
    webhooks.receive(FAKE, {"signature": "good"}, told)
    webhooks.process_due()
    assert now(request).effect.state == "reversed"
    assert (again(effect).state, bucket(run)) == ("landed", "landed")
    assert "it had worked, and was taken back later" in says(effect)
    assert kinds(run)[-1] == "compensation.failed"
    assert undo(effect).effect.state == "landed", "the sum can be asked for again"
    assert_counters(run)


def test_a_webhook_of_the_original_that_our_undo_caused_is_the_undos_evidence(refunding):
    """As the supplier tells it: the order itself is cancelled, under the key that we sent. The order stays what it was to us: landed."""
    refunding.undo_answer = LOST
    run, effect = landed(closed=True)
    request = undo(effect)
    told = webhook(
        "reversed", op=effect.pk, reference="PO-1", external_id="CH-PO-1", amount=10000, currency="EUR",
        undone_by=str(request.effect_id), undo_id="RF-1",
    )  # fmt: skip
    webhooks.receive(FAKE, {"signature": "good"}, told)
    webhooks.process_due()
    assert (again(effect).state, now(request).effect.state, now(request).effect.external_id) == ("landed", "landed", "RF-1")
    assert Evidence.objects.get(effect=effect, source="webhook").used_as == "agrees", "the original keeps what was said of it, too"
    assert bucket(run) == "undone"
    assert_counters(run)


def test_a_webhook_before_the_answer_agrees_with_it(refunding):
    def told_first(send):
        told = webhook(
            "reversed", op=effect.pk, reference="PO-1", external_id="CH-PO-1", amount=10000, currency="EUR",
            undone_by=send.operation_id, undo_id=f"RF-{send.operation_id[:8]}",
        )  # fmt: skip
        webhooks.receive(FAKE, {"signature": "good"}, told)
        webhooks.process_due()
        return refunds(send)

    refunding.undo_answer = told_first
    run, effect = landed()
    request = undo(effect)
    assert (request.state, request.effect.state, again(effect).state) == ("executed", "landed", "landed")
    assert kinds(run).count("compensation.undone") == 1
    assert_counters(run)


def test_another_amount_than_was_asked_for_needs_a_person(refunding):
    refunding.undo_answer = lambda send: Answer("landed", Found("RF-1", "landed", 5999, "EUR", send.provider_reference, None))
    _, effect = landed()
    assert undo(effect, 6000).effect.state == "conflicted"
    with refused("exceeds_landed"):
        ask(effect, 5000)


def test_a_cancel_of_the_run_does_not_touch_its_undo(refunding):
    refunding.undo_answer = LOST
    run, effect = landed()
    request = undo(effect, 4000)
    waiting = ask(effect, 6000)
    receipt = cancel(run).request.receipt
    assert receipt["in_flight"] == [] and receipt["unresolved"] == []
    assert (now(waiting).state, now(request).effect.state) == ("requested", "unknown")
    refunding.undo_answer = refunds
    approve(waiting)
    assert executing.execute(waiting.pk)
    assert_counters(run)


def test_looks_that_find_nothing_say_nothing_of_the_original(refunding):
    refunding.undo_answer, refunding.answer = LOST, Look("unreachable")
    _, effect = landed()
    request = undo(effect)
    look(10)
    assert (again(effect).state, now(request).effect.state) == ("landed", "unknown")
    assert SUPPORT.name in now(request).requested_name
