"""The supplier's adapter: what each kind of answer tells us, against the real simulator and against a liar."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ledger.providers import load
from ledger.providers.base import BODY_EXCERPT_BYTES, Provider, Send, Sought
from tests.examples.simulator import Simulator, order

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def sought(reference: str, amount: int | None = 12500, currency: str = "EUR", **change: Any) -> Sought:
    return Sought(
        provider_reference=reference, operation_id=change.get("operation_id", "op-1"), external_id=None,
        action=change.get("action", "create_order"), amount=amount, currency=currency, sent_at=NOW, undoes=change.get("undoes"),
    )  # fmt: skip


def send(reference: str, action: str = "create_order", external_id: str | None = None, **change: Any) -> Send:
    lines = [{"sku": "BRG-6204-2RS", "quantity": 10, "unit_price": "12.50"}]
    return Send(
        operation_id=change.get("operation_id", f"op-{reference}"), provider_reference=reference, action=action,
        amount=change.get("amount", 12500), currency="EUR", request={"lines": lines, "supplier": "Kugel & Sohn"},
        external_id=external_id,
    )  # fmt: skip


@pytest.fixture
def provider(supplier: Simulator) -> Provider:
    return load({"kind": "supplier", "url": supplier.url, "timeout_s": 3})


def test_it_is_a_provider(provider: Provider) -> None:
    assert isinstance(provider, Provider)


def test_empty_then_found_with_its_key_and_time(supplier: Simulator, provider: Provider) -> None:
    assert provider.look(sought("PO-1")).outcome == "empty"
    placed = supplier.place(order("PO-1"), "op-1").json()
    look = provider.look(sought("PO-1"))
    (found,) = look.objects
    assert (look.outcome, look.http_status, len(look.body_sha256)) == ("found", 200, 64)
    assert (found.external_id, found.state, found.amount, found.currency) == (placed["id"], "landed", 12500, "EUR")
    assert (found.reference, found.operation_id) == ("PO-1", "op-1")
    assert found.at == datetime.fromisoformat(placed["accepted_at"])


def test_every_object_under_the_reference_is_found(supplier: Simulator, provider: Provider) -> None:
    for key in ("a", "b"):
        supplier.place(order("PO-2"), key)
    assert len(provider.look(sought("PO-2")).objects) == 2


def test_a_later_occurrence_is_another_reference(supplier: Simulator, provider: Provider) -> None:
    supplier.place(order("PO-3#2"))
    assert provider.look(sought("PO-3")).outcome == "empty"
    assert provider.look(sought("PO-3#2")).outcome == "found"


@pytest.mark.parametrize(
    ("currency", "unit_price", "total", "minor"),
    [("JPY", "580", "5800", 5800), ("KWD", "1.255", "12.550", 12550), ("EUR", "0.29", "2.90", 290)],
)
def test_amounts_come_through_exact(
    supplier: Simulator, provider: Provider, currency: str, unit_price: str, total: str, minor: int
) -> None:
    supplier.place(order(f"PO-4-{currency}", currency, unit_price, 10, total))
    (found,) = provider.look(sought(f"PO-4-{currency}")).objects
    assert (found.amount, found.currency) == (minor, currency)


@pytest.mark.parametrize(
    ("point", "outcome", "status"),
    [
        ("lookup_down", "unreachable", 503),
        ("lookup_unauthorized", "refused_access", 401),
        ("lookup_html", "unreachable", 200),
        ("lookup_wrong_object", "unreachable", 200),
        ("http_502", "unreachable", 502),
        ("maintenance_200", "unreachable", 200),
    ],
)
def test_a_supplier_in_trouble_gives_no_information(supplier: Simulator, provider: Provider, point: str, outcome: str, status: int) -> None:
    supplier.control(point, on=["look"])
    for reference in ("PO-5-NONE", "PO-5"):
        if reference == "PO-5":
            supplier.place(order("PO-5"), "op-5")
        look = provider.look(sought(reference))
        assert (look.outcome, look.http_status, look.objects) == (outcome, status, ())
        assert look.detail


def test_nobody_listening_gives_no_information() -> None:
    look = load({"kind": "supplier", "url": "http://127.0.0.1:1"}).look(sought("PO-6"))
    assert (look.outcome, look.http_status) == ("unreachable", None)


def test_an_order_the_supplier_undid_reads_reversed(supplier: Simulator, provider: Provider) -> None:
    placed = supplier.place(order("PO-7"), "op-7").json()
    supplier.http.post(f"/orders/{placed['id']}/cancellation", headers={"Idempotency-Key": "undo-7"})
    (found,) = provider.look(sought("PO-7")).objects
    assert (found.state, found.operation_id, found.undone_by) == ("reversed", "op-7", "undo-7")


def test_perform_lands_once_and_compensate_undoes_it(supplier: Simulator, provider: Provider) -> None:
    landed = provider.perform(send("PO-8"))
    assert landed.verdict == "landed" and landed.found and landed.found.amount == 12500
    assert provider.perform(send("PO-8")).found == landed.found
    order_id = landed.found.external_id
    asked = sought("PO-8", action="cancel_order", undoes=order_id, operation_id="undo-8")
    assert provider.look(asked).outcome == "empty"
    undone = provider.compensate(send("PO-8", "cancel_order", order_id, operation_id="undo-8"))
    assert undone.verdict == "landed" and undone.found
    (found,) = provider.look(asked).objects
    assert found == undone.found
    assert (found.state, found.operation_id, found.amount) == ("landed", "undo-8", 12500)
    assert len(supplier.log("PO-8", "execution")) == len(supplier.log("PO-8", "cancellation")) == 1
    (other,) = provider.look(replace(asked, operation_id="undo-9")).objects
    assert (other.state, other.external_id) == ("refused", ""), "somebody else cancelled it, so this undo can't happen any more"
    (found,) = provider.look(replace(asked, provider_reference="C-8")).objects
    assert found.reference == "C-8", "it is found under the reference of whoever asked for it"


@pytest.mark.parametrize(
    ("point", "verdict"),
    [("refuse", "refused"), ("http_502", "unknown"), ("maintenance_200", "unknown"), ("drop_response", "unknown")],
)
def test_perform_calls_only_a_definite_no_refused(supplier: Simulator, provider: Provider, point: str, verdict: str) -> None:
    supplier.control(point, on=["create", "cancel"])
    assert provider.perform(send(f"PO-9-{point}")).verdict == verdict
    supplier.http.post("/reset")
    placed = supplier.place(order(f"PO-10-{point}")).json()
    supplier.control(point, on=["create", "cancel"])
    assert provider.compensate(send(f"PO-10-{point}", "cancel_order", placed["id"])).verdict == verdict


def test_perform_that_times_out_is_unknown_and_never_sent_twice(supplier: Simulator) -> None:
    supplier.control("before_accept", until_released=True, commit_after_client_gone=True, reference="PO-11")
    hasty = load({"kind": "supplier", "url": supplier.url, "timeout_s": 0.3})
    assert hasty.perform(send("PO-11")).verdict == "unknown"
    supplier.release()
    supplier.wait_for("PO-11", "execution")
    assert len(supplier.log("PO-11", "arrival")) == 1


def test_perform_without_a_connection_was_not_sent() -> None:
    answer = load({"kind": "supplier", "url": "http://127.0.0.1:1"}).perform(send("PO-12"))
    assert answer.verdict == "not_sent"


class Liar(ThreadingHTTPServer):
    """Answers every GET with whatever the test put in `answer`: status, content type, body."""

    answer: tuple[int, str, bytes] = (200, "application/json", b"{}")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _LiarHandler)


class _LiarHandler(BaseHTTPRequestHandler):
    server: Liar

    def do_GET(self) -> None:
        status, media, body = self.server.answer
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("location", "/orders")
        self.send_header("x-request-id", "req-77")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture(scope="module")
def liar() -> Iterator[Liar]:
    with Liar() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture
def deceived(liar: Liar) -> Provider:
    return load({"kind": "supplier", "url": f"http://127.0.0.1:{liar.server_address[1]}", "timeout_s": 3})


GOOD = (
    b'{"id": "SO-1", "reference": "PO-1", "state": "accepted", "currency": "EUR", "total": "125.00",'
    b' "accepted_at": "2026-11-30T12:00:00+00:00"}'
)
JSON = "application/json"


def listing(one: bytes) -> bytes:
    return b'{"reference": "PO-1", "orders": [' + one + b"]}"


@pytest.mark.parametrize(
    ("status", "media", "body", "outcome"),
    [
        (200, JSON, listing(b""), "empty"),
        (200, JSON, listing(GOOD), "found"),
        (200, "application/vnd.supplier+json; charset=utf-8", listing(GOOD), "found"),
        (404, JSON, b'{"code": "not_found"}', "unreachable"),
        (404, JSON, listing(b""), "unreachable"),
        (302, JSON, listing(b""), "unreachable"),
        (429, JSON, listing(b""), "unreachable"),
        (500, JSON, listing(b""), "unreachable"),
        (403, JSON, listing(b""), "refused_access"),
        (200, "text/html", listing(b""), "unreachable"),
        (200, JSON, b"<html></html>", "unreachable"),
        (200, JSON, b"", "unreachable"),
        (200, JSON, b"[]", "unreachable"),
        (200, JSON, b"{}", "unreachable"),
        (200, JSON, b'{"orders": []}', "unreachable"),
        (200, JSON, b'{"reference": "PO-9", "orders": []}', "unreachable"),
        (200, JSON, b'{"reference": "PO-1", "orders": {}}', "unreachable"),
        (200, JSON, listing(b"null"), "unreachable"),
        (200, JSON, listing(GOOD + b"," + GOOD.replace(b"PO-1", b"PO-9")), "unreachable"),
        (200, JSON, listing(GOOD.replace(b'"125.00"', b"125.00")), "unreachable"),
        (200, JSON, listing(GOOD.replace(b"125.00", b"125.001")), "unreachable"),
        (200, JSON, listing(GOOD.replace(b"125.00", b"-125.00")), "unreachable"),
        (200, JSON, listing(GOOD.replace(b"125.00", b"1e3")), "unreachable"),
        (200, JSON, listing(GOOD.replace(b"EUR", b"JPY")), "found"),
        (200, JSON, listing(GOOD.replace(b"EUR", b"JPY").replace(b"125.00", b"125.50")), "unreachable"),
        (200, JSON, listing(GOOD.replace(b"EUR", b"eur")), "unreachable"),
        (200, JSON, listing(GOOD.replace(b"EUR", b"XAU")), "unreachable"),
        (200, JSON, listing(GOOD.replace(b'"accepted"', b'"teleported"')), "unreachable"),
        (200, JSON, listing(GOOD.replace(b'"SO-1"', b"7")), "unreachable"),
        (200, JSON, b'{"reference": "PO-1", "orders": [], "x": NaN}', "unreachable"),
        (200, JSON, b"[" * 100_000, "unreachable"),
        (200, JSON, listing(b" " * 1_100_000), "unreachable"),
    ],
)
def test_what_an_answer_tells(liar: Liar, deceived: Provider, status: int, media: str, body: bytes, outcome: str) -> None:
    liar.answer = (status, media, body)
    look = deceived.look(sought("PO-1"))
    assert look.outcome == outcome
    assert bool(look.objects) == (outcome == "found")


def test_a_cancellation_is_looked_for_by_the_order_that_was_asked_for(liar: Liar, deceived: Provider) -> None:
    asked = sought("PO-1", action="cancel_order", undoes="SO-1")
    cases = {
        "empty": GOOD,
        "found": GOOD.replace(b'"accepted"', b'"cancelled"').replace(b"{", b'{"cancellation_id": "SC-1",'),
        "unreachable": GOOD.replace(b"SO-1", b"SO-2"),
    }
    for outcome, body in cases.items():
        liar.answer = (200, JSON, body)
        assert deceived.look(asked).outcome == outcome
    liar.answer = (404, JSON, b'{"code": "not_found"}')
    assert deceived.look(asked).outcome == "unreachable"


def test_what_is_kept_of_a_body_is_short_and_without_secrets(liar: Liar, deceived: Provider) -> None:
    secret = GOOD.replace(b"{", b'{"contact_email": "a@example.org", "api_key": "sk_live", "note": "' + b"\xc3\xa9" * 9000 + b'",')
    liar.answer = (200, JSON, listing(secret))
    look = deceived.look(sought("PO-1"))
    assert look.outcome == "found" and look.request_id == "req-77"
    assert len(look.body.encode()) <= BODY_EXCERPT_BYTES
    assert "example.org" not in look.body and "sk_live" not in look.body and "[redacted]" in look.body
