"""Stripe's events through the real inbox, over HTTP: believed or not, stored, processed, in whatever order and how often they come."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

import pytest
from standardwebhooks import Webhook
from stripe import WebhookSignature

from ledger import outcomes
from ledger.models import Effect, Evidence
from ledger.operations import Permission
from reconciliation import webhooks
from reconciliation.models import WebhookEvent
from runs import transition
from tests import platform
from tests.makers import WORKER, again, fresh, new_run, open_cases, send, sweep, tell
from tests.wire import Api

pytestmark = pytest.mark.usefixtures("counters")
SECRET = platform.STRIPE_WEBHOOK_SECRET


@pytest.fixture
def sent() -> Permission:
    run, token = new_run()
    return send(run, token, provider="stripe", action="create_payment", ref="INV-1042", request={"customer": "cus_1"})


def event(kind: str, thing: dict[str, Any], event_id: str = "") -> bytes:
    return json.dumps(
        {"id": event_id or f"evt_{kind.replace('.', '_')}", "object": "event", "type": kind, "data": {"object": thing}}
    ).encode()


def about(effect: Effect, kind: str, **values: Any) -> dict[str, Any]:
    ours = {"countermand_reference": effect.provider_reference, "countermand_operation": str(effect.pk)}
    money = {"amount": effect.amount, "currency": effect.currency.lower()}
    return (
        {"id": {"payment_intent": "pi_1", "charge": "ch_1"}[kind], "object": kind, "metadata": ours, "created": 1796040000} | money | values
    )


def pending(effect: Effect) -> bytes:
    return event("payment_intent.processing", about(effect, "payment_intent", status="processing", amount_received=0))


def succeeded(effect: Effect) -> bytes:
    thing = about(effect, "payment_intent", status="succeeded", amount_received=effect.amount, latest_charge="ch_1")
    return event("payment_intent.succeeded", thing)


def refunded(effect: Effect, amount: int | None = None) -> bytes:
    """Somebody refunded it in Stripe's dashboard, all of it or `amount`."""
    back = effect.amount if amount is None else amount
    thing = about(
        effect, "charge", status="succeeded", captured=True, amount_captured=effect.amount, amount_refunded=back,
        refunded=back == effect.amount, payment_intent="pi_1",
    )  # fmt: skip
    return event("charge.refunded", thing)


EVENTS = {"pending": pending, "succeeded": succeeded, "refunded": refunded}


def signed(raw: bytes, secret: str = SECRET, age_s: float = 0) -> str:
    return WebhookSignature.generate_signature_header(raw.decode(), secret, int(transition.clock().timestamp() - age_s))


def post(raw: bytes, signature: str | None = None, to: str = "stripe", **headers: str) -> Any:
    return Api().post(f"/webhooks/{to}", raw, **{"stripe-signature": signed(raw) if signature is None else signature, **headers})


def deliver(*bodies: bytes) -> None:
    for body in bodies:
        assert post(body).status_code == 200
    webhooks.process_due()


def known(effect: Effect) -> tuple[str, str, int | None]:
    return effect.state, effect.external_id, effect.landed_amount


@pytest.mark.parametrize("order", [*permutations(EVENTS), ("refunded",), ("succeeded", "refunded"), ("refunded", "pending")])
@pytest.mark.parametrize("start", ["sending", "unknown", "landed"])
def test_any_order_and_any_duplication_end_the_same(sent: Permission, start: str, order: tuple[str, ...]) -> None:
    if start != "sending":
        tell(
            sent,
            start,
            external_id="pi_1" if start == "landed" else "",
            **({"amount": 12500, "currency": "EUR"} if start == "landed" else {}),
        )
    for name in order:
        deliver(EVENTS[name](sent.effect))
    deliver(*(EVENTS[name](sent.effect) for name in reversed(order)))
    assert known(again(sent)) == ("reversed", "pi_1", 12500)
    for number, name in enumerate(order):  # Stripe tells the same in an event of its own
        told = json.loads(EVENTS[name](sent.effect)) | {"id": f"evt_again_{number}"}
        deliver(json.dumps(told).encode())
    sweep()
    assert known(again(sent)) == ("reversed", "pi_1", 12500)
    assert again(sent).holds_action and not open_cases()
    assert fresh(sent.effect.run).in_doubt == 0
    assert WebhookEvent.objects.filter(processed_at__isnull=True).count() == 0


@pytest.mark.parametrize("order", list(permutations(EVENTS)))
def test_all_that_is_stored_before_any_is_processed_ends_the_same(sent: Permission, order: tuple[str, ...]) -> None:
    deliver(*(EVENTS[name](sent.effect) for name in (*order, *order)))
    assert known(again(sent)) == ("reversed", "pi_1", 12500) and not open_cases()
    assert sorted(WebhookEvent.objects.values_list("received", flat=True)) == [2, 2, 2]
    assert Evidence.objects.filter(effect=sent.effect).count() == 3


@pytest.mark.parametrize("order", list(permutations(["succeeded", "refunded"])))
def test_a_partial_refund_leaves_it_landed(sent: Permission, order: tuple[str, ...]) -> None:
    events = {"succeeded": succeeded(sent.effect), "refunded": refunded(sent.effect, 2500)}
    deliver(*(events[name] for name in order))
    assert known(again(sent)) == ("landed", "pi_1", 12500) and not open_cases()


def test_a_refund_that_fails_later_reads_reversed_and_the_payment_stays(sent: Permission) -> None:
    deliver(succeeded(sent.effect))
    run, token = new_run()
    back = send(run, token, provider="stripe", action="create_refund", ref="RET-1", amount=2500, request={"payment": "pi_1"}).effect
    ours = {"countermand_reference": "RET-1", "countermand_operation": str(back.pk)}
    refund = {
        "id": "re_1", "object": "refund", "metadata": ours, "created": 1796040000, "amount": 2500, "currency": "eur", "charge": "ch_1",
        "payment_intent": "pi_1", "balance_transaction": "txn_1",
    }  # fmt: skip
    failed = event("refund.failed", {**refund, "status": "failed", "failure_balance_transaction": "txn_2"})
    deliver(event("refund.created", {**refund, "status": "pending"}))
    assert known(again(back))[:2] == ("pending", "re_1")
    deliver(event("refund.updated", {**refund, "status": "succeeded"}), refunded(sent.effect, 2500))
    assert known(again(back)) == ("landed", "re_1", 2500)
    deliver(failed)
    deliver(event("refund.updated", {**refund, "status": "succeeded"}, "evt_late"))
    assert known(again(back))[0] == "reversed" and known(again(sent)) == ("landed", "pi_1", 12500)
    assert not open_cases()


def test_a_payment_of_another_amount_conflicts(sent: Permission) -> None:
    deliver(event("payment_intent.succeeded", about(sent.effect, "payment_intent", status="succeeded", amount_received=12000)))
    assert known(again(sent))[:2] == ("conflicted", "pi_1")


def test_what_is_somebody_elses_is_stored_and_opens_nothing(sent: Permission) -> None:
    thing = about(sent.effect, "payment_intent", status="succeeded") | {"metadata": {"order": "INV-1042"}}
    deliver(event("payment_intent.succeeded", thing), event("customer.created", {"id": "cus_1", "object": "customer"}))
    assert again(sent).state == "sending" and not open_cases()
    assert set(WebhookEvent.objects.values_list("used_as", flat=True)) == {"nothing_in_it"}


def supplier_headers(raw: bytes) -> dict[str, str]:
    now = datetime.fromtimestamp(int(transition.clock().timestamp()), transition.clock().tzinfo)
    signature = Webhook(platform.WEBHOOK_SECRET).sign("evt_1", now, raw.decode())
    return {"webhook-id": "evt_1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}


def test_what_is_not_believed_is_refused_and_not_stored(sent: Permission) -> None:
    raw = succeeded(sent.effect)
    again_written = json.dumps(json.loads(raw), separators=(",", ":")).encode()
    minutes = timedelta(minutes=5, seconds=2).total_seconds()
    other = base64.b64decode(platform.WEBHOOK_SECRET.removeprefix("whsec_")).decode()
    refusals = [
        post(raw, signed(raw, "whsec_somebody_elses_secret")),
        post(again_written, signed(raw)),
        post(raw, signed(raw, age_s=minutes)),
        post(raw, signed(raw, age_s=-minutes)),
        post(raw, signed(raw, platform.WEBHOOK_SECRET)),
        post(raw, signed(raw, other)),
        post(raw, "", **supplier_headers(raw)),
        post(raw, ""),
        post(raw, to="supplier"),
    ]
    assert {(answer.status_code, answer.data["code"]) for answer in refusals} == {(400, "invalid")}
    assert not WebhookEvent.objects.exists() and again(sent).state == "sending"
    assert post(raw).status_code == 200


def test_a_replay_in_time_is_counted_and_used_once(sent: Permission) -> None:
    raw = succeeded(sent.effect)
    header = signed(raw)
    for _ in range(3):
        assert post(raw, header).status_code == 200
        webhooks.process_due()
    (row,) = WebhookEvent.objects.all()
    assert (row.received, row.used_as, bytes(row.raw)) == (3, "applied", raw)
    assert Evidence.objects.filter(effect=sent.effect).count() == 1


def test_the_worker_that_was_cut_off_agrees_with_what_was_heard(sent: Permission) -> None:
    deliver(succeeded(sent.effect))
    used, effect = outcomes.report(WORKER, sent.effect.pk, 1, "landed", "pi_1", 12500, "EUR")
    assert (used, effect.state, effect.how_we_know) == ("agrees", "landed", "webhook")
