"""Looks: what is asked, when, and how absence is proved and not proved."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ledger.models import Evidence
from ledger.providers.base import Found, Look
from reconciliation import findings, looks, verdicts
from runs import leases, transition
from tests.fakes import DENIED, DOWN, EMPTY, found
from tests.makers import (
    SUPPORT,
    WORKER,
    again,
    cancel,
    claim,
    fresh,
    kinds,
    let_time_pass,
    look,
    new_run,
    open_cases,
    send,
    settle,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")


def unknown(ref="PO-1042", **values):
    """An effect whose sender said that it does not know."""
    run, token = new_run()
    sent = send(run, token, ref=ref, provider="fake", **values)
    tell(sent, "unknown")
    return run, token, sent


def abandoned():
    """An effect whose worker has vanished: its lease is over and nobody says anything."""
    run, token = new_run()
    sent = send(run, token, provider="fake")
    let_time_pass(31)
    leases.expire_due()
    return run, token, sent


def look_often(times, seconds=50):
    return [verdict for _ in range(times) for verdict in look(seconds)]


def test_what_is_found_settles_it(fake):
    run, _, sent = unknown()
    fake.answer = found
    assert look() == [], "not before it is due"
    assert look(6) == ["landed"]
    effect = again(sent)
    assert (effect.state, effect.how_we_know, effect.external_id, effect.landed_amount) == ("landed", "look", "S-1", 12500)
    assert look(10**6) == [], "what is known is not asked about"
    sought = fake.asked[0]
    assert (sought.provider_reference, sought.operation_id, sought.amount) == ("PO-1042", str(sent.effect.pk), 12500)


@pytest.mark.parametrize("state", ["pending", "refused", "reversed", "landed"])
def test_each_thing_a_look_may_find(fake, state):
    run, _, sent = unknown()
    fake.answer = lambda sought: found(sought, state)
    assert look(6) == [state]
    assert again(sent).state == state


@pytest.mark.parametrize("wrong", [{"amount": 99}, {"currency": "USD"}])
def test_something_else_under_our_reference_conflicts_and_keeps_its_id(fake, wrong):
    run, _, sent = unknown()
    fake.answer = lambda sought: found(sought, external_id="S-7", **wrong)
    look(6)
    assert (again(sent).state, again(sent).external_id) == ("conflicted", "S-7")
    if "amount" in wrong:
        assert again(sent).landed_amount == 99


def test_two_objects_are_a_duplicate_and_a_case(fake):
    run, _, sent = unknown()
    fake.answer = lambda sought: Look("found", (*found(sought).objects, *found(sought, external_id="S-2").objects))
    look(6)
    assert again(sent).state == "duplicated"
    sweep()
    (case,) = open_cases()
    assert (case.kind, case.facts["external_ids"]) == ("duplicated", ["S-1", "S-2"])
    assert fresh(run).landed == 1
    settle(case, "surplus_named", surplus=("S-2",))
    sweep()
    assert not open_cases()
    assert again(sent).state == "duplicated", "it stays a fact"


def test_an_object_of_another_reference_says_nothing(fake):
    run, _, sent = unknown()
    fake.answer = Look("found", (Found("S-1", "landed", 12500, "EUR", "PO-OTHER", None),))
    assert look(6) == ["unreachable"]
    assert again(sent).state == "unknown"


# Absence ------------------------------------------------------------------------------------------------------------


def test_two_empty_looks_after_its_sender_stopped_prove_absence(fake):
    run, _, sent = unknown()
    assert look(6) == ["empty"], "too early: something may still be in flight"
    assert look(5) == ["empty"]
    assert again(sent).state == "unknown"
    assert look(9) == [], "not yet ten seconds apart"
    assert look(1.5) == ["empty"]
    assert (again(sent).state, again(sent).how_we_know, again(sent).holds_action) == ("absent", "look", False)


def test_without_a_stopped_sender_nothing_proves_it(fake):
    run, _, sent = abandoned()
    assert set(look_often(6, 700)) == {"empty"}
    assert again(sent).state == "unknown"
    sweep()
    (case,) = open_cases()
    assert case.kind == "not_found_sender_alive"
    assert "w-1 was never confirmed stopped" in case.why
    assert again(sent).state == "ambiguous"
    assert fresh(run).settlement == "unresolved"


def test_the_supervisor_reaps_it_and_it_is_sent_again(fake):
    fake.promise(after_absent="resend")
    run, _, sent = abandoned()
    look_often(2)
    assert leases.gone(WORKER, "w-1", "SIGKILL") == [run.ref]
    assert look(11) + look(11) == ["empty", "empty"]
    assert again(sent).state == "absent"
    run, token = claim("w-2")
    assert send(run, token, provider="fake").attempt.number == 2


def test_a_stop_that_is_known_only_after_the_schedule_has_ended_still_proves_it(fake):
    fake.promise(look_schedule_s=[5, 15], person_after_s=10**7)
    run, _, sent = abandoned()
    assert look_often(3) == ["empty", "empty"]
    assert again(sent).next_look_at is None
    leases.gone(WORKER, "w-1", "SIGKILL")
    assert look(11) + look(11) == ["empty", "empty"]
    assert again(sent).state == "absent"


def test_a_stop_makes_it_look_at_once_and_not_at_the_next_turn_of_the_schedule(fake):
    fake.promise(look_schedule_s=[5, 10**5])
    run, _, sent = abandoned()
    look(6)
    leases.stopped(WORKER, run.pk, sent and fresh(run).leases.get(epoch=1).token)
    assert look(11) + look(11) == ["empty", "empty"]
    assert again(sent).state == "absent"


def test_an_outcome_of_unknown_is_a_stop_as_well(fake):
    fake.promise(look_schedule_s=[5, 10**5])
    run, _, sent = abandoned()
    look(6)
    tell(sent, "unknown")
    assert look(11) + look(11) == ["empty", "empty"]
    assert again(sent).state == "absent"


def test_the_lag_of_the_lookup_counts(fake):
    fake.promise(lookup="eventual", lookup_lag_s=100)
    run, _, sent = unknown()
    look_often(2, 50)
    assert again(sent).state == "unknown"
    let_time_pass(20)
    look_often(2, 12)
    assert again(sent).state == "absent"


def test_a_look_during_which_the_effect_changed_does_not_count(fake):
    run, _, sent = unknown()
    let_time_pass(11)
    fake.while_asked = lambda sought: tell(sent, "unknown", response={"n": len(fake.asked)})
    look()
    look(11)
    assert again(sent).state == "unknown"
    fake.while_asked = None
    assert look(11) + look(11) == ["empty", "empty"]
    assert again(sent).state == "absent"


def test_an_unsteady_look_is_taken_again_soon(fake):
    fake.promise(look_schedule_s=[5, 10**5])
    run, _, sent = unknown()
    let_time_pass(11)
    fake.while_asked = lambda sought: tell(sent, "unknown", response={"n": 1})
    look()
    fake.while_asked = None
    assert look(11) + look(11) == ["empty", "empty"]


def test_what_landed_while_it_was_being_looked_for_stays_landed(fake):
    run, _, sent = unknown()
    fake.while_asked = lambda sought: tell(sent, "landed")
    assert look(6) == ["empty"]
    assert again(sent).state == "landed"
    assert again(sent).next_look_at is None


def test_a_lookup_by_id_only_proves_no_absence(fake):
    fake.promise(lookup="by_id")
    run, _, sent = unknown()
    look_often(6, 700)
    assert again(sent).state == "unknown"


def test_an_object_once_seen_is_not_absent_because_it_is_no_longer_listed(fake):
    """Two empty looks, but not on both sides of a sighting."""
    run, _, sent = unknown()
    let_time_pass(11)
    look()
    fake.answer = lambda sought: found(sought, "pending")
    look(11)
    assert again(sent).state == "pending"
    fake.answer = EMPTY
    look(30)
    assert again(sent).state == "pending"


# Schedule, pauses and people ----------------------------------------------------------------------------------------


def test_what_the_provider_commits_after_our_timeout_is_found_later(fake):
    """An early empty look changes nothing: what is in flight may still arrive."""
    run, _, sent = unknown()
    assert look(5.6) == ["empty"]
    assert again(sent).state == "unknown"
    fake.answer = found
    assert look(6) == ["landed"]
    assert again(sent).state == "landed"


def test_unreachable_uses_up_no_look_and_says_nothing(fake):
    run, _, sent = unknown()
    fake.answer = DOWN
    assert look(6) == ["unreachable"]
    assert (again(sent).looks, again(sent).state) == (0, "unknown")
    assert Evidence.objects.get(effect=sent.effect, source="look").used_as == "no_information"
    assert again(sent).next_look_at > transition.clock()
    fake.answer = found
    assert look(10) == ["landed"]


def test_looks_go_on_while_a_person_is_asked(fake):
    run, _, sent = abandoned()
    look_often(5, 900)
    sweep()
    assert open_cases()[0].kind == "not_found_sender_alive"
    fake.answer = found
    look(3600)
    assert again(sent).state == "landed"
    sweep()
    assert not open_cases(), "its question has answered itself"
    assert fresh(run).needs_person == 0


def test_one_reconciler_at_a_time(fake):
    run, _, sent = unknown()
    let_time_pass(6)
    (ticket,) = looks.take_due()
    assert looks.take_due() == []
    let_time_pass(61)
    (second,) = looks.take_due()
    assert looks.look(ticket) == "not_due", "its lease on the look is over"
    assert looks.look(second) == "empty"


@pytest.mark.parametrize(("rate", "at_once", "refill_s"), [(3, 3, 1), (0.1, 1, 10)])
def test_the_rate_is_kept(fake, rate, at_once, refill_s):
    fake.promise(rate_per_s=rate)
    for n in range(5):
        unknown(f"PO-{n}")
    let_time_pass(30)
    assert len(looks.take_due()) == at_once
    if refill_s >= 10:
        assert len(looks.take_due()) == 0
    let_time_pass(refill_s)
    assert len(looks.take_due()) >= 1


def test_a_person_asks_at_once(fake):
    run, _, sent = unknown()
    fake.answer = found
    assert findings.check_now(SUPPORT, sent.effect.pk)
    assert look() == ["landed"]
    assert "look.asked" in kinds(run)
    assert not findings.check_now(SUPPORT, sent.effect.pk)


def test_the_looks_of_a_cancelled_run_go_on(fake):
    run, token, sent = unknown()
    leases.stopped(WORKER, run.pk, token)
    cancel(run)
    assert fresh(run).status == "cancelled_pending"
    fake.answer = found
    look(6)
    assert fresh(run).status == "cancelled_reconciled"


def test_being_denied_is_no_information_either(fake):
    run, _, sent = unknown()
    fake.answer = DENIED
    assert look(6) == ["unreachable"]
    assert again(sent).state == "unknown"


def test_next_looks_follow_the_schedule(fake):
    run, _, sent = abandoned()
    began = again(sent).unknown_since
    for looked, expected in enumerate((15, 45, 120)):
        look(max((again(sent).next_look_at - transition.clock()).total_seconds(), 0) + 0.01)
        assert again(sent).looks == looked + 1
        due = (again(sent).next_look_at - again(sent).unknown_since).total_seconds()
        assert expected * 0.9 <= due <= expected * 1.1
    assert began is not None


def test_empty_looks_are_read_from_evidence(fake):
    run, _, sent = unknown()
    look_often(1, 11)
    (kept,) = Evidence.objects.filter(effect=sent.effect, source="look")
    assert (kept.verdict, kept.used_as, kept.effect_version, kept.http_status) == ("empty", "applied", 2, 200)
    assert kept.began_at <= kept.at
    assert verdicts.EMPTY == "empty"
    assert timedelta(0) <= kept.at - kept.began_at
