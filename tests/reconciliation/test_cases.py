"""Cases: one for each question, claimed by one person at a time, counted on the run to the last one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reconciliation import cases
from reconciliation.models import Case, CaseEvent
from runs.errors import NotAllowed
from tests.makers import (
    OTHER,
    SUPPORT,
    WORKER,
    fresh,
    let_time_pass,
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
def case(fake):
    fake.promise(lookup="none")
    run, token = new_run()
    tell(send(run, token, provider="fake"), "unknown")
    sweep()
    return open_cases()[0]


def acts(case):
    return list(CaseEvent.objects.filter(case=case).order_by("at").values_list("kind", flat=True))


def test_one_question_is_one_case(case):
    for _ in range(3):
        sweep()
    assert Case.objects.count() == 1
    assert fresh(case.run).needs_person == 1
    assert (case.business_ref, case.amount, case.currency, case.provider) == ("PO-1042", 12500, "EUR", "fake")


def test_claimed_by_one_and_taken_over_only_on_purpose(case):
    claimed = cases.claim(SUPPORT, case.pk)
    assert (claimed.state, claimed.claimed_by) == ("claimed", SUPPORT.id)
    assert cases.claim(SUPPORT, case.pk).claimed_by == SUPPORT.id
    with refused("claimed_by_other") as told:
        cases.claim(OTHER, case.pk)
    assert told.value.facts["by"] == SUPPORT.name
    assert cases.claim(OTHER, case.pk, take_over=True).claimed_by == OTHER.id
    assert acts(case) == ["opened", "claimed", "taken_over"]


def test_a_claim_ends_after_thirty_idle_minutes(case):
    cases.claim(SUPPORT, case.pk)
    let_time_pass(31 * 60)
    assert cases.claim(OTHER, case.pk).claimed_by == OTHER.id
    let_time_pass(31 * 60)
    assert cases.release_lapsed() == 1
    case.refresh_from_db()
    assert (case.state, case.claimed_by) == ("open", "")


def test_a_settled_case_is_not_claimed(case):
    settle(case, "happened")
    with refused("already_decided"):
        cases.claim(SUPPORT, case.pk)
    with refused("already_decided"):
        cases.claim(SUPPORT, case.pk, take_over=True)


def test_machines_and_readers_do_not_claim(case):
    for actor in (WORKER, replace(SUPPORT, scopes=frozenset({"case:read"}))):
        with pytest.raises(NotAllowed):
            cases.claim(actor, case.pk)


def test_it_settles_itself_when_the_answer_comes(case):
    tell(case.effect, "landed")
    assert fresh(case.run).needs_person == 1
    assert cases.settle_moot() == 1
    case.refresh_from_db()
    assert (case.state, case.finding["verdict"], case.settled_by) == ("settled", "settled_itself", "reconciler")
    assert fresh(case.run).needs_person == 0
    assert cases.settle_moot() == 0


def test_a_case_history_is_never_rewritten(case):
    event = CaseEvent.objects.filter(case=case).first()
    with pytest.raises(TypeError):
        event.save()
    with pytest.raises(TypeError):
        event.delete()
