"""A provider that lives in memory and says what a test tells it to say, for looks. Real sockets are tested with the adapters."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from django.conf import settings
from django.db import connection

from ledger import catalogue
from ledger.providers.base import Answer, Capability, Found, Look, News, Send, SignatureRefused, Sought

FAKE = "fake"
QUICK = Capability(
    lookup="strong",
    max_in_flight_s=10,
    look_schedule_s=(5, 15, 45, 120, 600, 3600),
    look_spacing_s=10,
    idempotency_window_s=86400,
    rate_per_s=1000,
    person_after_s=3600,
    person_after_unreachable_s=86400,
)
EMPTY = Look("empty", http_status=200, body="[]")
DOWN = Look("unreachable", detail="connection refused")
DENIED = Look("refused_access", http_status=401, detail="401")

Answering = Callable[[Sought], Look]


def found(sought: Sought, state: str = "landed", external_id: str = "S-1", **values: Any) -> Look:
    """The object that was sought, as the provider would list it."""
    one = {"external_id": external_id, "state": state, "amount": sought.amount, "currency": sought.currency}
    return Look("found", (Found(**(one | {"reference": sought.provider_reference, "at": None} | values)),), http_status=200)  # type: ignore[arg-type]


@dataclass
class FakeProvider:
    """Implements `ledger.providers.base.Provider`. `answer` is one answer for everything; `answers` says one by reference."""

    capability: Capability = QUICK
    kind: str = "fake"
    answer: Look | Answering = EMPTY
    answers: dict[str, Look | Answering] = field(default_factory=dict)
    asked: list[Sought] = field(default_factory=list)
    while_asked: Callable[[Sought], None] | None = None
    """Called in the middle of a look: what happens while the provider is being asked."""
    undo_answer: Answer | Callable[[Send], Answer] | None = None
    """What it says to an undo; by default that nobody may undo anything here."""
    undone: list[Send] = field(default_factory=list)
    """Every undo that reached it."""

    def look(self, sought: Sought) -> Look:
        self.asked.append(sought)
        if self.while_asked is not None:
            self.while_asked(sought)
        answer = self.answers.get(sought.provider_reference, self.answer)
        return answer(sought) if callable(answer) else answer

    def perform(self, send: Send) -> Answer:
        raise AssertionError("nothing here may send")

    def compensate(self, send: Send) -> Answer:
        assert self.undo_answer is not None, "nothing here may send"
        assert not connection.in_atomic_block, "nobody asks a provider inside a transaction"
        self.undone.append(send)
        return self.undo_answer(send) if callable(self.undo_answer) else self.undo_answer

    def read_webhook(self, headers: Mapping[str, str], raw: bytes, now: datetime) -> News:
        if headers.get("signature") != "good":
            raise SignatureRefused("wrong signature")
        told = json.loads(raw)
        one = told.get("found")
        return News(
            event_id=told["id"],
            kind=told.get("kind", "order.changed"),
            operation_id=told.get("operation_id"),
            reference=told.get("reference"),
            found=Found(**({"external_id": "S-1", "amount": None, "currency": None, "reference": "", "at": None} | one)) if one else None,
        )

    def promise(self, **values: Any) -> None:
        """Change what the provider promises."""
        self.capability = self.capability.with_settings(values)


def refunds(send: Send) -> Answer:
    """The undo was done, and its object is named after its operation."""
    undo = Found(f"RF-{send.operation_id[:8]}", "landed", send.amount, send.currency, send.provider_reference, None, send.operation_id)
    return Answer("landed", undo, http_status=200, body="{}")


def webhook(state: str | None, op: uuid.UUID | None = None, event_id: str = "", reference: str | None = None, **values: Any) -> bytes:
    """The body of a webhook that the fake believes (with the header `signature: good`)."""
    told: dict[str, Any] = {"id": event_id or uuid.uuid4().hex, "operation_id": str(op) if op else None, "reference": reference}
    if state:
        told["found"] = {"state": state, "reference": reference or ""} | values
    return json.dumps(told).encode()


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeProvider]:
    """A provider under the name `fake`, through the catalogue like any other."""
    provider = FakeProvider()
    load = catalogue.load
    monkeypatch.setattr(catalogue, "load", lambda config: config["it"] if config.get("kind") == "fake" else load(config))
    monkeypatch.setitem(settings.PROVIDERS, FAKE, {"kind": "fake", "it": provider})
    catalogue.forget()
    yield provider
    catalogue.forget()


@pytest.fixture(autouse=True)
def loud_sweeps(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A sweep logs what it could not handle and goes on; in a test that is a failure, unless the test expects it (`caplog.clear()`)."""
    yield
    failed = [record for record in caplog.get_records("call") if record.name == "runs.sweeps"]
    assert not failed, failed[0].exc_text or failed[0].getMessage()
