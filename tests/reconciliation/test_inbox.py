"""The inbox over HTTP, with real signatures of the supplier and of Stripe: what is not believed is refused, counted, and moves nothing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.http import HttpResponse
from django.test import Client
from standardwebhooks import Webhook

from reconciliation import webhooks
from reconciliation.models import WebhookEvent, WebhookRefusal
from tests.makers import again, new_run, send
from tests.platform import STRIPE_WEBHOOK_SECRET, WEBHOOK_SECRET

pytestmark = pytest.mark.usefixtures("counters")
ANOTHER = "whsec_" + base64.b64encode(b"somebody else's secret").decode()


@pytest.fixture
def sent():
    return send(*new_run())


def order(sent: Any) -> bytes:
    """The supplier's own event about the sent order, as it would write it."""
    data = {
        "id": "SO-1",
        "reference": sent.effect.business_ref,
        "state": "accepted",
        "currency": "EUR",
        "total": "125.00",
        "accepted_at": "2026-03-02T14:02:07+00:00",
        "idempotency_key": str(sent.effect.pk),
    }
    return json.dumps({"type": "order.accepted", "data": data}).encode()


def post(raw: bytes, secret: str = WEBHOOK_SECRET, at: datetime | None = None, event_id: str = "evt_1", **headers: str) -> HttpResponse:
    now = at or datetime.now(UTC)
    signed = {
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(secret).sign(event_id, now, raw.decode()),
    }
    return Client().post("/api/v1/webhooks/supplier", raw, content_type="application/json", headers={**signed, **headers})


def refused(answer: HttpResponse, reason: str, sent: Any) -> None:
    """Refused with a problem document, counted under its reason, and nothing of it is anywhere."""
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (400, "invalid", "signature"), answer.content
    assert list(WebhookRefusal.objects.values_list("reason", "count")) == [(reason, 1)]
    assert not WebhookEvent.objects.exists()
    webhooks.process_due()
    assert again(sent).state == "sending"


def test_what_the_supplier_signed_is_stored_before_it_is_answered(sent):
    assert post(order(sent)).json() == {"stored": True}
    assert WebhookEvent.objects.get().processed_at is None and again(sent).state == "sending"
    webhooks.process_due()
    assert again(sent).state == "landed"
    assert not WebhookRefusal.objects.exists()


def test_a_wrong_secret(sent):
    refused(post(order(sent), secret=ANOTHER), "signature", sent)


def test_the_same_json_written_otherwise(sent):
    raw = order(sent)
    good = post(raw)
    assert good.status_code == 200
    WebhookEvent.objects.all().delete()
    now = datetime.now(UTC)
    signature = Webhook(WEBHOOK_SECRET).sign("evt_1", now, raw.decode())
    rewritten = json.dumps(json.loads(raw), indent=1).encode()
    headers = {"webhook-id": "evt_1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature}
    refused(Client().post("/api/v1/webhooks/supplier", rewritten, content_type="application/json", headers=headers), "signature", sent)


@pytest.mark.parametrize("minutes", [-6, 6])
def test_an_old_timestamp_and_one_of_the_future(sent, minutes):
    refused(post(order(sent), at=datetime.now(UTC) + timedelta(minutes=minutes)), "time", sent)


def test_another_providers_secret_at_our_door(sent):
    """Stripe's signature over Stripe's own bytes is worth nothing at the supplier's address."""
    raw, stamp = order(sent), str(int(time.time()))
    mac = hmac.new(STRIPE_WEBHOOK_SECRET.encode(), stamp.encode() + b"." + raw, hashlib.sha256).hexdigest()
    headers = {"stripe-signature": f"t={stamp},v1={mac}"}
    answer = Client().post("/api/v1/webhooks/supplier", raw, content_type="application/json", headers=headers)
    refused(answer, "headers", sent)


def test_the_supplier_at_stripes_door(sent):
    raw, now = order(sent), datetime.now(UTC)
    headers = {
        "webhook-id": "evt_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(WEBHOOK_SECRET).sign("evt_1", now, raw.decode()),
    }
    refused(Client().post("/api/v1/webhooks/stripe", raw, content_type="application/json", headers=headers), "headers", sent)


def test_a_replay_within_the_window_is_counted_and_used_once(sent):
    raw = order(sent)
    for _ in range(3):
        assert post(raw).status_code == 200
        webhooks.process_due()
    row = WebhookEvent.objects.get()
    assert (row.received, row.used_as) == (3, "applied")
    assert again(sent).evidence.count() == 1


def test_a_replay_after_the_window_is_refused(sent):
    raw = order(sent)
    then = datetime.now(UTC) - timedelta(minutes=10)
    refused(post(raw, at=then), "time", sent)


def test_a_provider_that_we_do_not_know_is_not_there_and_counts_nothing(sent):
    answer = Client().post("/api/v1/webhooks/nobody", b"{}", content_type="application/json")
    assert answer.status_code == 404 and not WebhookRefusal.objects.exists()
