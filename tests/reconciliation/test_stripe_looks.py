"""Looks at Stripe's emulator, from the question to what becomes of the effect. It refuses neither a second payment nor a third."""

from __future__ import annotations

import pytest
from django.conf import settings

from ledger import catalogue
from ledger.models import Effect, Evidence
from ledger.operations import Permission
from tests.localstripe import Localstripe, localstripe, localstripe_process
from tests.makers import again, look, new_run, open_cases, send, sweep, tell

__all__ = ["localstripe", "localstripe_process"]
pytestmark = pytest.mark.usefixtures("counters")
RECORD = catalogue.capability("stripe")


@pytest.fixture
def unknown(localstripe: Localstripe) -> Permission:
    """A payment whose sender got no answer, and said so."""
    run, token = new_run()
    sent = send(run, token, provider="stripe", action="create_payment", ref="INV-1", request={"payment_method": "pm_card_visa"})
    tell(sent, "unknown")
    return sent


def arrive(localstripe: Localstripe, effect: Effect, **values: int) -> str:
    """The payment arrives after all. Returns Stripe's id of it."""
    answer = localstripe.pay(effect.provider_reference, str(effect.pk), **values)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"])


def test_a_payment_that_arrived_is_found_by_its_reference(localstripe: Localstripe, unknown: Permission) -> None:
    localstripe.pay("INV-10", "")
    payment = arrive(localstripe, unknown.effect)
    assert look(40) == ["landed"]
    effect = again(unknown)
    assert (effect.state, effect.how_we_know, effect.external_id, effect.landed_amount) == ("landed", "look", payment, 12500)
    (kept,) = Evidence.objects.filter(effect=effect, source="look")
    assert kept.http_status == 200 and payment in kept.body and "INV-10" not in kept.body


def test_two_payments_under_one_reference_happened_more_than_once(localstripe: Localstripe, unknown: Permission) -> None:
    ids = {arrive(localstripe, unknown.effect) for _ in range(2)}
    assert look(40) == ["duplicated"]
    assert again(unknown).state == "duplicated"
    kept = Evidence.objects.get(effect=unknown.effect, source="look")
    assert set(kept.detail["external_ids"]) == ids
    sweep()
    assert [case.kind for case in open_cases()] == ["duplicated"]


def test_a_payment_of_another_amount_conflicts(localstripe: Localstripe, unknown: Permission) -> None:
    payment = arrive(localstripe, unknown.effect, amount=12501)
    look(40)
    assert (again(unknown).state, again(unknown).external_id) == ("conflicted", payment)


def test_a_payment_that_was_refunded_meanwhile_reads_reversed(localstripe: Localstripe, unknown: Permission) -> None:
    localstripe.refund_by_hand(arrive(localstripe, unknown.effect))
    assert look(40) == ["reversed"]
    assert (again(unknown).state, again(unknown).holds_action) == ("reversed", True)


def test_an_empty_listing_proves_nothing_until_all_that_was_under_way_has_arrived(localstripe: Localstripe, unknown: Permission) -> None:
    assert look(40) == ["empty"] and again(unknown).state == "unknown"
    assert look(RECORD.max_in_flight_s) == ["empty"] and again(unknown).state == "unknown", "the listing may still be behind"
    assert look(RECORD.lookup_lag_s) == ["empty"] and again(unknown).state == "unknown", "one look is not enough"
    assert look(RECORD.look_spacing_s + 1) == ["empty"] and again(unknown).state == "absent"
    sweep()
    assert [case.kind for case in open_cases()] == ["absent_ask"], "money is not sent again by a policy"
    assert localstripe.payments() == []


def test_a_key_that_is_not_accepted_says_nothing(localstripe: Localstripe, unknown: Permission, monkeypatch: pytest.MonkeyPatch) -> None:
    arrive(localstripe, unknown.effect)
    monkeypatch.setitem(settings.PROVIDERS, "stripe", {**settings.PROVIDERS["stripe"], "api_key": "rk_test_not_accepted"})
    catalogue.forget()
    try:
        assert look(40) == ["unreachable"]
        assert Evidence.objects.get(effect=unknown.effect, source="look").http_status == 401
        assert again(unknown).state == "unknown"
    finally:
        monkeypatch.undo()
        catalogue.forget()
    assert look(600) == ["landed"]
