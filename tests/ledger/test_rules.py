"""Whether an undo is owed: the pure verdict, and the versions in which its rules are kept."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from ledger import rulebook, rules
from ledger.models import CompensationRule
from ledger.rulebook import NewTerms
from ledger.rules import Asked, Terms
from runs.models import Event
from tests.fakes import FAKE
from tests.makers import ADMIN, SUPPORT, WORKER, refused
from tests.undo import TERMS

LANDED_AT = datetime(2026, 3, 2, 14, 0, tzinfo=UTC)
RULE = Terms(3, max_amount=500000, days_after_landing=30, approvals=1, second_from=100000)
CHARGE = Asked(
    state="landed",
    what="charge",
    provider_name="Stripe",
    undo_action="refund",
    target="CH-1",
    amount=6000,
    currency="GBP",
    landed=10000,
    landed_currency="GBP",
    landed_at=LANDED_AT,
    now=LANDED_AT + timedelta(days=2),
    partly=True,
)


def verdict(terms: Terms | None = RULE, **changes):
    return rules.judge(terms, replace(CHARGE, **changes))


def test_what_is_owed_says_every_reason():
    told = verdict()
    assert told.eligible and told.rule_version == 3 and told.approvals == 1
    assert [one.says for one in told.reasons] == [
        "This charge has landed and is in effect.",
        "Stripe can undo it.",
        "Rule version 3 is about this charge in GBP.",
        "Of £100.00 GBP that landed, £100.00 GBP can still be given back.",
        "The rule allows up to £5,000.00 GBP at a time.",
        "The rule allows it for 30 days after it landed.",
        "One other person must approve it.",
    ]


@pytest.mark.parametrize(
    "changes, code, says",
    [
        ({"state": "unknown"}, "not_eligible", "Only what has landed can be undone, and this charge is unknown."),
        ({"state": "conflicted"}, "not_eligible", "Only what has landed can be undone, and this charge is conflicted."),
        ({"state": "reversed"}, "not_eligible", "Only what has landed can be undone, and this charge is reversed."),
        ({"state": "duplicated"}, "not_eligible", "nobody has named yet which ones are too many"),
        ({"state": "duplicated", "surplus": frozenset({"CH-2"})}, "not_eligible", "CH-1 is not one of those"),
        ({"undo_action": ""}, "not_eligible", "Stripe has no way to undo this charge that we may use."),
        ({"undo_action": "", "why_never": "A sent mail cannot be recalled"}, "not_eligible", "A sent mail cannot be recalled."),
        ({"target": ""}, "not_eligible", "own reference of it is not on record"),
        ({"currency": "EUR"}, "not_eligible", "It landed in GBP, so what is given back is an amount in GBP."),
        ({"amount": None, "currency": ""}, "not_eligible", "It landed in GBP"),
        ({"amount": 0}, "not_eligible", "must be more than nothing"),
        ({"amount": -1}, "not_eligible", "must be more than nothing"),
        ({"partly": False}, "not_eligible", "Stripe undoes it only whole: £100.00 GBP."),
        ({"committed": 6000}, "exceeds_landed", "£60.00 GBP of it is undone or being undone already: £40.00 GBP can still be given back."),
        ({"amount": 1, "committed": 10000}, "exceeds_landed", "£0.00 GBP can still be given back."),
        ({"amount": 1, "committed": 10500}, "exceeds_landed", "£0.00 GBP can still be given back."),
        ({"amount": 10001}, "exceeds_landed", "It landed for £100.00 GBP: £100.00 GBP can still be given back."),
        ({"amount": 500001, "landed": 600000}, "not_eligible", "The rule allows up to £5,000.00 GBP at a time."),
        ({"now": LANDED_AT + timedelta(days=30, seconds=1)}, "not_eligible", "for 30 days after it landed, which are over."),
    ],
)
def test_what_is_not_owed_says_why(changes, code, says):
    told = verdict(**changes)
    assert not told.eligible
    assert told.refusal.code == code and says in told.refusal.says


@pytest.mark.parametrize("changes", [{"state": "unknown"}, {"undo_action": ""}])
def test_what_makes_every_other_question_meaningless_ends_the_list(changes):
    told = verdict(**changes, amount=20000, committed=6000)
    assert [one.holds for one in told.reasons] in ([False], [True, False])


@pytest.mark.parametrize("terms", [None, replace(RULE, active=False)])
def test_without_a_rule_nothing_is_owed(terms):
    assert "No rule allows this charge at Stripe in GBP to be undone." in verdict(terms).refusal.says


def test_money_in_a_currency_that_nobody_knows_is_told_in_its_smallest_units():
    told = verdict(currency="QQQ", landed_currency="QQQ")
    assert told.eligible and "Of 10000 minor units of QQQ that landed" in told.reasons[3].says


def test_the_last_moment_of_the_window_still_counts():
    assert verdict(now=LANDED_AT + timedelta(days=30)).eligible
    assert verdict(replace(RULE, days_after_landing=None), now=LANDED_AT + timedelta(days=4000)).eligible


@pytest.mark.parametrize("amount, people", [(99999, 1), (100000, 2), (100001, 2)])
def test_from_an_amount_on_a_second_person_must_approve(amount, people):
    told = verdict(amount=amount, landed=500000)
    assert told.eligible and told.approvals == people


def test_a_surplus_object_is_undone_by_its_name():
    assert verdict(state="duplicated", surplus=frozenset({"CH-1"})).eligible


def test_what_moved_no_money_is_undone_as_a_whole_and_once():
    letter = {"amount": None, "currency": "", "landed": None, "landed_currency": ""}
    assert verdict(replace(RULE, max_amount=None), **letter).eligible
    for money in ({"amount": 5, "currency": "GBP"}, {"amount": 5}, {"currency": "GBP"}):
        assert "without an amount" in verdict(**(letter | money)).refusal.says
    assert verdict(**letter, taken=True).refusal.code == "exceeds_landed"


# How rules are kept


def test_a_rule_is_changed_by_writing_its_next_version(refunding):
    rule = rulebook.change(ADMIN, FAKE, "charge", "EUR", NewTerms(max_amount=100), "less for now", seen_version=1)
    assert rule.version == 2 and rulebook.current(FAKE, "charge", "EUR").max_amount == 100
    assert [one.version for one in rulebook.versions(FAKE, "charge", "EUR")] == [2, 1]
    event = Event.objects.filter(kind="undo_rule.changed").latest("id")
    assert (event.run_id, event.actor_name, event.data["reason"]) == (None, "Ada Admin", "less for now")
    assert (event.data["before"]["max_amount"], event.data["after"]["max_amount"]) == (TERMS.max_amount, 100)


@pytest.mark.parametrize("actor", [SUPPORT, WORKER])
def test_only_administrators_change_rules(refunding, actor):
    with refused("not_allowed"):
        rulebook.change(actor, FAKE, "charge", "EUR", NewTerms(), "because")
    assert CompensationRule.objects.count() == 1


def test_a_rule_that_was_changed_meanwhile_is_not_written_over(refunding):
    with refused("stale"):
        rulebook.change(ADMIN, FAKE, "charge", "EUR", NewTerms(), "because", seen_version=0)


@pytest.mark.parametrize(
    "field, values",
    [
        ("action", {"action": "order"}),
        ("currency", {"currency": "EURO"}),
        ("max_amount", {"new": NewTerms(max_amount=0)}),
        ("second_from", {"new": NewTerms(second_from=-5)}),
        ("max_amount", {"currency": "", "new": NewTerms(max_amount=5)}),
        ("days_after_landing", {"new": NewTerms(days_after_landing=-1)}),
        ("approvals", {"new": NewTerms(approvals=0)}),
        ("reason", {"reason": " "}),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused_by_its_field(refunding, field, values):
    given = {"action": "charge", "currency": "EUR", "new": NewTerms(), "reason": "because"} | values
    with refused("invalid") as told:
        rulebook.change(ADMIN, FAKE, given["action"], given["currency"], given["new"], given["reason"])
    assert told.value.facts["field"] == field
