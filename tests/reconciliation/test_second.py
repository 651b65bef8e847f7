"""Two people over an amount, in each currency's own units; and one of them is never enough."""

from __future__ import annotations

import pytest
from django.core.exceptions import ImproperlyConfigured

from ledger.facts import effect_facts
from ledger.models import Evidence
from ledger.sentences import sentence
from reconciliation import findings, second
from runs import leases, transition
from runs.wording import plain
from tests.makers import (
    OTHER,
    SUPPORT,
    again,
    assert_counters,
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

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(autouse=True)
def counters(settings):
    settings.SECOND_PERSON_OVER = {"EUR": "125.00", "JPY": "5800", "*": "100"}
    yield
    assert_counters()


def doubtful(fake, amount=12501, currency="EUR"):
    fake.promise(lookup="none")
    run, token = new_run()
    sent = send(run, token, provider="fake", amount=amount, currency=currency)
    tell(sent, "unknown")
    sweep()
    return run, sent, open_cases()[0]


@pytest.mark.parametrize(
    ("amount", "currency", "outcome"),
    [
        (12500, "EUR", "settled"),
        (12501, "EUR", "awaiting_second"),
        (5800, "JPY", "settled"),
        (5801, "JPY", "awaiting_second"),
        (100000, "KWD", "settled"),
        (100001, "KWD", "awaiting_second"),
    ],
)
def test_the_limit_counts_in_the_currencys_own_units(fake, amount, currency, outcome):
    run, sent, case = doubtful(fake, amount, currency)
    assert settle(case, "happened").outcome == outcome


def test_the_second_person_makes_it_true_and_both_are_named(fake):
    run, sent, case = doubtful(fake)
    asked = settle(case, "happened", external_id="S-9")
    assert asked.why == "Over €125.00 EUR a second person must confirm it."
    assert (again(sent).state, fresh(run).needs_person) == ("ambiguous", 1)
    with refused("same_person"):
        findings.confirm(SUPPORT, case.pk, True)
    assert findings.confirm(OTHER, case.pk, True).state == "settled"
    effect = again(sent)
    assert (effect.state, effect.external_id, effect.known_by) == ("landed", "S-9", "Sam Support")
    kept = Evidence.objects.get(effect=effect, source="person")
    assert (kept.actor_id, kept.detail["confirmed_by_id"]) == (SUPPORT.id, OTHER.id)
    assert "confirmed by Olga Other" in plain(sentence(effect_facts(effect, transition.clock())))
    assert fresh(run).needs_person == 0


def test_a_smaller_amount_found_does_not_get_round_it(fake):
    run, sent, case = doubtful(fake)
    assert settle(case, "happened_differently", amount=1).outcome == "awaiting_second"


def test_a_larger_amount_found_needs_it_too(fake):
    run, sent, case = doubtful(fake, 100)
    assert settle(case, "happened_differently", amount=12501).outcome == "awaiting_second"


def test_that_it_did_not_happen_is_confirmed_with_the_statement_about_its_sender(fake):
    run, sent, case = doubtful(fake)
    leases.expire_due()
    settle(case, "did_not_happen", sender_gone="Host is off.")
    findings.confirm(OTHER, case.pk, True)
    assert again(sent).state == "absent"


def test_a_finding_that_is_only_kept_asks_nobody(fake):
    """Its sender may be alive: it is evidence, and the case stays open for everybody."""
    fake.promise(lookup="none")
    run, token = new_run()
    sent = send(run, token, provider="fake", amount=12501)
    let_time_pass(31)
    leases.expire_due()
    sweep()
    (case,) = open_cases()
    assert settle(case, "did_not_happen").outcome == "kept"
    assert open_cases()[0].state == "open" and again(sent).state == "ambiguous"


def test_the_second_person_disagrees(fake):
    run, sent, case = doubtful(fake)
    settle(case, "happened")
    assert findings.confirm(OTHER, case.pk, False).state == "open"
    assert again(sent).state == "ambiguous"


def test_an_answer_before_the_second_word_settles_it(fake):
    run, sent, case = doubtful(fake)
    settle(case, "did_not_happen", sender_gone="x")
    tell(sent, "landed")
    findings.confirm(OTHER, case.pk, True)
    assert (again(sent).state, again(sent).how_we_know) == ("landed", "sender")
    assert not open_cases()


def test_without_a_limit_one_is_enough(fake, settings):
    settings.SECOND_PERSON_OVER = {}
    run, sent, case = doubtful(fake, 10**12)
    assert settle(case, "happened").outcome == "settled"


@pytest.mark.parametrize("limit", ["much", "-1", "NaN", None])
def test_a_limit_that_is_no_amount_is_said_by_name(settings, limit):
    settings.SECOND_PERSON_OVER = {"EUR": limit}
    if limit is None:
        assert second.limit_of("EUR") is None
    else:
        with pytest.raises(ImproperlyConfigured, match="COUNTERMAND_SECOND_PERSON_OVER: EUR"):
            second.limit_of("EUR")
