"""Stripe's adapter: what each kind of answer tells us, against localstripe in a process of its own and against a liar."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import stripe

from ledger.providers import load
from ledger.providers.base import BODY_EXCERPT_BYTES, Found, Provider, ProviderConfigError, Send, Sought
from tests import platform
from tests.ledger.providers.liar import JSON, Liar, lying
from tests.localstripe import DECLINED_CARD, GOOD_CARD, Localstripe, localstripe, localstripe_process
from tests.proxy import Proxy

__all__ = ["localstripe", "localstripe_process"]
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SECONDS = int(NOW.timestamp())
CARD = {"payment_method": GOOD_CARD}


def sought(reference: str = "INV-1", operation_id: str = "op-1", action: str = "create_payment", **change: Any) -> Sought:
    asked = Sought(reference, operation_id, None, action, 12500, "EUR", NOW)
    return replace(asked, **change)


def send(reference: str = "INV-1", operation_id: str = "op-1", action: str = "create_payment", **change: Any) -> Send:
    asked = Send(operation_id, reference, action, 12500, "EUR", CARD if action == "create_payment" else {})
    return replace(asked, **change)


def refund(of: str, amount: int = 5000, reference: str = "C-1", **change: Any) -> Send:
    return send(reference, change.pop("operation_id", "op-9"), "refund_payment", external_id=of, amount=amount, **change)


def config(url: str, **change: Any) -> dict[str, Any]:
    return platform.STRIPE | {"api_base": url, "timeout_s": 3} | change


@pytest.fixture
def provider(localstripe: Localstripe) -> Provider:
    return load(config(localstripe.url))


def paid(provider: Provider, reference: str = "INV-1", operation_id: str = "op-1", **change: Any) -> Found:
    answer = provider.perform(send(reference, operation_id, **change))
    assert answer.verdict == "landed" and answer.found, answer
    return answer.found


# Payments -----------------------------------------------------------------------------------------------------------


def test_it_is_a_provider(provider: Provider) -> None:
    assert isinstance(provider, Provider)


def test_a_payment_is_empty_then_found_with_its_keys_and_time(localstripe: Localstripe, provider: Provider) -> None:
    assert provider.look(sought()).outcome == "empty"
    landed = paid(provider)
    look = provider.look(sought())
    assert (look.outcome, look.http_status, len(look.body_sha256), look.objects) == ("found", 200, 64, (landed,))
    assert (landed.state, landed.amount, landed.currency, landed.undone_amount) == ("landed", 12500, "EUR", 0)
    assert (landed.reference, landed.operation_id) == ("INV-1", "op-1")
    (there,) = localstripe.payments()
    assert landed.external_id == there["id"] and landed.at == datetime.fromtimestamp(there["created"], UTC)


def test_every_payment_under_the_reference_is_found_because_the_provider_refuses_none(localstripe: Localstripe, provider: Provider) -> None:
    ids = {paid(provider, "INV-2", "op-2").external_id for _ in range(2)}
    assert len(ids) == 2, "localstripe honours idempotency keys now: this test proves nothing any more"
    paid(provider, "INV-2#2", "op-3")
    localstripe.pay("INV-2", "", 1)
    look = provider.look(sought("INV-2", "op-2"))
    assert len(look.objects) == 3 and ids < {one.external_id for one in look.objects}
    assert {one.operation_id for one in look.objects} == {"op-2", None}
    assert len(provider.look(sought("INV-2#2")).objects) == 1


def test_a_declined_payment_is_refused_and_a_later_try_is_not(localstripe: Localstripe, provider: Provider) -> None:
    declined = provider.perform(send("INV-3", "op-3", request={"payment_method": DECLINED_CARD}))
    assert (declined.verdict, declined.http_status, declined.detail) == ("refused", 402, "card_declined: Your card was declined.")
    assert [one.state for one in provider.look(sought("INV-3", "op-3")).objects] == ["refused"]
    assert provider.look(sought("INV-3", "op-4")).outcome == "empty", "the refusal of an earlier operation is none of this one"
    paid(provider, "INV-3", "op-4")
    assert [one.state for one in provider.look(sought("INV-3", "op-4")).objects] == ["landed"]


def test_it_reads_a_long_listing_to_its_end(localstripe: Localstripe, provider: Provider) -> None:
    began = datetime.now(UTC)
    for number in range(101):
        localstripe.pay(f"INV-{number}", confirm="false")
    assert [found.state for found in provider.look(sought("INV-100", sent_at=began)).objects] == ["pending"]
    assert provider.look(sought("INV-101", sent_at=began)).detail == "0 of 101 objects at /v1/payment_intents are of this reference"


# Amounts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("currency", "minor", "wire"),
    [("JPY", 5800, "5800"), ("EUR", 29, "29"), ("KWD", 1250, "1250"), ("KWD", 12550, "12550"), ("ISK", 500, "50000"),
     ("UGX", 700, "70000"), ("MGA", 50000, "500"), ("EUR", 99999999, "99999999")],
)  # fmt: skip
def test_amounts_come_through_unchanged(localstripe: Localstripe, currency: str, minor: int, wire: str) -> None:
    with Proxy(localstripe.url) as proxy:
        provider = load(config(proxy.url))
        landed = paid(provider, f"INV-{currency}", amount=minor, currency=currency)
        (sent,) = proxy.asked("POST /v1/payment_intents")
        given = parse_qs(sent.body.decode())
        assert (given["amount"], given["currency"]) == ([wire], [currency.lower()])
        assert (landed.amount, landed.currency) == (minor, currency)
        assert provider.look(sought(f"INV-{currency}")).objects == (landed,)
        assert provider.compensate(refund(landed.external_id, minor, currency=currency)).verdict == "landed"
        (back,) = proxy.asked("POST /v1/refunds")
        assert parse_qs(back.body.decode())["amount"] == [wire]


@pytest.mark.parametrize(
    ("currency", "minor", "sentence"),
    [
        ("KWD", 1255, "1.255 KWD: Stripe wants the last of three decimals to be 0, as in 1.250. Nothing is rounded here."),
        ("MGA", 150, "1.50 MGA: Stripe takes whole units of MGA only."),
        ("EUR", 0, "0.00 EUR: Stripe moves amounts of more than 0."),
        ("CLF", 10000, "Stripe takes no CLF."),
        ("XAU", 1, "'XAU' is no ISO 4217 currency with amounts"),
        (None, None, "Stripe moves money: an amount and a currency are needed."),
    ],
)
def test_an_amount_that_stripe_cannot_take_is_not_sent(
    localstripe: Localstripe, provider: Provider, currency: str | None, minor: int | None, sentence: str
) -> None:
    for answer in (
        provider.perform(send(amount=minor, currency=currency)),
        provider.compensate(replace(refund("pi_1"), amount=minor, currency=currency)),
    ):
        assert (answer.verdict, answer.detail) == ("not_sent", sentence)
    assert localstripe.payments() == []


# Refunds ------------------------------------------------------------------------------------------------------------


def test_partial_refunds_are_each_their_own_and_the_payment_says_how_much(localstripe: Localstripe, provider: Provider) -> None:
    payment = paid(provider)
    asked = sought("C-1", "op-9", "refund_payment", external_id=payment.external_id)
    assert provider.look(asked).outcome == "empty"
    first = provider.compensate(refund(payment.external_id, 5000)).found
    second = provider.compensate(refund(payment.external_id, 2500, "C-2", operation_id="op-10")).found
    assert first and second
    assert (first.state, first.amount, first.reference, first.operation_id) == ("landed", 5000, "C-1", "op-9")
    assert provider.look(asked).objects == (first,)
    assert provider.look(replace(asked, provider_reference="C-2")).objects == (second,)
    assert provider.look(replace(asked, provider_reference="C-3")).outcome == "empty"
    assert provider.look(replace(asked, external_id=None)).objects == (first,), "without the payment's id it is found among all refunds"
    (standing,) = provider.look(sought()).objects
    assert (standing.state, standing.amount, standing.undone_amount) == ("landed", 12500, 7500)


def test_a_payment_that_was_refunded_by_hand_reads_reversed(localstripe: Localstripe, provider: Provider) -> None:
    payment = paid(provider)
    localstripe.refund_by_hand(payment.external_id, 12000)
    assert [(one.state, one.undone_amount) for one in provider.look(sought()).objects] == [("landed", 12000)]
    localstripe.refund_by_hand(payment.external_id, 500)
    assert [(one.state, one.undone_amount) for one in provider.look(sought()).objects] == [("reversed", 12500)]
    asked = sought("C-1", "op-9", "refund_payment", external_id=payment.external_id)
    assert provider.look(asked).outcome == "empty", "somebody else's refund is none of ours"


def test_an_agents_own_refund(localstripe: Localstripe, provider: Provider) -> None:
    payment = paid(provider)
    asked = send("RET-1", "op-2", "create_refund", amount=100, request={"payment": payment.external_id})
    answer = provider.perform(asked)
    assert answer.verdict == "landed" and answer.found and answer.found.amount == 100
    assert provider.look(sought("RET-1", "op-2", "create_refund")).objects == (answer.found,)


def test_a_refund_of_nothing_is_refused(provider: Provider) -> None:
    answer = provider.compensate(refund("pi_nobody"))
    assert (answer.verdict, answer.http_status) == ("refused", 404)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (send(action="pay_out"), "create_payment and create_refund"),
        (send(request={"lines": []}), "not asked lines. Known: customer"),
        (send(request={"metadata": "x"}), "metadata: an object"),
        (send(action="create_refund", request={"payment": "INV-1"}), "pi_… or ch_…"),
        (send(action="create_refund", request={"payment": {}}), "pi_… or ch_…"),
        (send(action="create_refund", request={"payment": "pi_1", "amount": 1}), "not asked amount"),
    ],
)
def test_what_stripe_cannot_be_asked_is_not_sent(provider: Provider, asked: Send, words: str) -> None:
    answer = provider.perform(asked)
    assert answer.verdict == "not_sent" and words in answer.detail


def test_only_a_payment_can_be_undone(provider: Provider) -> None:
    assert provider.compensate(replace(refund("pi_1"), action="cancel_order")).verdict == "not_sent"
    assert provider.compensate(replace(refund("pi_1"), external_id=None)).verdict == "not_sent"


# Sending once -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "there"), [("lose_response", 1), ("drop_request", 0), ("http_502", 0), ("maintenance_200", 0)])
def test_a_send_in_doubt_is_unknown_and_goes_out_once(localstripe: Localstripe, mode: Any, there: int) -> None:
    """The SDK by itself would send three times; localstripe would take the money as often."""
    assert stripe.max_network_retries == 2, "the SDK's default is another one now"
    with Proxy(localstripe.url) as proxy:
        provider = load(config(proxy.url))
        proxy.arm(mode, "POST /v1/payment_intents", times=9)
        assert provider.perform(send("INV-5", "op-5")).verdict == "unknown"
        assert len(proxy.asked("POST")) == 1
        assert len(localstripe.payments("INV-5")) == there
        look = provider.look(sought("INV-5", "op-5"))
        assert (look.outcome, len(look.objects)) == ("found" if there else "empty", there)


def test_the_operation_id_is_the_idempotency_key(liar: Liar, deceived: Provider) -> None:
    liar.say(PAYMENT)
    for attempt in (1, 2):
        deceived.perform(send(attempt=attempt))
    deceived.compensate(refund("pi_1"))
    keys = [headers["idempotency-key"] for _, _, headers, _ in liar.asked]
    assert keys == ["op-1", "op-1", "op-9"]
    assert {headers["authorization"] for _, _, headers, _ in liar.asked} == {"Bearer sk_test_countermand"}
    form = parse_qs(liar.asked[0][3].decode())
    assert form["metadata[countermand_reference]"] == ["INV-1"] and form["metadata[countermand_operation]"] == ["op-1"]
    assert form["confirm"] == ["true"]


def test_nobody_listening_is_not_sent_and_no_information() -> None:
    nobody = load(config("http://127.0.0.1:1"))
    assert nobody.perform(send()).verdict == nobody.compensate(refund("pi_1")).verdict == "not_sent"
    look = nobody.look(sought())
    assert (look.outcome, look.http_status) == ("unreachable", None)


def test_a_late_answer_is_unknown_and_the_money_is_taken_once(localstripe: Localstripe) -> None:
    with Proxy(localstripe.url) as proxy:
        proxy.arm("hold_request", "POST /v1/payment_intents")
        hasty = load(config(proxy.url, timeout_s=0.3))
        assert hasty.perform(send("INV-6")).verdict == "unknown"
        assert localstripe.payments("INV-6") == []
        proxy.release()
        patient = load(config(localstripe.url))
        for _ in range(200):
            if (look := patient.look(sought("INV-6"))).outcome == "found":
                break
        assert len(look.objects) == 1 and len(proxy.asked("POST")) == 1


# Against a liar -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def liar() -> Iterator[Liar]:
    with lying() as server:
        yield server


@pytest.fixture
def deceived(liar: Liar) -> Provider:
    return load(config(liar.url))


OURS = {"countermand_reference": "INV-1", "countermand_operation": "op-1"}
CHARGE = {
    "id": "ch_1", "object": "charge", "metadata": {}, "created": SECONDS, "amount": 12500, "amount_captured": 12500,
    "amount_refunded": 0, "refunded": False, "captured": True, "currency": "eur", "status": "succeeded", "payment_intent": "pi_1",
}  # fmt: skip
PAYMENT = {
    "id": "pi_1", "object": "payment_intent", "metadata": OURS, "created": SECONDS, "status": "succeeded", "amount": 12500,
    "amount_received": 12500, "currency": "eur", "latest_charge": CHARGE, "last_payment_error": None,
}  # fmt: skip
REFUND = {
    "id": "re_1", "object": "refund", "metadata": OURS, "created": SECONDS, "status": "succeeded", "amount": 5000, "currency": "eur",
    "charge": "ch_1", "payment_intent": "pi_1", "balance_transaction": "txn_1", "failure_balance_transaction": None,
}  # fmt: skip
PAYMENTS = {"object": "list", "url": "/v1/payment_intents", "has_more": False, "data": [PAYMENT]}
EMPTY = {**PAYMENTS, "data": []}
REFUNDS = {"object": "list", "url": "/v1/refunds", "has_more": False, "data": [REFUND]}


def one(**change: Any) -> dict[str, Any]:
    """A listing of one payment with something changed; a change to None takes the field away."""
    changed = {name: value for name, value in {**PAYMENT, **change}.items() if value is not None}
    return {**PAYMENTS, "data": [changed]}


def another(**change: Any) -> dict[str, Any]:
    """A listing of the payment and one that is somebody else's, with something changed."""
    return {**PAYMENTS, "data": [PAYMENT, {**PAYMENT, "id": "pi_2", "metadata": {}, **change}]}


@pytest.mark.parametrize(
    ("status", "media", "body", "outcome"),
    [
        (200, JSON, EMPTY, "empty"),
        (200, JSON, PAYMENTS, "found"),
        (200, "application/json; charset=utf-8", PAYMENTS, "found"),
        (200, JSON, one(metadata={"order": "INV-1"}), "empty"),
        (200, JSON, another(), "found"),
        (404, JSON, EMPTY, "unreachable"),
        (302, JSON, EMPTY, "unreachable"),
        (429, JSON, EMPTY, "unreachable"),
        (500, JSON, EMPTY, "unreachable"),
        (503, JSON, EMPTY, "unreachable"),
        (401, JSON, EMPTY, "refused_access"),
        (403, JSON, EMPTY, "refused_access"),
        (200, "text/html", EMPTY, "unreachable"),
        (200, JSON, b"<html>We will be back soon</html>", "unreachable"),
        (200, JSON, {"status": "maintenance", "data": []}, "unreachable"),
        (200, JSON, b"", "unreachable"),
        (200, JSON, [], "unreachable"),
        (200, JSON, {}, "unreachable"),
        (200, JSON, {**EMPTY, "object": "search_result"}, "unreachable"),
        (200, JSON, {**EMPTY, "url": "/v1/refunds"}, "unreachable"),
        (200, JSON, {**EMPTY, "url": None}, "unreachable"),
        (200, JSON, {**EMPTY, "data": {}}, "unreachable"),
        (200, JSON, {**EMPTY, "has_more": "no"}, "unreachable"),
        (200, JSON, {**EMPTY, "has_more": True}, "unreachable"),
        (200, JSON, {**PAYMENTS, "has_more": True}, "unreachable"),
        (200, JSON, {**PAYMENTS, "data": [None]}, "unreachable"),
        (200, JSON, {**PAYMENTS, "data": [REFUND]}, "unreachable"),
        (200, JSON, another(object="charge"), "unreachable"),
        (200, JSON, another(metadata=None), "unreachable"),
        (200, JSON, another(created="today"), "unreachable"),
        (200, JSON, another(id="pi_2/../../refunds"), "unreachable"),
        (200, JSON, one(status="teleported"), "unreachable"),
        (200, JSON, one(status={}), "unreachable"),
        (200, JSON, one(currency="EUR"), "unreachable"),
        (200, JSON, one(currency="xxx"), "unreachable"),
        (200, JSON, one(currency="jpy", latest_charge={**CHARGE, "currency": "jpy"}), "found"),
        (200, JSON, one(currency="isk", amount_received=12550), "unreachable"),
        (200, JSON, one(amount_received=125.0), "unreachable"),
        (200, JSON, one(amount_received="12500"), "unreachable"),
        (200, JSON, one(amount_received=-1), "unreachable"),
        (200, JSON, one(amount_received=True), "unreachable"),
        (200, JSON, one(created=10**30), "unreachable"),
        (200, JSON, one(latest_charge={**CHARGE, "object": "card"}), "unreachable"),
        (200, JSON, one(latest_charge={**CHARGE, "refunded": "no"}), "unreachable"),
        (200, JSON, one(latest_charge={**CHARGE, "amount_refunded": None}), "unreachable"),
        (200, JSON, b'{"object": "list", "url": "/v1/payment_intents", "has_more": false, "data": [], "x": NaN}', "unreachable"),
        (200, JSON, b"[" * 100_000, "unreachable"),
        (200, JSON, b" " * 1_100_000 + b"{}", "unreachable"),
    ],
)  # fmt: skip
def test_what_an_answer_tells(liar: Liar, deceived: Provider, status: int, media: str, body: Any, outcome: str) -> None:
    liar.say(body, status=status, media=media)
    look = deceived.look(sought())
    assert look.outcome == outcome, look.detail
    assert bool(look.objects) == (outcome == "found") and look.detail


def test_an_answer_that_is_cut_off_tells_nothing(liar: Liar, deceived: Provider) -> None:
    for body in (PAYMENTS, EMPTY):
        liar.say(body)
        liar.cut = True
        assert deceived.look(sought()).outcome == "unreachable"
    liar.say(PAYMENT)
    liar.cut = True
    assert deceived.perform(send()).verdict == "unknown"


@pytest.mark.parametrize(
    ("change", "state", "amount", "undone"),
    [
        ({}, "landed", 12500, 0),
        ({"amount_received": 12000}, "landed", 12000, 0),
        ({"latest_charge": {**CHARGE, "amount_refunded": 1}}, "landed", 12500, 1),
        ({"latest_charge": {**CHARGE, "amount_refunded": 12500, "refunded": True}}, "reversed", 12500, 12500),
        ({"status": "processing"}, "pending", 12500, None),
        ({"status": "requires_action"}, "pending", 12500, None),
        ({"status": "requires_capture"}, "pending", 12500, None),
        ({"status": "requires_confirmation"}, "pending", 12500, None),
        ({"status": "requires_payment_method"}, "pending", 12500, None),
        ({"status": "requires_payment_method", "last_payment_error": {"code": "card_declined"}}, "refused", 12500, None),
        ({"status": "canceled"}, "refused", 12500, None),
    ],
)
def test_what_a_payments_status_means(
    liar: Liar, deceived: Provider, change: dict[str, Any], state: str, amount: int, undone: int | None
) -> None:
    liar.say(one(**change))
    (found,) = deceived.look(sought()).objects
    assert (found.state, found.amount, found.undone_amount, found.external_id) == (state, amount, undone, "pi_1")
    assert found.at == (None if state == "reversed" else NOW)


@pytest.mark.parametrize(
    ("change", "state"),
    [
        ({}, "landed"),
        ({"status": "pending"}, "pending"),
        ({"status": "requires_action"}, "pending"),
        ({"status": "failed", "failure_balance_transaction": "txn_2"}, "reversed"),
        ({"status": "failed"}, "reversed"),
        ({"status": "failed", "balance_transaction": None}, "refused"),
        ({"status": "canceled", "balance_transaction": None}, "refused"),
    ],
)
def test_what_a_refunds_status_means(liar: Liar, deceived: Provider, change: dict[str, Any], state: str) -> None:
    liar.say({**REFUNDS, "data": [{**REFUND, **change}]})
    (found,) = deceived.look(sought(action="refund_payment", external_id="pi_1")).objects
    assert (found.state, found.amount, found.external_id) == (state, 5000, "re_1")
    assert urlsplit(liar.asked[0][1]).query == "limit=100&payment_intent=pi_1"


@pytest.mark.parametrize(
    "body",
    [
        {**REFUNDS, "data": [{**REFUND, "payment_intent": "pi_2"}]},
        {**REFUNDS, "data": [{**REFUND, "status": "gone"}]},
        {**REFUNDS, "data": [{**REFUND, "status": []}]},
        PAYMENTS,
    ],
)
def test_another_payments_refunds_are_no_information(liar: Liar, deceived: Provider, body: Any) -> None:
    liar.say(body)
    assert deceived.look(sought(action="refund_payment", external_id="pi_1")).outcome == "unreachable"


def test_what_it_cannot_look_for_is_no_information(deceived: Provider) -> None:
    assert deceived.look(sought(action="pay_out")).outcome == "unreachable"


def test_a_payment_whose_charge_is_only_named_is_asked_for_with_it(liar: Liar, deceived: Provider) -> None:
    refunded = {**PAYMENT, "latest_charge": {**CHARGE, "refunded": True, "amount_refunded": 12500}}
    listed = one(latest_charge="ch_1")
    liar.say(listed, refunded)
    assert [found.state for found in deceived.look(sought()).objects] == ["reversed"]
    assert [path for _, path, _, _ in liar.asked] == ["/v1/payment_intents?limit=100", "/v1/payment_intents/pi_1?expand[0]=latest_charge"]
    for lie in ({**refunded, "id": "pi_2"}, {**PAYMENT, "latest_charge": "ch_1"}, {**refunded, "metadata": {}}, REFUND, b"<html>"):
        liar.say(listed, lie)
        assert deceived.look(sought()).outcome == "unreachable"


def test_a_listing_is_read_to_its_end_or_tells_nothing(liar: Liar, deceived: Provider) -> None:
    def page(*ids: str, more: bool = True, created: int = SECONDS, ours: bool = False) -> dict[str, Any]:
        things = [{**PAYMENT, "id": one, "created": created, "metadata": OURS if ours else {}} for one in ids]
        return {**PAYMENTS, "has_more": more, "data": things}

    liar.say(page("pi_9", "pi_8"), page("pi_7", ours=True), page("pi_6", more=False))
    assert [found.external_id for found in deceived.look(sought()).objects] == ["pi_7"]
    assert [path.partition("?")[2] for _, path, _, _ in liar.asked] == [
        "limit=100", "limit=100&starting_after=pi_8", "limit=100&starting_after=pi_7",
    ]  # fmt: skip
    broken = ((200, JSON, b"<html>"), (503, JSON, b"{}"))
    for answer in broken:
        liar.say(page("pi_9", ours=True))
        liar.answers.append(answer)
        assert deceived.look(sought()).outcome == "unreachable", "half a listing may miss a second payment"
    liar.say(page("pi_9"), page("pi_8"), page("pi_9"))
    assert deceived.look(sought()).outcome == "unreachable", "a listing that goes round in circles"
    long_ago = SECONDS - int(timedelta(hours=2).total_seconds())
    liar.say(page("pi_9"), page("pi_1", created=long_ago), page("pi_0", ours=True))
    assert deceived.look(sought()).outcome == "empty" and len(liar.asked) == 2, "newest first: what is older cannot be of our send"
    oldest_first = page("pi_1", "pi_2")
    oldest_first["data"][0]["created"] = long_ago - 1
    oldest_first["data"][1]["created"] = long_ago
    liar.say(oldest_first, page("pi_3", more=False, ours=True))
    assert deceived.look(sought()).outcome == "found", "in another order than Stripe's it stops nowhere"


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (200, PAYMENT, "landed"),
        (200, {**PAYMENT, "status": "processing"}, "pending"),
        (200, {**PAYMENT, "status": "requires_action"}, "pending"),
        (200, {**PAYMENT, "status": "requires_payment_method", "last_payment_error": {"code": "card_declined"}}, "refused"),
        (200, {**PAYMENT, "latest_charge": {**CHARGE, "refunded": True, "amount_refunded": 12500}}, "unknown"),
        (200, {**PAYMENT, "metadata": {}}, "unknown"),
        (200, {**PAYMENT, "metadata": {"countermand_reference": "INV-9"}}, "unknown"),
        (200, {**PAYMENT, "amount_received": "12500"}, "unknown"),
        (200, REFUND, "unknown"),
        (200, {"status": "maintenance"}, "unknown"),
        (200, b"<html>", "unknown"),
        (201, PAYMENT, "unknown"),
        (302, PAYMENT, "unknown"),
        (402, {"error": {"type": "card_error", "code": "card_declined", "decline_code": "stolen_card"}}, "refused"),
        (402, {"error": {"type": "card_error", "payment_intent": {**PAYMENT, "status": "requires_payment_method"}}}, "refused"),
        (402, {"error": {"type": "card_error", "payment_intent": PAYMENT}}, "unknown"),
        (400, {"error": {"type": "invalid_request_error", "message": "No such\u0000 card"}}, "refused"),
        (404, {"error": {"type": "invalid_request_error", "code": "resource_missing"}}, "refused"),
        (400, {"error": {"type": "idempotency_error", "message": "Keys for idempotent requests …"}}, "unknown"),
        (400, {"error": {"type": "invalid_request_error", "code": "rate_limit"}}, "unknown"),
        (409, {"error": {"type": "invalid_request_error", "code": "idempotency_key_in_use"}}, "unknown"),
        (400, {"error": {"type": "api_error"}}, "unknown"),
        (400, {"error": {"type": {}}}, "unknown"),
        (400, {"error": "invalid_request_error"}, "unknown"),
        (400, b"<html>", "unknown"),
        (404, b"<html>", "unknown"),
        (401, {"error": {"type": "invalid_request_error"}}, "unknown"),
        (403, {"error": {"type": "invalid_request_error"}}, "unknown"),
        (429, {"error": {"type": "invalid_request_error"}}, "unknown"),
        (500, {"error": {"type": "api_error"}}, "unknown"),
    ],
)  # fmt: skip
def test_only_a_clear_yes_landed_and_only_a_definite_no_was_refused(
    liar: Liar, deceived: Provider, status: int, body: Any, verdict: str
) -> None:
    liar.say(body, status=status)
    answer = deceived.perform(send())
    assert (answer.verdict, len(liar.asked)) == (verdict, 1)
    assert answer.detail.isprintable() and (answer.found is None or verdict in ("landed", "pending", "refused"))


def test_what_is_kept_of_a_body_is_short_and_of_nobody_else(liar: Liar, deceived: Provider) -> None:
    customer = {"billing_details": {"name": "Ada Lovelace"}, "client_secret": "pi_1_secret_x", "description": "\u0000" * 9000}
    liar.say({**PAYMENTS, "data": [{**PAYMENT, **customer}, {**PAYMENT, **customer, "id": "pi_2", "metadata": {"name": "Bob"}}]})
    look = deceived.look(sought())
    assert (look.outcome, look.request_id) == ("found", "req_77")
    assert '"pi_1"' in look.body and len(look.body.encode()) <= BODY_EXCERPT_BYTES
    for private in ("Ada", "secret_x", "pi_2", "Bob"):
        assert private not in look.body
    liar.say({**PAYMENT, **customer})
    assert "secret_x" not in deceived.perform(send()).body


def test_a_reference_that_cannot_be_ours_is_not(liar: Liar, deceived: Provider) -> None:
    for reference in ("x" * 201, "INV\u0000", 7, None, ["INV-1"]):
        liar.say(one(metadata={"countermand_reference": reference}))
        assert deceived.look(sought()).outcome == "empty"


# Settings -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"api_key": None}, "api_key is needed"),
        ({"api_key": "pk_test_1"}, "api_key is needed"),
        ({"api_key": "sk_test\r\n1"}, "api_key is needed"),
        ({"api_base": "http://api.example.org"}, "must be https"),
        ({"api_base": "ftp://127.0.0.1"}, "api_base is an address"),
        ({"api_base": 7}, "api_base is an address"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"retries": 2}, "unknown setting retries"),
        ({"webhook_secrets": "whsec_abcdefghi"}, "webhook_secrets is a list"),
        ({"webhook_secrets": ["abcdefghi"]}, "webhook_secrets is a list"),
        ({"webhook_secrets": ["whsec_abcdefghi"] * 3}, "at most 2"),
        ({"capability": {"lookup": "perhaps"}}, "lookup"),
    ],
)
def test_a_wrong_setting_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ProviderConfigError, match=words):
        load(config("https://api.stripe.com", **change))


def test_its_record_promises_what_is_documented() -> None:
    record = load({"kind": "stripe", "api_key": "rk_live_1"}).capability
    assert (record.lookup, record.after_absent, record.reference_unique, record.idempotency_window_s) == ("eventual", "ask", False, 86400)
    assert record.compensable == {"create_payment": "refund_payment"} and not record.cleanable and not record.cleanup_ok
    assert record.lookup_url == "https://dashboard.stripe.com/search?query={reference}"
    test_mode = load({"kind": "stripe", "api_key": "sk_test_1", "capability": {"lookup_lag_s": 5}}).capability
    assert test_mode.lookup_url == "https://dashboard.stripe.com/test/search?query={reference}" and test_mode.lookup_lag_s == 5


def test_the_key_is_shown_to_nobody(deceived: Provider) -> None:
    assert platform.STRIPE["api_key"] not in repr(deceived) + str(vars(deceived))
