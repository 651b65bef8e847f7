"""The inbox: believed, stored, answered, processed once, in whatever order."""

from __future__ import annotations

from itertools import permutations

import pytest

from ledger.models import Evidence
from reconciliation import standing, webhooks
from reconciliation.models import WebhookEvent, WebhookRefusal
from runs import leases
from runs.errors import Invalid, ProviderUnknown
from tests.fakes import webhook
from tests.makers import (
    WORKER,
    again,
    cancel,
    fresh,
    new_run,
    open_cases,
    refused,
    send,
    settle,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")
GOOD = {"signature": "good"}


@pytest.fixture
def sent(fake):
    run, token = new_run()
    return send(run, token, provider="fake")


def receive(*bodies):
    for body in bodies:
        webhooks.receive("fake", GOOD, body)
    return webhooks.process_due()


def test_it_settles_the_effect(sent):
    assert receive(webhook("landed", sent.effect.pk, external_id="S-3", amount=12500, currency="EUR")) == 1
    effect = again(sent)
    assert (effect.state, effect.how_we_know, effect.external_id) == ("landed", "webhook", "S-3")
    kept = Evidence.objects.get(effect=effect)
    assert (kept.source, kept.signature) == ("webhook", "verified")
    assert WebhookEvent.objects.get().used_as == "applied"


def test_what_is_not_believed_is_not_stored(sent):
    with pytest.raises(Invalid):
        webhooks.receive("fake", {"signature": "bad"}, webhook("landed", sent.effect.pk))
    with pytest.raises(Invalid):
        webhooks.receive("fake", GOOD, b"x" * (256 * 1024 + 1))
    with pytest.raises(ProviderUnknown):
        webhooks.receive("nobody", GOOD, b"{}")
    assert not WebhookEvent.objects.exists()


def test_what_is_not_believed_is_counted_and_fills_nothing(sent):
    """However often it comes: one row for each provider, reason and day, and it says what happened last."""
    for _ in range(3):
        with pytest.raises(Invalid):
            webhooks.receive("fake", {"signature": "bad"}, webhook("landed", sent.effect.pk))
    with pytest.raises(Invalid):
        webhooks.receive("fake", GOOD, b"x" * (256 * 1024 + 1))
    with pytest.raises(ProviderUnknown):
        webhooks.receive("nobody", GOOD, b"{}")
    counted = WebhookRefusal.objects.order_by("reason").values_list("provider", "reason", "count")
    assert list(counted) == [("fake", "signature", 3), ("fake", "size", 1)]
    assert WebhookRefusal.objects.get(reason="signature").last_detail == "wrong signature"
    (stands,) = [one for one in standing.providers() if one["key"] == "fake"]
    assert [(one["reason"], one["count"]) for one in stands["refused"]] == [("signature", 3), ("size", 1)]


def test_seen_twice_processed_once(sent):
    body = webhook("landed", sent.effect.pk, "evt-1")
    webhooks.receive("fake", GOOD, body)
    webhooks.receive("fake", GOOD, body)
    assert webhooks.process_due() == 1
    webhooks.receive("fake", GOOD, body)
    assert webhooks.process_due() == 0
    assert WebhookEvent.objects.get().received == 3
    assert Evidence.objects.count() == 1


@pytest.mark.parametrize("order", list(permutations(["pending", "landed", "reversed"])))
@pytest.mark.parametrize("start", ["sending", "unknown"])
def test_any_order_ends_in_the_same_place(sent, start, order):
    if start == "unknown":
        tell(sent, "unknown")
    for state in (*order, *order):
        receive(webhook(state, sent.effect.pk, amount=12500, currency="EUR"))
    assert again(sent).state == "reversed"
    assert not open_cases()
    assert again(sent).holds_action, "what was undone keeps holding its action"


@pytest.mark.parametrize("told", [{"amount": 1, "currency": "EUR"}, {"amount": 12500, "currency": "USD"}])
def test_what_does_not_match_conflicts(sent, told):
    receive(webhook("landed", sent.effect.pk, external_id="S-9", **told))
    assert (again(sent).state, again(sent).external_id) == ("conflicted", "S-9")
    sweep()
    assert [case.kind for case in open_cases()] == ["conflicting"]


def test_for_a_declared_effect_it_conflicts_and_nothing_can_be_sent(fake):
    run, token = new_run()
    declared = send(run, token, provider="fake", begin=False)
    receive(webhook("landed", declared.effect.pk))
    assert again(declared).state == "conflicted"
    with refused("in_doubt"):
        send(run, token, provider="fake")


def test_for_a_withheld_effect_it_conflicts(fake):
    run, token = new_run()
    declared = send(run, token, provider="fake", begin=False)
    cancel(run)
    receive(webhook("landed", declared.effect.pk))
    assert (again(declared).state, again(declared).holds_action) == ("conflicted", False)
    sweep()
    assert fresh(run).needs_person == 1
    settle(open_cases()[0], "happened")
    assert again(declared).state == "landed"


def test_it_is_found_by_reference_too(sent):
    receive(webhook("landed", reference="PO-1042"))
    assert again(sent).state == "landed"


def test_of_nothing_we_know_it_is_an_orphan(sent):
    receive(webhook("landed", reference="PO-FOREIGN", external_id="S-77"))
    (case,) = open_cases()
    assert (case.kind, case.run, case.facts["external_id"], case.business_ref) == ("orphan", None, "S-77", "PO-FOREIGN")
    assert WebhookEvent.objects.get().used_as == "orphan"
    sweep()
    assert len(open_cases()) == 1
    assert settle(case, "not_ours").outcome == "settled"


def orphan(**values):
    receive(webhook("landed", reference="FOREIGN-9", external_id="S-77", **values))
    (case,) = open_cases(kind="orphan")
    return case


def test_an_orphan_that_belongs_to_us_is_evidence_of_that_effect(sent):
    """The provider used a reference of its own: a person knows whose it is, and the news counts as if it had come for it."""
    case = orphan(amount=12500, currency="EUR")
    done = settle(case, "belongs_to", belongs_to=sent.effect.ref.lower())
    effect = again(sent)
    assert (done.outcome, effect.state, effect.external_id, effect.how_we_know) == ("settled", "landed", "S-77", "webhook")
    kept = Evidence.objects.get(effect=effect)
    assert (kept.signature, kept.used_as) == ("verified", "applied")
    assert (kept.detail["reference"], kept.detail["assigned_by"]) == ("FOREIGN-9", "Sam Support")
    assert WebhookEvent.objects.get().used_as == "applied"
    assert not open_cases()


def test_an_orphan_that_does_not_match_what_we_asked_for_conflicts(sent):
    settle(orphan(amount=1, currency="EUR"), "belongs_to", belongs_to=str(sent.effect.pk))
    sweep()
    assert again(sent).state == "conflicted"
    assert [case.kind for case in open_cases()] == ["conflicting"]


@pytest.mark.parametrize(("given", "code"), [("", "invalid"), ("E-0000000000", "invalid"), ("nonsense", "invalid")])
def test_an_orphan_belongs_to_something_that_is_there(sent, given, code):
    case = orphan()
    with refused(code) as told:
        settle(case, "belongs_to", belongs_to=given)
    assert told.value.facts["field"] == "belongs_to"
    assert again(sent).state == "sending"


def test_an_orphan_of_another_provider_is_refused(sent):
    run, token = new_run("w-9")
    other = send(run, token, provider="supplier", ref="PO-2")
    with refused("invalid"):
        settle(orphan(), "belongs_to", belongs_to=other.effect.ref)
    assert again(other).state == "sending"


def test_more_news_of_the_same_stranger_join_its_case_and_all_of_them_count(sent):
    case = orphan(amount=12500, currency="EUR")
    receive(webhook("reversed", reference="FOREIGN-9", external_id="S-77", amount=12500, currency="EUR"))
    assert len(open_cases(kind="orphan")) == 1
    settle(case, "belongs_to", belongs_to=sent.effect.ref)
    assert again(sent).state == "reversed"
    assert Evidence.objects.filter(effect=sent.effect, source="webhook").count() == 2


def test_news_that_say_nothing_open_nothing(sent):
    receive(webhook(None, sent.effect.pk))
    assert WebhookEvent.objects.get().used_as == "nothing_in_it"
    assert again(sent).state == "sending"


def test_one_that_cannot_be_used_does_not_block_the_others(sent, monkeypatch, caplog):
    tell_ = webhooks.outcomes.tell

    def broken(held, fact, actor):
        if fact.external_id == "BAD":
            raise RuntimeError("a bug of ours")
        return tell_(held, fact, actor)

    monkeypatch.setattr(webhooks.outcomes, "tell", broken)
    webhooks.receive("fake", GOOD, webhook("landed", sent.effect.pk, external_id="BAD"))
    webhooks.receive("fake", GOOD, webhook("landed", sent.effect.pk, external_id="S-1"))
    webhooks.process_due()
    assert again(sent).external_id == "S-1"
    assert WebhookEvent.objects.filter(processed_at=None).count() == 1, "and it is tried again"
    assert "a bug of ours" in caplog.text
    caplog.clear()


def test_a_duplicate_in_a_closed_run_is_counted_and_accounted(fake):
    run, token = new_run()
    sent = send(run, token, provider="fake")
    cancel(run)
    tell(sent, "landed", amount=12500, currency="EUR")
    leases.stopped(WORKER, run.pk, token)
    receive(webhook("refused", sent.effect.pk))
    assert again(sent).state == "conflicted"
    assert fresh(run).status == "cancelled_pending"
    sweep()
    assert fresh(run).status == "cancelled_unresolved"
