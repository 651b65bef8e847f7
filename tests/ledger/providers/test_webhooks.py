"""Which webhooks the supplier's adapter believes, and what it reads in them."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from standardwebhooks import Webhook

from ledger.providers import load
from ledger.providers.base import News, ProviderConfigError, SignatureRefused

NEW, OLD, OTHER = ("whsec_" + text for text in ("bmV3LXNlY3JldA==", "b2xkLXNlY3JldA==", "b3RoZXItc2VjcmV0"))
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)
PROVIDER = load({"kind": "supplier", "url": "http://127.0.0.1:1", "webhook_secrets": [NEW, OLD]})
ORDER = {
    "id": "SO-1", "reference": "PO-1", "state": "accepted", "currency": "KWD", "total": "1.255",
    "idempotency_key": "op-1", "accepted_at": "2026-11-30T12:00:00+00:00",
}  # fmt: skip


def event(kind: str = "order.accepted", data: Any = ORDER) -> bytes:
    return json.dumps({"type": kind, "timestamp": AT.isoformat(), "data": data}).encode()


def signed(raw: bytes, secret: str = NEW, at: datetime = AT) -> dict[str, str]:
    return {
        "Webhook-Id": "evt_1", "Webhook-Timestamp": str(int(at.timestamp())),
        "Webhook-Signature": Webhook(secret).sign("evt_1", at, raw.decode()),
    }  # fmt: skip


def read(raw: bytes, headers: dict[str, str], now: datetime = AT) -> News:
    return PROVIDER.read_webhook(headers, raw, now)


@pytest.mark.parametrize("secret", [NEW, OLD])
def test_either_live_secret_is_believed(secret: str) -> None:
    news = read(event(), signed(event(), secret))
    assert (news.event_id, news.kind, news.operation_id, news.reference) == ("evt_1", "order.accepted", "op-1", "PO-1")
    assert news.found and (news.found.amount, news.found.currency, news.found.state) == (1255, "KWD", "landed")


def test_a_cancelled_order_reads_reversed_by_whom() -> None:
    raw = event("order.cancelled", {**ORDER, "state": "cancelled", "cancellation_key": "undo-1"})
    news = read(raw, signed(raw))
    assert news.found and (news.found.state, news.found.undone_by, news.operation_id) == ("reversed", "undo-1", "op-1")


@pytest.mark.parametrize("age", [timedelta(minutes=4, seconds=59), timedelta(minutes=-4, seconds=-59)])
def test_the_window_is_five_minutes_by_the_callers_clock(age: timedelta) -> None:
    assert read(event(), signed(event()), AT + age).event_id == "evt_1"
    with pytest.raises(SignatureRefused, match="5 minutes"):
        read(event(), signed(event()), AT + age * 1.1)


@pytest.mark.parametrize(
    "headers",
    [
        signed(event(), OTHER),
        signed(event()) | {"Webhook-Id": "evt_2"},
        signed(event()) | {"Webhook-Timestamp": str(int(AT.timestamp()) + 1)},
        signed(event()) | {"Webhook-Timestamp": "soon"},
        signed(event()) | {"Webhook-Timestamp": "9" * 400},
        signed(event()) | {"Webhook-Signature": "v1,"},
        signed(event()) | {"Webhook-Signature": "é"},
        signed(event()) | {"Webhook-Signature": signed(event())["Webhook-Signature"].replace("v1,", "v2,")},
        {},
    ],
)
def test_anything_else_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(SignatureRefused):
        read(event(), headers)


def test_the_signature_covers_the_raw_bytes() -> None:
    again = json.dumps(json.loads(event()), separators=(",", ":")).encode()
    for changed in (again, event() + b" ", b"\xff" + event()):
        with pytest.raises(SignatureRefused):
            read(changed, signed(event()))


def test_one_of_several_signatures_is_enough() -> None:
    headers = signed(event())
    headers["Webhook-Signature"] = f"{signed(event(), OTHER)['Webhook-Signature']} {headers['Webhook-Signature']}"
    assert read(event(), headers).event_id == "evt_1"


@pytest.mark.parametrize(
    ("kind", "data"),
    [("order.shipped", ORDER), ("order.accepted", {**ORDER, "total": "1.2555"}), ("order.accepted", None), ("", [])],
)
def test_believed_but_not_understood_carries_nothing(kind: str, data: Any) -> None:
    raw = event(kind, data)
    assert read(raw, signed(raw)) == News("evt_1", kind, None, None, None)


def test_a_provider_without_a_secret_believes_nobody() -> None:
    deaf = load({"kind": "supplier", "url": "http://127.0.0.1:1"})
    with pytest.raises(SignatureRefused):
        deaf.read_webhook(signed(event()), event(), AT)


@pytest.mark.parametrize("secrets", [[NEW, OLD, OTHER], ["whsec_"], ["whsec_not base64!"]])
def test_secrets_that_cannot_be_used_are_refused_at_start(secrets: list[str]) -> None:
    with pytest.raises(ProviderConfigError):
        load({"kind": "supplier", "url": "http://127.0.0.1:1", "webhook_secrets": secrets})
