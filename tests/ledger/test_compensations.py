"""Requests to undo: who may ask, who may decide, and what a decision binds. The database is asked too, past every function."""

from __future__ import annotations

import uuid
from dataclasses import replace
from itertools import product

import psycopg
import pytest

from ledger import compensations, rulebook, undo_states
from ledger.models import Compensation, CompensationDecision
from ledger.rulebook import NewTerms
from runs import actors
from runs.actors import Actor
from runs.models import Event
from tests import platform
from tests.fakes import FAKE
from tests.makers import (
    ADMIN,
    APPROVER,
    APPROVER2,
    OTHER,
    SUPPORT,
    WORKER,
    again,
    assert_counters,
    child_of,
    kinds,
    let_time_pass,
    new_run,
    open_cases,
    refused,
    send,
    settle,
    sweep,
    tell,
)
from tests.undo import TERMS, allow, approve, approved, ask, landed, now, tamper, undo, wish

pytestmark = pytest.mark.usefixtures("refunding")


# Asking


def test_a_request_keeps_what_is_asked_the_verdict_and_the_rule():
    run, effect = landed()
    request, is_new = compensations.request(SUPPORT, effect.pk, wish(6000, note=" paid twice "))
    assert is_new and request.ref.startswith("C-")
    kept = now(request)
    assert (kept.state, kept.amount, kept.currency, kept.target, kept.action) == ("requested", 6000, "EUR", "CH-PO-1", "refund")
    assert (kept.requested_name, kept.reason, kept.note, kept.rule_version, kept.approvals_needed) == (
        "Sam Support", "duplicate", "paid twice", 1, 1,
    )  # fmt: skip
    assert all(one["holds"] for one in kept.verdict) and len(kept.verdict) > 4
    assert (kept.expires_at - kept.requested_at).total_seconds() == 72 * 3600
    assert kinds(run)[-1] == "compensation.requested"
    assert_counters(run)


def test_the_same_wish_of_the_same_person_is_one_request():
    _, effect = landed()
    first, _ = compensations.request(SUPPORT, effect.pk, wish(6000))
    again, is_new = compensations.request(SUPPORT, effect.pk, wish(6000))
    assert (again.pk, is_new) == (first.pk, False)
    with refused("not_eligible") as told:
        compensations.request(OTHER, effect.pk, wish(6000))
    assert first.ref in told.value.detail and "Sam Support" in told.value.detail
    with refused("not_eligible"):
        compensations.request(SUPPORT, effect.pk, wish(5000))
    assert Compensation.objects.count() == 1


@pytest.mark.parametrize("amount", [-1, 0, 1.5, "1e3", float("nan"), True, "17,000", 10**16, None])
def test_odd_amounts_are_refused(amount):
    _, effect = landed()
    with refused("invalid") as told:
        compensations.request(SUPPORT, effect.pk, replace(wish(), amount=amount))
    assert told.value.facts["field"] == "amount"
    assert not Compensation.objects.exists()


def test_an_amount_over_the_rule_another_currency_and_more_than_landed_are_refused():
    _, effect = landed(amount=2000000)
    for amount, currency, code in ((1000001, "EUR", "not_eligible"), (100, "USD", "not_eligible"), (2000001, "EUR", "exceeds_landed")):
        with refused(code):
            ask(effect, amount, currency=currency)
    assert ask(effect, 1000000).approvals_needed == 2


@pytest.mark.parametrize("reason, note, field", [("because", "", "reason"), ("other", "  ", "note")])
def test_a_reason_is_one_of_the_words_and_other_needs_a_note(reason, note, field):
    _, effect = landed()
    with refused("invalid") as told:
        ask(effect, reason=reason, note=note)
    assert told.value.facts["field"] == field


MACHINE = Actor("machine", "m", "a machine", "api", actors.MACHINE_SCOPES | {actors.COMPENSATION_REQUEST, actors.COMPENSATION_APPROVE})
SYSTEM = actors.system("sweep")


@pytest.mark.parametrize("actor", [WORKER, MACHINE, SYSTEM, replace(SUPPORT, scopes=frozenset())])
def test_no_token_no_system_and_nobody_without_permission_asks_or_decides(actor):
    _, effect = landed()
    with refused("not_allowed"):
        ask(effect, actor=actor)
    request = ask(effect)
    for act in (
        lambda: approve(request, actor),
        lambda: compensations.withdraw(actor, request.pk, "no"),
        lambda: compensations.edit(actor, request.pk, 1, {"amount": 5}),
    ):
        with refused("not_allowed"):
            act()
    assert now(request).state == "requested"


def test_without_somebody_who_may_approve_nothing_is_asked(known):
    _, effect = landed(amount=600000)
    known.leaves(APPROVER2)
    with refused("not_eligible") as told:
        ask(effect, 600000)
    assert "It needs 2 approvals, and only Amy Approver may give one" in told.value.detail
    known.leaves(APPROVER)
    with refused("not_eligible") as told:
        ask(effect, 100)
    assert "Nobody else here may approve it" in told.value.detail
    assert not Compensation.objects.exists()


def test_after_a_decision_another_part_can_be_asked_for():
    _, effect = landed()
    approved(effect, 6000)
    with refused("exceeds_landed") as told:
        ask(effect, 6000)
    assert "€60.00 EUR of it is undone or being undone already: €40.00 EUR can still be given back." in told.value.detail
    assert approved(effect, 4000).state == "approved"


# Who may not approve


def test_the_requester_never_approves_whatever_the_amount():
    _, effect = landed()
    for amount in (1, 5000):
        request = ask(effect, amount, actor=APPROVER)
        for decision in ("approved", "rejected"):
            with refused("same_person") as told:
                compensations.decide(APPROVER, request.pk, decision, 1, "fine")
        assert told.value.detail == "You asked for this, so someone else must approve it."
        assert told.value.facts["approvers"] == ["Bo Approver"]
        approve(request, APPROVER2)
    assert CompensationDecision.objects.filter(by=APPROVER.id).count() == 0


def test_whoever_edited_it_does_not_approve_it():
    _, effect = landed()
    request = ask(effect)
    compensations.edit(APPROVER, request.pk, 1, {"amount": 3000})
    with refused("same_person") as told:
        compensations.decide(APPROVER, request.pk, "approved", 2)
    assert told.value.detail.startswith("You edited this request")
    assert compensations.decide(APPROVER2, request.pk, "approved", 2).state == "approved"


def test_whoever_started_the_run_does_not_approve_it():
    run, effect = landed()
    tamper("UPDATE runs_run SET owner = %s WHERE id = %s", APPROVER.id, run.pk)
    request = ask(effect)
    with refused("same_person") as told:
        approve(request, APPROVER)
    assert told.value.detail.startswith("You started this run")
    assert approve(request, APPROVER2).state == "approved"


def test_whoever_started_the_run_at_the_top_does_not_approve_it_either():
    parent, token = new_run()
    child, child_token = child_of(parent, token, "w-2")
    sent = send(child, child_token, ref="PO-1", provider=FAKE, action="charge", amount=10000, currency="EUR")
    tell(sent, "landed", external_id="CH-1")
    tamper("UPDATE runs_run SET owner = %s WHERE id = %s", APPROVER.id, parent.pk)
    request = ask(again(sent))
    with refused("same_person") as told:
        approve(request)
    assert told.value.detail.startswith("You started this run")


def test_whoever_recorded_evidence_that_settled_nothing_does_not_approve_it(known):
    both = replace(APPROVER, id="u-both", name="Both", scopes=APPROVER.scopes | SUPPORT.scopes)
    known.actors.append(both)
    run, token = new_run()
    sent = send(run, token, ref="PO-1", provider=FAKE, action="charge", amount=10000, currency="EUR")
    for _ in range(3):
        let_time_pass(3700)
        sweep()
    (case,) = open_cases()
    assert settle(case, "did_not_happen", actor=both).outcome == "kept"
    tell(sent, "landed", external_id="CH-1")
    request = ask(again(sent))
    with refused("same_person") as told:
        approve(request, both)
    assert told.value.detail.startswith("You recorded the evidence")


def test_whoever_settled_its_case_does_not_approve_it(refunding, known):
    settler = replace(APPROVER, scopes=APPROVER.scopes | {actors.CASE_SETTLE, actors.CASE_READ})
    run, effect = landed()
    tell(effect, "refused")
    sweep()
    settle(open_cases(effect=effect)[0], "happened", settler, external_id="CH-PO-1")
    request = ask(effect)
    with refused("same_person") as told:
        approve(request, settler)
    assert told.value.detail == "You recorded the evidence for this action, so someone else must approve it."
    assert approve(request, APPROVER2).state == "approved"
    assert_counters(run)


def test_the_database_refuses_an_excluded_approver_too():
    """Past every function: as the application's own role, in SQL."""
    _, effect = landed()
    request = ask(effect, actor=APPROVER)
    insert = (
        "INSERT INTO ledger_compensationdecision (id, compensation_id, decision, version, digest, by, by_name, channel, comment, at)"
        " VALUES (%s, %s, 'approved', %s, %s, %s, 'x', '', '', clock_timestamp())"
    )
    with psycopg.connect(platform.APP_URL, autocommit=True) as app:
        for by in (APPROVER.id, *request.excluded):
            with pytest.raises(psycopg.errors.CheckViolation, match="somebody else decides"):
                app.execute(insert, (uuid.uuid4(), request.pk, 1, request.digest, by))
        with pytest.raises(psycopg.errors.CheckViolation, match="not what was decided upon"):
            app.execute(insert, (uuid.uuid4(), request.pk, 1, "0" * 64, "somebody"))
        with pytest.raises(psycopg.errors.CheckViolation, match="not approved by enough"):
            app.execute("UPDATE ledger_compensation SET state = 'approved' WHERE id = %s", (request.pk,))
        with pytest.raises(psycopg.errors.CheckViolation, match="who asked for it cannot change"):
            app.execute("UPDATE ledger_compensation SET requested_by = 'somebody' WHERE id = %s", (request.pk,))
    assert now(request).state == "requested"


def test_the_database_keeps_what_was_decided_and_deletes_nothing():
    _, effect = landed()
    request = approved(effect)
    with psycopg.connect(platform.APP_URL, autocommit=True) as app:
        for change in ("amount = 1", "note = 'x'", "digest = 'x'", "excluded = '{}'", "expires_at = now() + interval '1 year'"):
            with pytest.raises(psycopg.errors.CheckViolation, match="cannot change"):
                app.execute(f"UPDATE ledger_compensation SET {change} WHERE id = %s", (request.pk,))
        for statement in (
            "DELETE FROM ledger_compensation",
            "TRUNCATE ledger_compensation CASCADE",
            "DELETE FROM ledger_compensationdecision",
            "UPDATE ledger_compensationdecision SET decision = 'rejected'",
            "UPDATE ledger_compensationrule SET max_amount = 1",
        ):
            with pytest.raises((psycopg.errors.RestrictViolation, psycopg.errors.InsufficientPrivilege)):
                app.execute(statement)
        with pytest.raises(psycopg.errors.CheckViolation, match="enough other people|cannot change|may not move"):
            app.execute("UPDATE ledger_compensation SET state = 'requested' WHERE id = %s", (request.pk,))
    assert now(request).state == "approved"


def test_the_databases_moves_are_the_tables_moves(owner_connection):
    source = owner_connection.execute("SELECT prosrc FROM pg_proc WHERE proname = 'ledger_guard_compensation'").fetchone()[0]
    told = {move for move in product(undo_states.STATES, undo_states.STATES) if f"('{move[0]}', '{move[1]}')" in source}
    assert told == {(a, b) for a, to in undo_states.MOVES.items() for b in to}


# Deciding


def test_an_approval_binds_what_was_shown():
    run, effect = landed()
    request = approve(ask(effect, 6000))
    decision = request.decisions.get()
    assert (request.state, decision.digest, decision.version, decision.by_name) == ("approved", request.digest, 1, "Amy Approver")
    assert kinds(run)[-1] == "compensation.approved"
    event = Event.objects.filter(run=run).latest("seq")
    assert (event.subject, event.data["digest"], event.actor_id) == (request.ref, request.digest, APPROVER.id)


def test_over_a_limit_two_different_people_approve():
    _, effect = landed(amount=600000)
    request = ask(effect, 600000)
    assert approve(request).state == "requested"
    with refused("already_decided") as told:
        approve(request)
    assert "It needs 2 different people." in told.value.detail
    assert approve(request, APPROVER2).state == "approved"


def test_one_no_is_enough_and_needs_a_reason():
    run, effect = landed(amount=600000)
    request = ask(effect, 600000)
    approve(request)
    with refused("invalid"):
        compensations.decide(APPROVER2, request.pk, "rejected", 1, " ")
    compensations.decide(APPROVER2, request.pk, "rejected", 1, "not a duplicate")
    kept = now(request)
    assert (kept.state, kept.ended_name, kept.ended_why) == ("rejected", "Bo Approver", "not a duplicate")
    assert kept.ended_at is not None and kinds(run)[-1] == "compensation.rejected"
    assert ask(effect, 600000).pk != request.pk, "asked again, as another request"


@pytest.mark.parametrize("decided", ["approved", "rejected", "withdrawn"])
def test_what_was_decided_is_not_decided_again(decided):
    _, effect = landed()
    request = ask(effect)
    if decided == "withdrawn":
        compensations.withdraw(SUPPORT, request.pk, "my mistake")
    else:
        compensations.decide(APPROVER, request.pk, decided, 1, "as I see it")
    for decision in ("approved", "rejected"):
        with refused("already_decided") as told:
            compensations.decide(APPROVER2, request.pk, decision, 1, "too late")
    assert "Your decision changed nothing." in told.value.detail
    with refused("already_decided"):
        compensations.edit(SUPPORT, request.pk, 1, {"amount": 1})


def test_an_edit_is_another_version_which_nobody_has_approved():
    _, effect = landed(amount=600000)
    request = ask(effect, 600000)
    approve(request)
    edited = compensations.edit(SUPPORT, request.pk, 1, {"amount": 550000, "note": "all but the fee"})
    assert (edited.version, edited.amount, edited.approvals_needed) == (2, 550000, 2)
    with refused("stale") as told:
        approve(request, APPROVER2)
    assert "it is version 2 now" in told.value.detail
    assert approve(edited, APPROVER2).state == "requested", "the approval of version 1 does not count for version 2"
    assert approve(edited).state == "approved"


@pytest.mark.parametrize("act", ["withdraw", "reject"])
def test_withdrawing_and_rejecting_keep_the_row(act):
    run, effect = landed()
    request = ask(effect)
    if act == "withdraw":
        with refused("invalid"):
            compensations.withdraw(SUPPORT, request.pk, "")
        compensations.withdraw(SUPPORT, request.pk, "asked by mistake")
        who, why = SUPPORT, "asked by mistake"
    else:
        compensations.decide(APPROVER, request.pk, "rejected", 1, "not owed")
        who, why = APPROVER, "not owed"
    kept = now(request)
    assert (kept.ended_by, kept.ended_name, kept.ended_why) == (who.id, who.name, why)
    assert Event.objects.filter(run=run, subject=request.ref, actor_id=who.id).exists()
    with pytest.raises(TypeError):
        kept.delete()


def test_approved_can_be_withdrawn_until_it_is_sent(refunding):
    _, effect = landed()
    request = approved(effect)
    assert compensations.withdraw(SUPPORT, request.pk, "changed my mind").state == "withdrawn"
    sent = undo(effect)
    with refused("already_decided") as told:
        compensations.withdraw(SUPPORT, sent.pk, "too late")
    assert "it can't be called back" in told.value.detail
    assert len(refunding.undone) == 1


# Being late, and being out of date


def test_after_72_hours_nobody_decides_and_that_is_kept():
    run, effect = landed()
    request = ask(effect)
    let_time_pass(72 * 3600)
    with refused("expired") as told:
        approve(request)
    assert told.value.detail == "Nobody decided within 72 h. Ask again."
    assert (now(request).state, kinds(run)[-1]) == ("expired", "compensation.expired")
    assert ask(effect).state == "requested"


def test_exactly_at_the_boundary_it_has_expired(monkeypatch):
    _, effect = landed()
    request = ask(effect)
    monkeypatch.setattr(compensations.transition, "clock", lambda: request.expires_at)
    with refused("expired"):
        approve(request)


def test_the_sweep_ends_what_expired_or_went_stale():
    _, one = landed("PO-1")
    _, two = landed("PO-2")
    late, stale = ask(one), ask(two)
    tell(two, "refused")
    assert compensations.lapse_due() == 1
    let_time_pass(73 * 3600)
    assert compensations.lapse_due() == 1
    assert (now(late).state, now(stale).state) == ("expired", "stale")
    assert compensations.lapse_due() == 0
    assert not compensations.lapse(late.pk), "whoever else swept it has ended it already"


def test_an_original_that_is_now_conflicted_makes_it_stale():
    _, effect = landed()
    request = ask(effect)
    tell(effect, "refused")
    with refused("stale") as told:
        approve(request)
    assert "conflicted" in told.value.detail
    assert now(request).state == "stale"


def test_a_changed_rule_makes_it_stale():
    _, effect = landed()
    request = ask(effect)
    rulebook.change(ADMIN, "fake", "charge", "EUR", replace(TERMS, max_amount=5000000), "more")
    with refused("stale") as told:
        approve(request)
    assert "The rule changed to version 2" in told.value.detail
    assert approve(ask(effect)).rule_version == 2


def test_late_evidence_that_changes_nothing_leaves_it_standing():
    _, effect = landed()
    request = ask(effect)
    assert tell(effect, "landed", external_id="CH-PO-1", response={"again": True}) == "agrees"
    assert approve(request).state == "approved"


def test_what_moved_no_money_is_undone_whole(refunding):
    refunding.promise(compensable={"charge": "refund", "publish": "unpublish"})
    allow(NewTerms(), currency="", action="publish")
    _, effect = landed(amount=None, action="publish")
    with refused("not_eligible"):
        ask(effect, 5)
    assert undo(effect, None).effect.state == "landed"
    with refused("exceeds_landed"):
        ask(effect, None)
