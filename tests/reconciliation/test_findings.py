"""What people find: evidence first, two people where it cannot be known, and nothing that a verdict could break."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger.models import Account, Evidence
from reconciliation import cases, ceilings, findings
from reconciliation.models import CaseEvent
from runs import leases, waiting
from runs.errors import NotAllowed
from tests.fakes import found
from tests.makers import (
    OTHER,
    SUPPORT,
    WORKER,
    again,
    cancel,
    claim,
    fresh,
    let_time_pass,
    look,
    new_run,
    open_cases,
    refused,
    send,
    settle,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")


@pytest.fixture
def asked(fake):
    """A case about an effect of a run that waits; nobody knows whether its worker is gone."""
    fake.promise(lookup="none")
    run, token = new_run()
    sent = send(run, token, provider="fake")
    let_time_pass(31)
    leases.expire_due()
    sweep()
    (case,) = open_cases()
    assert fresh(run).state == "awaiting_evidence"
    return run, sent, case


def test_it_happened(asked):
    run, sent, case = asked
    assert settle(case, "happened", external_id="S-4", notes="seen").outcome == "settled"
    effect = again(sent)
    assert (effect.state, effect.external_id, effect.how_we_know, effect.known_by) == ("landed", "S-4", "person", SUPPORT.name)
    assert effect.landed_amount == 12500
    assert (fresh(run).state, fresh(run).needs_person) == ("scheduled", 0)
    kept = Evidence.objects.get(effect=effect, source="person")
    assert (kept.verdict, kept.actor_name, kept.detail["notes"]) == ("landed", SUPPORT.name, "seen")


def test_it_happened_for_another_amount(asked):
    run, sent, case = asked
    with refused("evidence_required"):
        settle(case, "happened_differently")
    settle(case, "happened_differently", amount=9900)
    assert (again(sent).state, again(sent).landed_amount, again(sent).landed_currency) == ("landed", 9900, "EUR")


def test_it_did_not_happen_needs_to_know_that_the_process_is_gone(asked):
    run, sent, case = asked
    kept = settle(case, "did_not_happen")
    assert kept.outcome == "kept"
    assert "w-1 was never confirmed stopped" in kept.why
    assert (again(sent).state, open_cases()) == ("ambiguous", [case])
    assert Evidence.objects.filter(effect=sent.effect, source="person", verdict="absent", used_as="kept").count() == 1
    assert settle(case, "did_not_happen", sender_gone="I switched the host off myself.").outcome == "settled"
    assert (again(sent).state, again(sent).release) == ("absent", "asked")
    assert Evidence.objects.filter(effect=sent.effect, source="person", verdict="sender_stopped").count() == 1


def test_it_did_not_happen_when_the_process_is_known_to_be_gone(asked):
    run, sent, case = asked
    leases.gone(WORKER, "w-1", "killed")
    assert settle(case, "did_not_happen").outcome == "settled"
    assert again(sent).state == "absent"


@pytest.mark.parametrize(
    ("verdict", "values"),
    [
        ("happened", {"external_id": ""}),
        ("happened", {"external_id": "  "}),
        ("did_not_happen", {"seen_where": "", "seen_at": None}),
        ("did_not_happen", {"seen_at": None}),
        ("happened_differently", {"amount": None}),
    ],
)
def test_free_text_alone_is_not_evidence(asked, verdict, values):
    run, sent, case = asked
    with refused("evidence_required"):
        settle(case, verdict, notes="I am sure", **values)
    assert again(sent).state == "ambiguous"


@pytest.mark.parametrize(
    ("verdict", "values"), [("happened", {"seen_where": "dream"}), ("happened_differently", {"amount": -1}), ("leave", {})]
)
def test_what_makes_no_sense_is_refused(asked, verdict, values):
    with refused("invalid"):
        settle(asked[2], verdict, **values)


def test_it_takes_the_right_to_settle(asked):
    with pytest.raises(NotAllowed):
        settle(asked[2], "happened", actor=replace(SUPPORT, scopes=frozenset({"case:read"})))
    with pytest.raises(NotAllowed):
        settle(asked[2], "happened", actor=WORKER)


def test_only_whoever_claimed_it_settles_it(asked):
    run, sent, case = asked
    cases.claim(SUPPORT, case.pk)
    with refused("claimed_by_other"):
        settle(case, "happened", actor=OTHER)
    assert settle(case, "happened").outcome == "settled"
    with refused("already_decided"):
        settle(case, "happened", actor=OTHER)


def test_cannot_tell_passes_it_on(asked):
    run, sent, case = asked
    cases.claim(SUPPORT, case.pk)
    with refused("claimed_by_other"):
        findings.pass_on(OTHER, case.pk, "")
    passed = findings.pass_on(SUPPORT, case.pk, "Their portal is down until Monday.")
    assert (passed.state, passed.claimed_by) == ("open", "")
    assert CaseEvent.objects.filter(case=case, kind="passed_on").get().data["notes"].startswith("Their portal")
    assert fresh(run).needs_person == 1


def test_cannot_be_known_takes_two_people(asked):
    run, sent, case = asked
    assert settle(case, "cannot_be_known").outcome == "awaiting_second"
    with refused("already_decided"):
        settle(case, "happened", actor=OTHER)
    with refused("already_decided"):
        cases.claim(OTHER, case.pk)
    with refused("same_person"):
        findings.confirm(SUPPORT, case.pk, True)
    findings.confirm(OTHER, case.pk, True)
    effect, run = again(sent), fresh(run)
    assert (effect.state, effect.unknowable, effect.holds_action) == ("ambiguous", True, True)
    assert (run.state, run.unknowable, run.in_doubt, run.needs_person, run.settlement) == ("scheduled", 1, 0, 0, "unresolved")
    run, token = claim("w-2")
    known = send(run, token, provider="fake")
    assert (known.kind, known.effect.unknowable) == ("known", True)
    other, other_token = new_run("w-3")
    with refused("in_doubt"):
        send(other, other_token, provider="fake")
    sweep()
    assert not open_cases()


def test_the_second_person_disagrees(asked):
    run, sent, case = asked
    settle(case, "cannot_be_known")
    assert findings.confirm(OTHER, case.pk, False).state == "open"
    assert settle(case, "happened", actor=OTHER).outcome == "settled"
    assert list(CaseEvent.objects.filter(case=case).order_by("at").values_list("kind", flat=True)) == [
        "opened",
        "second_asked",
        "second_disagreed",
        "settled",
    ]


def test_what_could_not_be_known_is_known_after_all(asked):
    run, sent, case = asked
    settle(case, "cannot_be_known")
    findings.confirm(OTHER, case.pk, True)
    assert tell(sent, "landed") == "applied"
    assert (again(sent).state, again(sent).unknowable) == ("landed", False)
    assert (fresh(run).unknowable, fresh(run).settlement) == (0, "reconciled")


def test_a_late_answer_between_the_two_people(asked):
    """The first said that it cannot be known; before the second speaks the sender has reported after all."""
    run, sent, case = asked
    settle(case, "cannot_be_known")
    tell(sent, "landed")
    findings.confirm(OTHER, case.pk, True)
    assert (again(sent).state, again(sent).unknowable) == ("landed", False)
    assert (fresh(run).unknowable, fresh(run).in_doubt, fresh(run).needs_person) == (0, 0, 0)


@pytest.mark.parametrize("verdict", ["happened_differently", "did_not_happen"])
def test_a_late_answer_before_a_person_speaks(asked, verdict):
    """What the person meant to settle has settled itself: they are told, and their form overturns nothing."""
    run, sent, case = asked
    tell(sent, "landed")
    with refused("already_decided"):
        settle(case, verdict, amount=1, sender_gone="x")
    assert (again(sent).state, again(sent).landed_amount) == ("landed", 12500)
    sweep()
    assert not open_cases()


def test_a_contradiction_reopens_the_case_and_the_earlier_finding_stays(asked):
    run, sent, case = asked
    settle(case, "did_not_happen", sender_gone="Switched off.")
    sweep()
    assert tell(sent, "landed") == "conflicts"
    sweep()
    (again_case,) = open_cases()
    assert again_case.kind == "conflicting"
    settle(again_case, "happened")
    assert tell(sent, "refused") == "conflicts"
    sweep()
    (reopened,) = open_cases()
    assert (reopened.pk, reopened.reopened) == (again_case.pk, 1)
    assert CaseEvent.objects.filter(case=reopened, kind="settled").get().data["verdict"] == "happened"
    settle(reopened, "happened")
    assert again(sent).state == "landed"


def test_a_wake_up_is_not_lost_when_a_person_settles_while_the_run_suspends(asked, fake):
    run, sent, case = asked
    settle(case, "happened")
    run, token = claim("w-2")
    assert waiting.suspend(WORKER, run.pk, token, "evidence").state == "scheduled"


def test_settling_in_a_cancelled_run_reissues_its_account(asked):
    run, sent, case = asked
    leases.gone(WORKER, "w-1", "killed")
    cancel(run)
    assert fresh(run).status == "cancelled_unresolved"
    settle(case, "happened")
    assert fresh(run).status == "cancelled_reconciled"
    versions = list(Account.objects.filter(run=run).order_by("version"))
    assert [account.version for account in versions] == list(range(1, len(versions) + 1))
    assert (versions[0].unknown, versions[0].final, versions[-1].landed, versions[-1].final) == (1, False, 1, True)


def test_an_absence_by_look_while_a_person_has_claimed_it(fake):
    fake.answer = found
    run, token = new_run()
    sent = send(run, token, provider="fake")
    let_time_pass(3700)
    leases.expire_due()
    let_time_pass(3700)
    ceilings.pass_ceilings()
    (case,) = open_cases()
    cases.claim(SUPPORT, case.pk)
    assert look() == ["landed"]
    sweep()
    assert not open_cases()
    assert again(sent).state == "landed"
