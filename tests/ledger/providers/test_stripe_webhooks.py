"""Which webhooks Stripe's adapter believes, and what it reads in them."""

import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from stripe import WebhookSignature

from ledger.providers import load
from ledger.providers.base import News, SignatureRefused
from tests.ledger.providers.test_stripe import CHARGE, OURS, PAYMENT, REFUND

NEW, OLD, OTHER = "whsec_newsecret", "whsec_oldsecret", "whsec_othersecret"
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
STAMP = int(AT.timestamp())
PROVIDER = load({"kind": "stripe", "api_key": "sk_test_1", "webhook_secrets": [NEW, OLD]})


def event(thing: Any = PAYMENT, kind: str = "payment_intent.succeeded", **change: Any) -> bytes:
    return json.dumps({"id": "evt_1", "object": "event", "type": kind, "created": STAMP, "data": {"object": thing}, **change}).encode()


def signed(raw: bytes, secret: str = NEW, at: datetime = AT) -> dict[str, str]:
    """Signed by the SDK itself, which is what Stripe's own tools sign with."""
    return {"Stripe-Signature": WebhookSignature.generate_signature_header(raw.decode(), secret, int(at.timestamp()))}


def read(raw: bytes, headers: dict[str, str] | None = None, now: datetime = AT) -> News:
    return PROVIDER.read_webhook(signed(raw) if headers is None else headers, raw, now)


@pytest.mark.parametrize("secret", [NEW, OLD])
def test_either_live_secret_is_believed(secret: str) -> None:
    news = read(event(), signed(event(), secret))
    assert (news.event_id, news.kind, news.operation_id, news.reference) == ("evt_1", "payment_intent.succeeded", "op-1", "INV-1")
    assert news.found and (news.found.external_id, news.found.amount, news.found.currency) == ("pi_1", 12500, "EUR")


@pytest.mark.parametrize("age", [timedelta(minutes=4, seconds=59), timedelta(minutes=-4, seconds=-59)])
def test_the_window_is_five_minutes_by_the_callers_clock(age: timedelta) -> None:
    assert read(event(), now=AT + age).event_id == "evt_1"
    with pytest.raises(SignatureRefused, match="5 minutes"):
        read(event(), now=AT + age * 1.1)


def mac(stamp: str, raw: bytes = event(), secret: str = NEW) -> str:
    return hmac.new(secret.encode(), f"{stamp}.".encode() + raw, hashlib.sha256).hexdigest()


OLD_STAMP = str(STAMP - 3600)


@pytest.mark.parametrize(
    "header",
    [
        signed(event(), OTHER)["Stripe-Signature"],
        f"t={STAMP + 1},v1={mac(str(STAMP))}",
        f"t={STAMP},v0={mac(str(STAMP))}",
        f"t={STAMP},v1={mac(str(STAMP)).upper()}",
        f"t={STAMP},v1=",
        f"t={STAMP},v1=é",
        f"v1={mac(str(STAMP))}",
        f"t=soon,v1={mac('soon')}",
        f"t=-{STAMP},v1={mac(f'-{STAMP}')}",
        f"t={'9' * 400},v1={mac('9' * 400)}",
        f"t={OLD_STAMP},t={STAMP},v1={mac(OLD_STAMP)}",
        f"t={STAMP},t={OLD_STAMP},v1={mac(OLD_STAMP)}",
        f"t={OLD_STAMP} ,t={STAMP},v1={mac(OLD_STAMP)}",
        f"t=,v1={mac('')}",
        "",
        ",,,=,==",
    ],
)
def test_anything_else_is_refused(header: str) -> None:
    with pytest.raises(SignatureRefused):
        read(event(), {"stripe-signature": header})
    with pytest.raises(SignatureRefused):
        read(event(), {})


def test_the_signature_covers_the_raw_bytes() -> None:
    for changed in (json.dumps(json.loads(event()), separators=(",", ":")).encode(), event() + b" ", b"\xff" + event()):
        with pytest.raises(SignatureRefused):
            read(changed, signed(event()))


def test_another_providers_signature_is_none_of_stripes() -> None:
    with pytest.raises(SignatureRefused):
        read(event(), {"webhook-id": "evt_1", "webhook-timestamp": str(STAMP), "webhook-signature": f"v1,{mac(str(STAMP))}"})


def test_one_of_several_signatures_is_enough() -> None:
    assert (
        read(event(), {"stripe-signature": f"t={STAMP},v1={mac(str(STAMP), secret=OTHER)},v0=x,v1={mac(str(STAMP))}"}).event_id == "evt_1"
    )


def test_without_a_secret_nobody_is_believed() -> None:
    deaf = load({"kind": "stripe", "api_key": "sk_test_1"})
    with pytest.raises(SignatureRefused):
        deaf.read_webhook(signed(event()), event(), AT)


MINE = {**CHARGE, "metadata": OURS}
DECLINED = {**PAYMENT, "status": "requires_payment_method", "last_payment_error": {"code": "card_declined"}}


@pytest.mark.parametrize(
    ("kind", "thing", "state", "external_id", "amount", "undone"),
    [
        ("payment_intent.processing", {**PAYMENT, "status": "processing"}, "pending", "pi_1", 12500, None),
        ("payment_intent.succeeded", {**PAYMENT, "latest_charge": "ch_1"}, "landed", "pi_1", 12500, None),
        ("payment_intent.payment_failed", DECLINED, "refused", "pi_1", 12500, None),
        ("payment_intent.canceled", {**PAYMENT, "status": "canceled"}, "refused", "pi_1", 12500, None),
        ("charge.succeeded", MINE, "landed", "pi_1", 12500, 0),
        ("charge.captured", {**MINE, "amount_captured": 12000}, "landed", "pi_1", 12000, 0),
        ("charge.succeeded", {**MINE, "captured": False}, "pending", "pi_1", 12500, None),
        ("charge.pending", {**MINE, "status": "pending"}, "pending", "pi_1", 12500, None),
        ("charge.refunded", {**MINE, "amount_refunded": 2500}, "landed", "pi_1", 12500, 2500),
        ("charge.refunded", {**MINE, "amount_refunded": 12500, "refunded": True}, "reversed", "pi_1", 12500, 12500),
        ("charge.failed", {**MINE, "status": "failed", "payment_intent": None}, "refused", "ch_1", 12500, None),
        ("refund.created", {**REFUND, "status": "pending"}, "pending", "re_1", 5000, None),
        ("refund.updated", REFUND, "landed", "re_1", 5000, None),
        ("refund.failed", {**REFUND, "status": "failed", "failure_balance_transaction": "txn_2"}, "reversed", "re_1", 5000, None),
        ("charge.refund.updated", {**REFUND, "status": "failed", "failure_balance_transaction": "txn_2"}, "reversed", "re_1", 5000, None),
    ],
)  # fmt: skip
def test_what_an_event_tells(kind: str, thing: Any, state: str, external_id: str, amount: int, undone: int | None) -> None:
    news = read(event(thing, kind))
    assert news.found and (news.kind, news.operation_id, news.reference) == (kind, "op-1", "INV-1")
    found = news.found
    assert (found.state, found.external_id, found.amount, found.undone_amount) == (state, external_id, amount, undone)


@pytest.mark.parametrize(
    ("kind", "thing"),
    [
        ("payment_intent.succeeded", {**PAYMENT, "metadata": {"order": "7"}}),
        ("payment_intent.succeeded", {**PAYMENT, "amount_received": 1.5}),
        ("payment_intent.succeeded", {**PAYMENT, "status": "teleported"}),
        ("refund.created", {**REFUND, "metadata": {}}),
        ("charge.failed", {**MINE, "status": "failed"}),
        ("charge.dispute.created", {"object": "dispute", "id": "dp_1", "metadata": OURS}),
        ("invoice.paid", {"object": "invoice", "id": "in_1"}),
        ("payment_intent.succeeded", None),
        ("", {"object": []}),
    ],
)
def test_believed_but_not_ours_or_not_understood_carries_nothing(kind: str, thing: Any) -> None:
    assert read(event(thing, kind)) == News("evt_1", kind, None, None, None)
    assert read(event(kind=kind, data=[])) == News("evt_1", kind, None, None, None)


@pytest.mark.parametrize(
    "raw", [b"[]", b"{", b"[" * 100_000, event(id=None), event(id="evt 1"), event(id="e" * 201), event(object="v2.core.event")]
)
def test_what_is_signed_but_no_event_is_refused(raw: bytes) -> None:
    with pytest.raises(SignatureRefused):
        read(raw)


def test_what_cannot_be_stored_is_not_handed_on() -> None:
    news = read(event(kind="a\u0000b\ud800c"))
    assert news.kind == "abc"
    assert read(event({**PAYMENT, "metadata": {"countermand_reference": "INV\u0000"}})).found is None
