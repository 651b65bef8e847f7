"""Reports and observations: always kept, always answered, and one change of state, counters and event each."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest

from ledger import outcomes
from ledger.models import Evidence
from reconciliation import webhooks
from runs import leases, preview
from runs.errors import NotAllowed
from tests.fakes import found, webhook
from tests.makers import (
    ADMIN,
    WORKER,
    again,
    cancel,
    fresh,
    kinds,
    let_time_pass,
    look,
    new_run,
    open_cases,
    refused,
    send,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")


@pytest.fixture
def sent():
    return send(*new_run())


@pytest.mark.parametrize("verdict", ["landed", "refused", "pending", "unknown", "not_sent"])
def test_each_verdict_once_and_again(sent, verdict):
    assert tell(sent, verdict) == "applied"
    version = fresh(sent.effect.run).version
    for _ in range(3):
        assert tell(sent, verdict) == "agrees"
    assert fresh(sent.effect.run).version == version
    assert Evidence.objects.filter(effect=sent.effect).count() == 1
    attempt = again(sent).attempts.get()
    assert (attempt.state, attempt.stopped_how) == (verdict, "outcome")


def test_the_outcome_and_how_we_know_it(sent):
    outcomes.report(WORKER, sent.effect.pk, 1, "landed", "S-1", 12500, "EUR", response={"id": "S-1", "password": "hunter2"})
    effect = again(sent)
    assert (effect.external_id, effect.landed_amount, effect.landed_currency, effect.how_we_know) == ("S-1", 12500, "EUR", "sender")
    kept = Evidence.objects.get(effect=effect)
    assert len(kept.body_sha256) == 64
    assert "hunter2" not in kept.body
    assert kinds(sent.effect.run)[-1] == "effect.landed"


@pytest.mark.parametrize("told", [{"amount": 1, "currency": "EUR"}, {"amount": 12500, "currency": "JPY"}])
def test_a_confirmation_of_something_else_is_a_contradiction(sent, told):
    assert tell(sent, "landed", external_id="S-1", **told) == "conflicts"
    effect = again(sent)
    assert (effect.state, effect.external_id, effect.landed_amount) == ("conflicted", "S-1", told["amount"])
    assert effect.attempts.get().state == "landed"
    sweep()
    assert [case.kind for case in open_cases()] == ["conflicting"]


def test_no_such_attempt_effect_or_verdict(sent):
    for number in (0, 2):
        with refused("not_found"):
            outcomes.report(WORKER, sent.effect.pk, number, "landed", "S-1")
    with refused("not_found") as told:
        outcomes.report(WORKER, uuid.uuid4(), 1, "landed")
    assert "operation id" in told.value.detail
    with refused("invalid"):
        tell(sent, "absent")
    with pytest.raises(NotAllowed):
        outcomes.report(replace(WORKER, agents=frozenset({"x"})), sent.effect.pk, 1, "landed")
    assert again(sent).state == "sending"


@pytest.mark.parametrize("when", ["running", "lease_lost", "cancelling", "cancelled", "terminated"])
@pytest.mark.parametrize("verdict", ["landed", "refused", "pending", "unknown", "not_sent"])
def test_a_late_report_is_always_answered_and_kept(when, verdict, fake):
    run, token = new_run()
    sent = send(run, token, provider="fake")
    if when == "lease_lost":
        let_time_pass(31)
        leases.expire_due()
    if when in ("cancelling", "cancelled"):
        cancel(run)
    if when == "cancelled":
        let_time_pass(100)
        sweep()
        assert fresh(run).is_closed
    if when == "terminated":
        cancel(run, actor=ADMIN, mode="terminate", reason="x", plan_digest=preview.preview(fresh(run))["plan_digest"])
    before = fresh(run).state
    assert tell(sent, verdict) in ("applied", "agrees", "late_evidence")
    assert Evidence.objects.filter(effect=sent.effect, source="sender", verdict=verdict).count() == 1
    if when in ("cancelled", "terminated"):
        assert fresh(run).state == before
    expected = {
        "not_sent": {"running": "declared", "lease_lost": "absent"}.get(when, "withheld"),
    }.get(verdict, verdict)
    assert again(sent).state == expected


def test_doubt_is_remembered_and_pending_is_none(sent):
    tell(sent, "pending")
    assert fresh(sent.effect.run).doubted == 0
    tell(sent, "landed")
    assert fresh(sent.effect.run).doubted == 0


def test_the_checks_of_a_doubt_are_counted_from_its_beginning(fake):
    run, token = new_run()
    sent = send(run, token, provider="fake")
    tell(sent, "unknown")
    assert again(sent).looks == 0
    assert look(6) == ["empty"]
    assert again(sent).looks == 1
    tell(sent, "pending")
    assert (again(sent).state, again(sent).looks) == ("pending", 0)


def test_a_repetition_after_another_outcome_is_no_news(sent, fake):
    """The spool delivers an old *unknown* after a look has found it."""
    assert tell(sent, "unknown") == "applied"
    assert tell(sent, "landed") == "applied"
    assert tell(sent, "unknown") == "agrees"
    assert again(sent).state == "landed"


def test_sender_look_and_webhook_agree(fake):
    run, token = new_run()
    sent = send(run, token, provider="fake")
    tell(sent, "unknown")
    fake.answer = found
    look(6)
    webhooks.receive("fake", {"signature": "good"}, webhook("landed", sent.effect.pk))
    webhooks.process_due()
    assert tell(sent, "landed") == "agrees"
    assert sorted(Evidence.objects.filter(effect=sent.effect).values_list("source", "used_as")) == [
        ("look", "applied"),
        ("sender", "agrees"),
        ("sender", "applied"),
        ("webhook", "agrees"),
    ]
    assert again(sent).how_we_know == "look"


def test_what_agrees_and_knows_more_tells_what_the_provider_calls_it(fake):
    """The sender saw no number in the answer; a webhook that agrees brings it, and one that is late changes nothing."""
    run, token = new_run()
    sent = send(run, token, provider="fake")
    outcomes.report(WORKER, sent.effect.pk, 1, "landed", "", 12500, "EUR")
    assert again(sent).external_id == ""
    webhooks.receive("fake", {"signature": "good"}, webhook("pending", sent.effect.pk, external_id="S-0"))
    webhooks.process_due()
    assert (again(sent).state, again(sent).external_id) == ("landed", "")
    webhooks.receive("fake", {"signature": "good"}, webhook("landed", sent.effect.pk, external_id="S-9"))
    webhooks.process_due()
    assert (again(sent).state, again(sent).external_id) == ("landed", "S-9")


def test_evidence_of_what_disagrees_is_all_kept(sent):
    tell(sent, "refused", response={"code": 1})
    assert tell(sent, "landed", response={"id": "S-1"}) == "conflicts"
    assert tell(sent, "refused", response={"code": 2}) in ("agrees", "late_evidence", "conflicts")
    assert again(sent).state == "conflicted"
    assert Evidence.objects.filter(effect=sent.effect).count() == 3


@pytest.mark.parametrize(
    "response", [{"detail": "We no longer make these."}, {"error": {"message": "We no longer make these.", "code": 7}}]
)
def test_why_a_provider_refused_is_said_in_its_own_words(sent, response):
    tell(sent, "refused", response=response)
    assert again(sent).provider_message == "We no longer make these."


@pytest.mark.parametrize("response", [None, "no", {"detail": 4}, {"error": {"message": ["a"]}}, {"message": "   "}])
def test_a_refusal_without_words_says_nothing_of_its_own(sent, response):
    tell(sent, "refused", response=response)
    assert (again(sent).state, again(sent).provider_message) == ("refused", "")
