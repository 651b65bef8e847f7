"""A JSON API by configuration alone: the demo's supplier through settings, and a liar that says everything an API could."""

import copy
import dataclasses
import json
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from ledger.providers import load
from ledger.providers.base import News, Provider, ProviderConfigError, SignatureRefused
from tests.examples.simulator import Simulator, order
from tests.ledger.providers.liar import JSON, Liar, lying
from tests.ledger.providers.test_supplier import NOW, send, sought
from tests.proxy import Proxy

HERE = {"schemes": ["http"], "ports": list(range(1024, 65536)), "private_networks": ["127.0.0.0/8"]}
SECRET = "whsec_" + "bmV3LXNlY3JldA=="
SUPPLIER: dict[str, Any] = {
    "kind": "http",
    "guard": HERE,
    "timeout_s": 3,
    "object": {
        "id": "id", "state": "state", "reference": "reference", "amount": "total", "currency": "currency", "time": "accepted_at",
        "operation_id": "idempotency_key", "undone_by": "cancellation_key", "undo_id": "cancellation_id", "amount_format": "decimal",
        "states": {"accepted": "landed", "cancelled": "reversed"},
    },
    "refused": {"statuses": [400, 405, 413, 415, 422], "code": "code"},
    "actions": {
        "create_order": {
            "look": {"path": "/orders?reference={reference}", "about": "reference", "list": "orders", "complete": "always"},
            "perform": {
                "path": "/orders",
                "headers": {"Idempotency-Key": "{operation_id}", "X-Attempt": "{attempt}"},
                "body": {
                    "reference": "{reference}", "currency": "{currency}", "total": "{amount}", "lines": "{request.lines}",
                    "note": "{request.note?}",
                },
            },
        },
        "cancel_order": {
            "look": {"path": "/orders/{external_id}"},
            "compensate": {"path": "/orders/{external_id}/cancellation", "headers": {"Idempotency-Key": "{operation_id}"}, "body": {}},
            "object": {
                "id": "cancellation_id", "undoes": "id", "amount": "total", "currency": "currency",
                "time": "cancelled_at", "operation_id": "cancellation_key",
            },
        },
    },
    "webhook_secrets": [SECRET],
    "webhooks": {"kind": "type", "item": "data", "kinds": {"order.accepted": "create_order", "order.cancelled": "create_order"}},
    "capability": {"lookup": "strong", "compensable": {"create_order": "cancel_order"}},
}  # fmt: skip


def changed(config: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with another value at a/b/c; None removes it."""
    copied: dict[str, Any] = copy.deepcopy(config)
    *way, last = path.split("/")
    place = copied
    for name in way:
        place = place[name]
    if value is None:
        place.pop(last, None)
    else:
        place[last] = value
    return copied


def at(url: str, **changes: Any) -> Provider:
    config = SUPPLIER | {"url": url}
    for path, value in changes.items():
        config = changed(config, path, value)
    return load(config)


# The demo's supplier, by settings


@pytest.fixture
def configured(supplier: Simulator) -> Provider:
    return at(supplier.url)


def test_what_the_suppliers_own_adapter_does_can_be_said_in_settings(supplier: Simulator, configured: Provider) -> None:
    assert isinstance(configured, Provider) and dict(configured.capability.compensable) == {"create_order": "cancel_order"}
    assert configured.look(sought("HT-1")).outcome == "empty"
    landed = configured.perform(send("HT-1"))
    assert landed.verdict == "landed" and landed.found and landed.found.operation_id == "op-HT-1"
    assert configured.perform(send("HT-1")).found == landed.found
    look = configured.look(sought("HT-1"))
    assert look.objects == (landed.found,) and look.objects[0].amount == 12500 and look.objects[0].at
    order_id = landed.found.external_id
    undoing = sought("C-1", action="cancel_order", undoes=order_id, operation_id="undo-1")
    assert configured.look(undoing).outcome == "unreachable", "this API has no word for 'not cancelled' that could be configured"
    undone = configured.compensate(send("C-1", "cancel_order", order_id, operation_id="undo-1"))
    assert undone.verdict == "landed" and undone.found
    assert (undone.found.operation_id, undone.found.reference, undone.found.undoes) == ("undo-1", "C-1", order_id)
    assert configured.look(undoing).objects == (undone.found,)
    assert configured.look(dataclasses.replace(undoing, operation_id="undo-2")).outcome == "unreachable", "it is another one's undo"
    (reversed_,) = configured.look(sought("HT-1")).objects
    assert (reversed_.state, reversed_.undone_by, reversed_.undo_id) == ("reversed", "undo-1", undone.found.external_id)
    assert len(supplier.log("HT-1", "execution")) == len(supplier.log("HT-1", "cancellation")) == 1


@pytest.mark.parametrize(
    ("currency", "unit_price", "total", "minor"),
    [("JPY", "580", "5800", 5800), ("KWD", "1.255", "12.550", 12550), ("EUR", "0.29", "2.90", 290)],
)
def test_amounts_come_through_exact(
    supplier: Simulator, configured: Provider, currency: str, unit_price: str, total: str, minor: int
) -> None:
    supplier.place(order(f"HT-2-{currency}", currency, unit_price, 10, total))
    (found,) = configured.look(sought(f"HT-2-{currency}")).objects
    assert (found.amount, found.currency) == (minor, currency)


@pytest.mark.parametrize(
    ("mode", "verdict", "executions"),
    [
        ("pass", "landed", 1),
        ("drop_request", "unknown", 0),
        ("lose_response", "unknown", 1),
        ("hold_response", "unknown", 1),
        ("http_502", "unknown", 0),
        ("maintenance_200", "unknown", 0),
    ],
)
def test_what_the_transport_does_to_a_send_and_to_a_look(supplier: Simulator, mode: Any, verdict: str, executions: int) -> None:
    reference = f"HT-3-{mode}"
    with Proxy(supplier.url) as proxy:
        through = at(proxy.url, timeout_s=1 if mode.startswith("hold") else 5)
        proxy.arm(mode, "POST /orders$")
        assert through.perform(send(reference)).verdict == verdict
        assert len(supplier.log(reference, "execution")) == executions and len(proxy.asked("^POST")) == 1
        proxy.arm(mode, "GET /orders$")
        assert through.look(sought(reference)).outcome == ("found" if mode == "pass" else "unreachable")
        assert through.look(sought(reference)).outcome == ("found" if executions else "empty")


def test_a_send_that_was_held_up_arrives_later_and_was_unknown(supplier: Simulator) -> None:
    with Proxy(supplier.url) as proxy:
        proxy.arm("hold_request", "POST /orders$")
        assert at(proxy.url, timeout_s=0.5).perform(send("HT-4")).verdict == "unknown"
        proxy.release()
        assert supplier.wait_for("HT-4", "execution")
    assert len(supplier.log("HT-4", "arrival")) == 1


# What an answer tells


@pytest.fixture(scope="module")
def liar() -> Iterator[Liar]:
    with lying() as server:
        yield server


GOOD = {
    "id": "SO-1", "reference": "PO-1", "state": "accepted", "currency": "EUR", "total": "125.00",
    "accepted_at": "2026-11-30T12:00:00+00:00",
}  # fmt: skip


def listing(*orders: Any, **more: Any) -> dict[str, Any]:
    return {"reference": "PO-1", "orders": list(orders), **more}


@pytest.mark.parametrize(
    ("status", "media", "body", "outcome"),
    [
        (200, JSON, listing(), "empty"),
        (200, JSON, listing(GOOD), "found"),
        (200, "application/hal+json; charset=utf-8", listing(GOOD), "found"),
        (404, JSON, {"code": "not_found"}, "unreachable"),
        (404, JSON, listing(), "unreachable"),
        (204, JSON, b"", "unreachable"),
        (302, JSON, listing(), "unreachable"),
        (429, JSON, listing(), "unreachable"),
        (500, JSON, listing(), "unreachable"),
        (503, JSON, listing(GOOD), "unreachable"),
        (401, JSON, listing(), "refused_access"),
        (403, JSON, listing(), "refused_access"),
        (200, "text/html", listing(), "unreachable"),
        (200, "text/html", b"<h1>Sign in</h1>", "unreachable"),
        (200, JSON, b"<html></html>", "unreachable"),
        (200, JSON, {"status": "maintenance"}, "unreachable"),
        (200, JSON, b"", "unreachable"),
        (200, JSON, [], "unreachable"),
        (200, JSON, {}, "unreachable"),
        (200, JSON, {"orders": []}, "unreachable"),
        (200, JSON, {"reference": "PO-9", "orders": []}, "unreachable"),
        (200, JSON, {"reference": None, "orders": []}, "unreachable"),
        (200, JSON, {"reference": "PO-1", "orders": {}}, "unreachable"),
        (200, JSON, {"reference": "PO-1", "orders": None}, "unreachable"),
        (200, JSON, listing(None), "unreachable"),
        (200, JSON, listing(GOOD, GOOD | {"reference": "PO-9"}), "unreachable"),
        (200, JSON, listing(GOOD | {"reference": "PO-10"}), "unreachable"),
        (200, JSON, listing(GOOD | {"total": 125.0}), "unreachable"),
        (200, JSON, listing(GOOD | {"total": 125}), "unreachable"),
        (200, JSON, listing(GOOD | {"total": "125.001"}), "unreachable"),
        (200, JSON, listing(GOOD | {"total": "-125.00"}), "unreachable"),
        (200, JSON, listing(GOOD | {"total": "1e3"}), "unreachable"),
        (200, JSON, listing(GOOD | {"total": None}), "unreachable"),
        (200, JSON, listing(GOOD | {"currency": "JPY", "total": "125.50"}), "unreachable"),
        (200, JSON, listing(GOOD | {"currency": "JPY"}), "found"),
        (200, JSON, listing(GOOD | {"currency": "KWD", "total": "1.255"}), "found"),
        (200, JSON, listing(GOOD | {"currency": "eur"}), "unreachable"),
        (200, JSON, listing(GOOD | {"currency": "XAU"}), "unreachable"),
        (200, JSON, listing(GOOD | {"state": "teleported"}), "unreachable"),
        (200, JSON, listing(GOOD | {"state": None}), "unreachable"),
        (200, JSON, listing(GOOD | {"state": ["accepted"]}), "unreachable"),
        (200, JSON, listing(GOOD | {"id": 7}), "found"),
        (200, JSON, listing(GOOD | {"id": True}), "unreachable"),
        (200, JSON, listing(GOOD | {"id": ""}), "unreachable"),
        (200, JSON, listing(GOOD | {"id": "x" * 201}), "unreachable"),
        (200, JSON, listing(GOOD | {"id": "a\nb"}), "unreachable"),
        (200, JSON, listing(GOOD | {"id": {"is": "SO-1"}}), "unreachable"),
        (200, JSON, listing(GOOD | {"accepted_at": "yesterday"}), "found"),
        (200, JSON, b'{"reference": "PO-1", "orders": [], "x": NaN}', "unreachable"),
        (200, JSON, b"[" * 100_000, "unreachable"),
        (200, JSON, listing(" " * 1_100_000), "unreachable"),
    ],
)
def test_what_an_answer_tells(liar: Liar, status: int, media: str, body: Any, outcome: str) -> None:
    liar.say(body, status=status, media=media)
    look = at(liar.url).look(sought("PO-1"))
    assert look.outcome == outcome and bool(look.objects) == (outcome == "found")
    assert outcome in ("found", "empty") or look.detail
    assert len(liar.asked) == 1, "nothing is asked twice and no redirect is followed"


def test_several_objects_are_all_told(liar: Liar) -> None:
    liar.say(listing(GOOD, GOOD | {"id": "SO-2"}))
    assert [found.external_id for found in at(liar.url).look(sought("PO-1")).objects] == ["SO-1", "SO-2"]


def test_an_answer_that_is_cut_off_and_nobody_listening(liar: Liar) -> None:
    liar.say(listing(GOOD))
    liar.cut = True
    assert at(liar.url).look(sought("PO-1")).outcome == "unreachable"
    assert at(liar.url).perform(send("PO-1")).verdict == "unknown"
    gone = at("http://127.0.0.1:1024")
    assert (gone.look(sought("PO-1")).outcome, gone.perform(send("PO-1")).verdict) == ("unreachable", "not_sent")


def test_a_name_that_is_bound_to_a_private_address_is_not_reached(liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **more: real("127.0.0.1" if host == "api.example" else host, *rest, **more)
    )
    liar.say(listing(GOOD))
    url = liar.url.replace("127.0.0.1", "api.example")
    open_only = {"guard": {"schemes": ["http"], "ports": HERE["ports"]}}
    look, answer = at(url, **open_only).look(sought("PO-1")), at(url, **open_only).perform(send("PO-1"))
    assert (look.outcome, answer.verdict) == ("unreachable", "not_sent") and "127.0.0.1 is no public address" in look.detail
    assert liar.asked == []
    assert at(url).look(sought("PO-1")).outcome == "found"


LOOK = "actions/create_order/look"


@pytest.mark.parametrize(
    ("complete", "more", "outcome"),
    [
        ({"path": "has_more", "value": False}, {"has_more": False}, "empty"),
        ({"path": "has_more", "value": False}, {"has_more": True}, "unreachable"),
        ({"path": "has_more", "value": False}, {"has_more": 0}, "unreachable"),
        ({"path": "has_more", "value": False}, {"has_more": None}, "unreachable"),
        ({"path": "has_more", "value": False}, {}, "unreachable"),
        ({"path": "page.next", "value": None}, {"page": {"next": None}}, "empty"),
        ({"path": "page.next", "value": None}, {"page": {}}, "unreachable"),
        ({"path": "page.next", "value": None}, {"page": {"next": "/orders?page=2"}}, "unreachable"),
        ({"path": "pages", "value": 1}, {"pages": 1}, "empty"),
        ({"path": "pages", "value": 1}, {"pages": True}, "unreachable"),
        ({"path": "pages", "value": 1}, {"pages": 2}, "unreachable"),
    ],
)
def test_a_listing_is_believed_only_when_it_says_that_it_is_all(liar: Liar, complete: Any, more: Any, outcome: str) -> None:
    liar.say(listing(**more))
    provider = at(liar.url, **{f"{LOOK}/complete": complete})
    assert provider.look(sought("PO-1")).outcome == outcome
    liar.say(listing(GOOD, **more))
    assert provider.look(sought("PO-1")).outcome == ("found" if outcome == "empty" else outcome)


def paged(url: str, **options: Any) -> Provider:
    pages = {"cursor": "next", "param": "after", **options}
    return at(url, **{f"{LOOK}/complete": None, f"{LOOK}/pages": pages})


def test_pages_are_followed_to_the_last_one(liar: Liar) -> None:
    liar.say(listing(next="a&b"), listing(GOOD, next=7), listing(next=None))
    look = paged(liar.url).look(sought("PO-1"))
    assert look.outcome == "found" and len(look.objects) == 1
    base = "/orders?reference=PO-1"
    assert [path for _, path, _, _ in liar.asked] == [base, f"{base}&after=a%26b", f"{base}&after=7"]


@pytest.mark.parametrize(
    ("pages", "options", "outcome"),
    [
        ([{"next": ""}], {}, "empty"),
        ([{}], {}, "unreachable"),
        ([{}], {"missing_is_last": True}, "empty"),
        ([{"next": {"page": 2}}], {}, "unreachable"),
        ([{"next": True}], {}, "unreachable"),
        ([{"next": "x"}], {"most": 3}, "unreachable"),
        ([{"next": "x"}, {"orders": None, "next": None}], {}, "unreachable"),
        ([{"next": "x"}, {"reference": "PO-2", "next": None}], {}, "unreachable"),
    ],
)
def test_pages_that_do_not_end_are_no_information(liar: Liar, pages: list[Any], options: Any, outcome: str) -> None:
    liar.say(*[listing() | page for page in pages])
    assert paged(liar.url, **options).look(sought("PO-1")).outcome == outcome
    assert len(liar.asked) == options.get("most", len(pages))


@pytest.mark.parametrize(
    ("status", "body", "outcome"),
    [
        (200, GOOD, "found"),
        (200, GOOD | {"reference": "PO-2"}, "unreachable"),
        (200, {}, "unreachable"),
        (404, {"error": {"code": "no_such_order"}}, "empty"),
        (404, {"error": {"code": "no_such_route"}}, "unreachable"),
        (404, {"error": "no_such_order"}, "unreachable"),
        (404, {}, "unreachable"),
        (404, b"<h1>Not found</h1>", "unreachable"),
        (410, {"error": {"code": "no_such_order"}}, "unreachable"),
        (200, {"error": {"code": "no_such_order"}}, "unreachable"),
    ],
)
def test_one_object_is_absent_only_by_its_documented_word(liar: Liar, status: int, body: Any, outcome: str) -> None:
    absent = {"statuses": [404], "code": "error.code", "codes": ["no_such_order"]}
    provider = at(liar.url, **{LOOK: {"path": "/orders/by-reference/{reference}", "absent": absent}})
    liar.say(body, status=status)
    assert provider.look(sought("PO-1")).outcome == outcome


@pytest.mark.parametrize("value", [0, 12500, 125.0, "12500", True, -1, 10**15, None])
def test_minor_units_are_whole_numbers(liar: Liar, value: Any) -> None:
    liar.say(listing(GOOD | {"total": value}))
    look = at(liar.url, **{"object/amount_format": "minor"}).look(sought("PO-1"))
    assert [found.amount for found in look.objects] == ([value] if value in (0, 12500) else [])
    assert look.outcome == ("found" if look.objects else "unreachable")


@pytest.mark.parametrize("amount_format", ["minor", "decimal"])
@pytest.mark.parametrize(("currency", "minor", "decimal"), [("JPY", 5800, "5800"), ("KWD", 1255, "1.255"), ("EUR", 5, "0.05")])
def test_amounts_are_written_exactly(liar: Liar, amount_format: str, currency: str, minor: int, decimal: str) -> None:

    told = minor if amount_format == "minor" else decimal
    liar.say(GOOD | {"currency": currency, "total": told}, status=201)
    provider = at(liar.url, **{"object/amount_format": amount_format})
    answer = provider.perform(dataclasses.replace(send("PO-1", amount=minor), currency=currency))
    assert answer.verdict == "landed" and answer.found and (answer.found.amount, answer.found.currency) == (minor, currency)
    assert json.loads(liar.asked[0][3])["total"] == told


def test_the_time_may_be_seconds_and_what_is_not_told_is_none(liar: Liar) -> None:
    liar.say(listing(GOOD | {"accepted_at": 1796040000}))
    (found,) = at(liar.url).look(sought("PO-1")).objects
    assert found.at == datetime.fromtimestamp(1796040000, UTC)
    liar.say(listing(GOOD))
    (found,) = at(liar.url, **{"object/amount": None, "object/currency": None, "object/time": None}).look(sought("PO-1")).objects
    assert (found.amount, found.currency, found.at, found.operation_id) == (None, None, None, None)


# What is sent, and what came of it


@pytest.mark.parametrize(
    ("status", "body", "verdict"),
    [
        (201, GOOD, "landed"),
        (200, GOOD, "landed"),
        (202, GOOD | {"state": "queued"}, "pending"),
        (200, GOOD | {"state": "declined"}, "refused"),
        (201, GOOD | {"state": "cancelled"}, "unknown"),
        (201, GOOD | {"reference": "PO-2"}, "unknown"),
        (201, GOOD | {"state": "odd"}, "unknown"),
        (201, GOOD | {"total": 125.0}, "unknown"),
        (201, {}, "unknown"),
        (204, b"", "unknown"),
        (203, GOOD, "unknown"),
        (302, GOOD, "unknown"),
        (400, {"code": "bad"}, "refused"),
        (422, {"code": "no_stock"}, "refused"),
        (422, {"code": ""}, "unknown"),
        (422, {"message": "no"}, "unknown"),
        (422, b"<h1>no</h1>", "unknown"),
        (409, {"code": "exists"}, "unknown"),
        (401, {"code": "who"}, "unknown"),
        (404, {"code": "where"}, "unknown"),
        (500, {"code": "bad"}, "unknown"),
        (503, {"code": "bad"}, "unknown"),
    ],
)
def test_what_came_of_a_send(liar: Liar, status: int, body: Any, verdict: str) -> None:
    states = {"accepted": "landed", "cancelled": "reversed", "queued": "pending", "declined": "refused"}
    provider = at(liar.url, **{"object/states": states})
    liar.say(body, status=status)
    assert provider.perform(send("PO-1")).verdict == verdict
    assert provider.compensate(send("PO-1", "create_order", "SO-1")).verdict == "not_sent"
    assert len(liar.asked) == 1


def test_only_the_documented_codes_are_a_definite_no(liar: Liar) -> None:
    provider = at(liar.url, refused={"statuses": [409], "code": "error.code", "codes": ["limit"]})
    for code, verdict in (("limit", "refused"), ("exists", "unknown")):
        liar.say({"error": {"code": code}}, status=409)
        answer = provider.perform(send("PO-1"))
        assert answer.verdict == verdict and (verdict == "unknown" or "limit" in answer.detail)


def test_what_is_sent_is_what_the_template_says(liar: Liar, monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setenv("API_TOKEN", "t0p-secret")
    provider = at(liar.url, auth={"env": "API_TOKEN", "prefix": "Bearer "}, headers={"X-Version": "3"})
    liar.say(GOOD, status=201)
    assert provider.perform(send("PO-1")).verdict == "landed"
    ((method, path, headers, raw),) = liar.asked
    assert (method, path, headers["authorization"], headers["x-version"]) == ("POST", "/orders", "Bearer t0p-secret", "3")
    assert (headers["idempotency-key"], headers["x-attempt"]) == ("op-PO-1", "1")
    body = json.loads(raw)
    assert body == {"reference": "PO-1", "currency": "EUR", "total": "125.00", "lines": send("PO-1").request["lines"]}


HOSTILE = 'PO/1?x=1&y=2#{reference}%2e "\\\r\nX: y'


def test_no_value_becomes_structure(liar: Liar) -> None:

    liar.say(GOOD | {"reference": HOSTILE}, status=201)
    assert at(liar.url).perform(send(HOSTILE, operation_id="op-1")).verdict == "unknown", "not even an answer that is not printable"
    assert json.loads(liar.asked[0][3])["reference"] == HOSTILE
    liar.say({"reference": HOSTILE, "orders": []})
    assert at(liar.url).look(sought(HOSTILE)).outcome == "empty"
    ((_, path, headers, _),) = liar.asked
    assert path.count("?") == path.count("=") == 1 and "&" not in path and "x" not in headers
    liar.say(GOOD)
    for bad in ("op\r\nX: y", "opé", "op\0"):
        assert at(liar.url).perform(send("PO-1", operation_id=bad)).verdict == "not_sent"
    assert liar.asked == []


@pytest.mark.parametrize("reference", ["..", ".", "a/../b", "a\\..\\b", "/", "a//b"])
def test_a_value_that_leads_to_another_path_is_not_asked_for(liar: Liar, reference: str) -> None:
    absent = {"statuses": [404], "code": "code", "codes": ["none"]}
    provider = at(liar.url, **{LOOK: {"path": "/orders/{reference}", "absent": absent}})
    liar.say({"code": "none"}, status=404)
    assert provider.look(sought(reference)).outcome == "unreachable" and liar.asked == []
    assert provider.look(sought("a/b ü")).outcome == "empty" and liar.asked[0][1] == "/orders/a%2Fb%20%C3%BC"


def test_what_the_template_needs_and_the_send_has_not_is_not_sent(liar: Liar) -> None:
    provider = at(liar.url, **{"actions/create_order/perform/body/buyer": "{request.buyer.name}"})
    liar.say(GOOD)
    answer = provider.perform(send("PO-1"))
    assert (answer.verdict, answer.detail) == ("not_sent", "request.buyer.name is needed and missing.")
    assert provider.perform(send("PO-1", amount=None)).verdict == "not_sent"
    assert provider.perform(send("PO-1", "paint_order")).verdict == "not_sent"
    assert provider.look(sought("PO-1", action="paint_order")).outcome == "unreachable"
    assert provider.look(sought("PO-1", action="cancel_order")).outcome == "unreachable", "it needs the order's id"
    assert liar.asked == []


REFUND = {"id": "re_1", "payment": "SO-1", "key": "undo-1", "total": "125.00", "currency": "EUR"}
REFUNDS = {"path": "/refunds?payment={external_id}", "list": "data", "complete": "always"}
REFUND_SHAPE = {"id": "id", "undoes": "payment", "operation_id": "key", "amount": "total", "currency": "currency"}


def test_an_undo_is_ours_by_what_it_undoes_and_by_our_key(liar: Liar) -> None:
    provider = at(liar.url, **{"actions/cancel_order/object": REFUND_SHAPE, "actions/cancel_order/look": REFUNDS})
    asked = sought("C-1", action="cancel_order", undoes="SO-1", operation_id="undo-1")
    by_hand, another = REFUND | {"id": "re_2", "key": None}, REFUND | {"id": "re_3", "key": "undo-2"}
    for listed, outcome in (
        ([], "empty"), ([by_hand, another], "empty"), ([by_hand, REFUND, another], "found"),
        ([REFUND, REFUND | {"payment": "SO-2"}], "unreachable"), ([{**REFUND, "payment": None}], "unreachable"),
    ):  # fmt: skip
        liar.say({"data": listed})
        look = provider.look(asked)
        assert look.outcome == outcome and [found.external_id for found in look.objects] == ["re_1"] * (outcome == "found")
    assert liar.asked[0][1] == "/refunds?payment=SO-1"
    undo = send("C-1", "cancel_order", "SO-1", operation_id="undo-1")
    for answer, verdict in ((REFUND, "landed"), (REFUND | {"payment": "SO-2"}, "unknown"), (another, "unknown"), (by_hand, "landed")):
        liar.say(answer)
        done = provider.compensate(undo)
        assert done.verdict == verdict and (verdict == "unknown" or (done.found and done.found.reference == "C-1"))


def test_an_undo_that_carries_our_reference_is_ours_by_it(liar: Liar) -> None:
    shape = {"id": "id", "undoes": "payment", "reference": "meta.ref"}
    provider = at(liar.url, **{"actions/cancel_order/object": shape, "actions/cancel_order/look": REFUNDS})
    asked = sought("C-1", action="cancel_order", undoes="SO-1")
    liar.say({"data": [REFUND | {"meta": {"ref": "C-1"}}, REFUND | {"id": "re_2", "meta": {"ref": "C-2"}}]})
    assert [found.external_id for found in provider.look(asked).objects] == ["re_1"]


# Webhooks


def signed(raw: bytes, secret: str = SECRET) -> dict[str, str]:
    signature = Webhook(secret).sign("evt_1", NOW, raw.decode())
    return {"webhook-id": "evt_1", "webhook-timestamp": str(int(NOW.timestamp())), "webhook-signature": signature}


@pytest.mark.parametrize(
    ("event", "reads"),
    [
        ({"type": "order.accepted", "data": GOOD | {"idempotency_key": "op-1"}}, "landed"),
        ({"type": "order.cancelled", "data": GOOD | {"state": "cancelled"}}, "reversed"),
        ({"type": "order.painted", "data": GOOD}, None),
        ({"type": "order.accepted", "data": GOOD | {"total": 1.5}}, None),
        ({"type": "order.accepted"}, None),
        ({"type": 7, "data": GOOD}, None),
    ],
)
def test_events_are_read_as_configured(event: dict[str, Any], reads: str | None) -> None:

    raw = json.dumps(event).encode()
    news: News = at("http://127.0.0.1:1024").read_webhook(signed(raw), raw, NOW)
    assert (news.event_id, news.found.state if news.found else None, news.reference) == ("evt_1", reads, "PO-1" if reads else None)
    with pytest.raises(SignatureRefused):
        at("http://127.0.0.1:1024").read_webhook(signed(raw), raw + b" ", NOW)
    with pytest.raises(SignatureRefused):
        at("http://127.0.0.1:1024", webhook_secrets=[]).read_webhook(signed(raw), raw, NOW)


# Settings


@pytest.mark.parametrize(
    ("path", "value", "names"),
    [
        ("url", None, "url"),
        ("url", "ftp://127.0.0.1:2000", "url: ftp"),
        ("url", "http://me:it@127.0.0.1:2000", "url"),
        ("url", "http://127.0.0.1:80", "guard.ports"),
        ("url", "http://127.0.0.1:2000/?a=1", "url"),
        ("url", "http://127.0.0.1:2000/{reference}", "url"),
        ("guard", {}, "url: http: only https"),
        ("guard/networks", [], "guard.networks"),
        ("timeout_s", 0, "timeout_s"),
        ("timeout_s", "5", "timeout_s"),
        ("ca_file", "/no/such/file", "ca_file"),
        ("colour", "red", "colour"),
        ("auth", {}, "auth: env"),
        ("auth", {"env": "NOT_SET"}, "NOT_SET"),
        ("auth", {"env": "PATH", "header": "a b"}, "auth: header"),
        ("headers", {"X\r\n": "y"}, "headers"),
        ("headers", {"X": "a\r\nb"}, "headers: X"),
        ("headers", {"X": "{operation_id}"}, "headers: X"),
        ("object", None, "object"),
        ("object/reference", None, "object: reference"),
        ("object/currency", None, "object: currency"),
        ("object/states", None, "object: states"),
        ("object/state", None, "object: states"),
        ("object/states", {"ok": "done"}, "states.ok"),
        ("object/amount_format", "cents", "amount_format"),
        ("object/id", "a..b", "object: id"),
        ("object/id", 7, "object: id"),
        ("object/colour", "x", "colour"),
        ("refused/statuses", [500], "refused: statuses"),
        ("refused/statuses", [200], "refused: statuses"),
        ("refused/statuses", [], "refused: statuses"),
        ("refused/statuses", [409], "409 alone"),
        ("refused/codes", "x", "refused: codes"),
        ("refused", {"statuses": [409], "codes": ["x"]}, "refused: code"),
        ("actions", {}, "actions"),
        ("actions/create_order", [], "actions.create_order"),
        ("actions/create_order/perform/path", "orders", "path"),
        ("actions/create_order/perform/path", "//evil.example/x", "path"),
        ("actions/create_order/perform/path", "/a/../b", "path"),
        ("actions/create_order/perform/path", "/a b", "path"),
        ("actions/create_order/perform/path", "/a#b", "path"),
        ("actions/create_order/perform/path", "/{tenant}", "tenant"),
        ("actions/create_order/perform/path", "/{reference", "brace"),
        ("actions/create_order/perform/method", "GET", "method"),
        ("actions/create_order/perform/body", [], "body"),
        ("actions/create_order/perform/body", {"x": "1"}, "reference"),
        ("actions/create_order/perform/body/note", "{request.note?} please", "request.note"),
        ("actions/create_order/perform/headers", None, "operation_id"),
        ("actions/create_order/perform/headers", {"X": "{reference}"}, "reference"),
        ("actions/create_order/perform/landed", [302], "landed"),
        ("actions/create_order/perform/item", "a b", "item"),
        ("actions/create_order/look/path", "/orders", "must be asked|asked for"),
        ("actions/create_order/look/path", "/orders?x={amount}", "amount"),
        ("actions/create_order/look/complete", None, "complete"),
        ("actions/create_order/look/complete", {"path": "x"}, "complete: value"),
        ("actions/create_order/look/complete", {"value": True}, "complete: path"),
        ("actions/create_order/look/pages", {"cursor": "x", "param": "y"}, "complete"),
        ("actions/create_order/look/list", None, "list"),
        ("actions/create_order/look/absent", {"statuses": [404]}, "absent"),
        ("actions/create_order/compensate", {"path": "/x"}, "external_id"),
        ("actions/cancel_order/look/absent", {"statuses": [404]}, "codes"),
        ("actions/cancel_order/compensate/path", "/x", "external_id"),
        ("webhook_secrets", ["whsec_"], "webhook_secrets"),
        ("webhook_secrets", "whsec_x", "webhook_secrets"),
        ("webhooks", {}, "kinds"),
        ("webhooks/kinds", {"x": "paint"}, "kinds.x"),
        ("actions/create_order/object", {"id": "id", "undoes": "x"}, "object: reference"),
        ("actions/cancel_order/object", {"id": "id", "undoes": "x"}, "our undo from another"),
        ("capability", {}, "capability.lookup"),
        ("capability/lookup", "none", "capability.lookup"),
        ("capability/lookup", "sometimes", "capability.lookup"),
        ("capability/compensable", {"create_order": "create_order"}, "compensable"),
        ("capability/lookup_url", "javascript:x", "lookup_url"),
    ],
)  # fmt: skip
def test_a_setting_that_cannot_work_is_named_at_once(path: str, value: Any, names: str) -> None:
    with pytest.raises(ProviderConfigError, match=names):
        load(changed(SUPPLIER | {"url": "http://127.0.0.1:2000"}, path, value))


def test_lookups_are_promised_only_with_a_look() -> None:
    config = changed(changed(SUPPLIER | {"url": "http://127.0.0.1:2000"}, LOOK, None), "actions/cancel_order/look", None)
    with pytest.raises(ProviderConfigError, match="no action says how to look"):
        load(config)
    assert load(changed(config, "capability", {"compensable": {"create_order": "cancel_order"}})).capability.lookup == "none"


def test_the_documented_example_is_one_that_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANK_API_TOKEN", "token")
    text = (Path(__file__).parents[3] / "docs" / "providers.md").read_text("utf-8")
    (block,) = [block for block in text.split("```json\n") if '"kind": "http"' in block]
    (config,) = json.loads(block.partition("```")[0]).values()
    capability = load(config).capability
    assert (capability.lookup, dict(capability.compensable)) == ("eventual", {"create_transfer": "recall_transfer"})
