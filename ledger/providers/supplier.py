"""The demo's supplier: orders by reference over JSON, its own cancellation as the undo, Standard Webhooks.

"Empty" is believed only of its own documented listing shape, naming the reference that was asked for.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from ledger.providers import standard_webhooks
from ledger.providers.base import Answer, Capability, Found, Look, News, ProviderConfigError, Seen, Send, Sought
from ledger.providers.money import BadAmount, decimal_text, minor_units
from ledger.providers.wire import Exchange, NoAnswer, NothingLeft, Wire

_DAY_S = 86400.0
CAPABILITY = Capability(
    lookup="strong",
    idempotency_window_s=30 * _DAY_S,
    max_in_flight_s=10,
    compensable=MappingProxyType({"create_order": "cancel_order"}),
    look_schedule_s=(
        5, 15, 45, 120, 600, 3600, 21600, _DAY_S, 2 * _DAY_S, 3 * _DAY_S, 4 * _DAY_S, 5 * _DAY_S,
    ),
    look_spacing_s=10,
    rate_per_s=50,
    after_absent="resend",
)  # fmt: skip
_SETTINGS = {"kind", "name", "url", "timeout_s", "webhook_secrets", "capability"}
_DEFINITE_NO = {400, 405, 413, 415, 422}
_STATES = {"accepted": "landed", "cancelled": "reversed"}


class _NotUnderstood(Exception):
    """The answer is not about what was asked, or not in the supplier's documented shape."""


class Supplier:
    """Settings: `url`, `timeout_s` (a whole exchange, 5), `webhook_secrets` (up to two), `capability` (overrides)."""

    kind = "supplier"

    def __init__(self, config: Mapping[str, Any]) -> None:
        if unknown := sorted(set(config) - _SETTINGS):
            raise ProviderConfigError(f"supplier: unknown setting {', '.join(unknown)}. Known: {', '.join(sorted(_SETTINGS))}.")
        url = config.get("url")
        if not isinstance(url, str) or not url.startswith(("http://", "https://")):
            raise ProviderConfigError("supplier: url is needed, http:// or https://.")
        capability = {"lookup_url": f"{url.rstrip('/')}/orders?reference={{reference}}", **config.get("capability", {})}
        self.capability = CAPABILITY.with_settings(capability)
        timeout_s = config.get("timeout_s", 5)
        if not isinstance(timeout_s, int | float) or isinstance(timeout_s, bool) or timeout_s <= 0:
            raise ProviderConfigError("supplier: timeout_s is a number of seconds, more than 0.")
        self._wire = Wire(url, timeout_s=timeout_s)
        self._signers = standard_webhooks.signers(config.get("webhook_secrets", ()))

    def look(self, sought: Sought) -> Look:
        """Ask by reference for an order, by id for its cancellation; anything odd is no information."""
        try:
            if sought.action == "create_order":
                return self._look_for_order(sought)
            if sought.action == "cancel_order" and sought.undoes:
                return self._look_for_cancellation(sought, sought.undoes)
        except (NothingLeft, NoAnswer) as error:
            return Look("unreachable", detail=str(error))
        return Look("unreachable", detail=f"The supplier cannot be asked about {sought.action} without an order id.")

    def _look_for_order(self, sought: Sought) -> Look:
        reference = sought.provider_reference
        exchange = self._wire.exchange("GET", "/orders", params={"reference": reference})
        if no_information := _no_information(exchange):
            return no_information
        try:
            objects = _listing(exchange.json or {}, reference)
        except (_NotUnderstood, BadAmount) as error:
            return _look("unreachable", exchange.seen, detail=str(error))
        return _look("found" if objects else "empty", exchange.seen, objects)

    def _look_for_cancellation(self, sought: Sought, order_id: str) -> Look:
        exchange = self._wire.exchange("GET", f"/orders/{quote(order_id, safe='')}")
        if no_information := _no_information(exchange):
            return no_information
        try:
            order = _object(exchange.json)
            if order.external_id != order_id:
                raise _NotUnderstood(f"asked for {order_id}, answered with {order.external_id}")
            undo = _asked_for(sought, _cancellation(exchange.json or {}, order)) if order.state == "reversed" else None
        except (_NotUnderstood, BadAmount) as error:
            return _look("unreachable", exchange.seen, detail=str(error))
        return _look("found" if undo else "empty", exchange.seen, (undo,) if undo else ())

    def perform(self, send: Send) -> Answer:
        """`create_order`: place it, once, under the operation id as idempotency key."""
        if send.action != "create_order" or send.amount is None or send.currency is None:
            return Answer("not_sent", detail="The supplier performs create_order, with an amount and a currency.")
        reference, currency = send.provider_reference, send.currency
        try:
            body = {"reference": reference, "currency": currency, "total": decimal_text(send.amount, currency)}
        except BadAmount as error:
            return Answer("not_sent", detail=str(error))
        body |= {name: send.request[name] for name in ("lines", "note") if name in send.request}
        return self._send("/orders", body, send, lambda answer: _same_reference(_object(answer), reference))

    def compensate(self, send: Send) -> Answer:
        """`cancel_order`: the supplier's own undo of one whole order."""
        if send.action != "cancel_order" or not send.external_id:
            return Answer("not_sent", detail="The supplier undoes an order by cancel_order, with the order's id.")
        path = f"/orders/{quote(send.external_id, safe='')}/cancellation"
        return self._send(path, {}, send, lambda answer: _cancelled(answer, send.external_id))

    def _send(self, path: str, body: Mapping[str, Any], send: Send, read: Any) -> Answer:
        headers = {"Idempotency-Key": send.operation_id, "X-Attempt": str(send.attempt)}
        try:
            exchange = self._wire.exchange("POST", path, body=body, headers=headers)
        except NothingLeft as error:
            return Answer("not_sent", detail=str(error))
        except NoAnswer as error:
            return Answer("unknown", detail=str(error))
        seen = asdict(exchange.seen)
        if exchange.status in _DEFINITE_NO and exchange.json is not None and "code" in exchange.json:
            return Answer("refused", **{**seen, "detail": str(exchange.json.get("detail", ""))[:500]})
        if exchange.status not in (200, 201):
            return Answer("unknown", **{**seen, "detail": f"HTTP {exchange.status}"})
        try:
            return Answer("landed", read(exchange.json), **seen)
        except (_NotUnderstood, BadAmount) as error:
            return Answer("unknown", **{**seen, "detail": str(error)})

    def read_webhook(self, headers: Mapping[str, str], raw: bytes, now: datetime) -> News:
        """Verify, then read order.accepted and order.cancelled; other kinds carry nothing. SignatureRefused."""
        event_id, body = standard_webhooks.verified(self._signers, headers, raw, now)
        kind = str(body.get("type", ""))[:100]
        found = None
        if kind in ("order.accepted", "order.cancelled"):
            try:
                found = _object(body.get("data"))
            except (_NotUnderstood, BadAmount):
                found = None
        if found is None:
            return News(event_id, kind, None, None, None)
        return News(event_id, kind, found.operation_id, found.reference, found)


def _look(outcome: Any, seen: Seen, objects: tuple[Found, ...] = (), *, detail: str = "") -> Look:
    return Look(outcome, objects, **{**asdict(seen), "detail": detail or seen.detail})


def _no_information(exchange: Exchange) -> Look | None:
    """Everything but a 200 with a JSON object, a 404 included: the listing never answers 404."""
    if exchange.status in (401, 403):
        return _look("refused_access", exchange.seen, detail=f"HTTP {exchange.status}: our access is refused")
    if exchange.status != 200:
        return _look("unreachable", exchange.seen, detail=f"HTTP {exchange.status}")
    if exchange.json is None:
        return _look("unreachable", exchange.seen, detail="HTTP 200, but the body is not a JSON object")
    return None


def _listing(answer: Mapping[str, Any], reference: str) -> tuple[Found, ...]:
    orders = answer.get("orders")
    if answer.get("reference") != reference or not isinstance(orders, list):
        raise _NotUnderstood("the listing does not say that it is about the reference that was asked for")
    return tuple(_same_reference(_object(order), reference) for order in orders)


def _same_reference(found: Found, reference: str) -> Found:
    if found.reference != reference:
        raise _NotUnderstood(f"asked about {reference}, answered about {found.reference}")
    return found


def _object(order: Any) -> Found:
    """One order in the supplier's documented shape, or _NotUnderstood / BadAmount."""
    if not isinstance(order, dict):
        raise _NotUnderstood("an order is not an object")
    texts = {name: order.get(name) for name in ("id", "reference", "state", "currency", "accepted_at")}
    if wrong := [name for name, value in texts.items() if not isinstance(value, str) or not value]:
        raise _NotUnderstood(f"an order has no {', '.join(wrong)}")
    if order["state"] not in _STATES:
        raise _NotUnderstood(f"an order is in the unknown state {order['state']!r}")
    cancelled = order["state"] == "cancelled"
    return Found(
        external_id=order["id"],
        state=_STATES[order["state"]],  # type: ignore[arg-type]
        amount=minor_units(order.get("total"), order["currency"]),
        currency=order["currency"],
        reference=order["reference"],
        at=_moment(order.get("cancelled_at") if cancelled else order["accepted_at"]),
        operation_id=_text(order.get("idempotency_key")),
        undone_by=_text(order.get("cancellation_key")) if cancelled else None,
        undo_id=_text(order.get("cancellation_id")) if cancelled else None,
    )


def _cancellation(answer: Mapping[str, Any], order: Found) -> Found:
    """The cancellation of `order` as an object of its own: what an undo made, for the whole amount."""
    undo_id = _text(answer.get("cancellation_id"))
    if undo_id is None:
        raise _NotUnderstood("a cancelled order has no cancellation_id")
    return Found(undo_id, "landed", order.amount, order.currency, order.reference, order.at, order.undone_by, undoes=order.external_id)


def _asked_for(sought: Sought, undo: Found) -> Found:
    """The cancellation as an answer to what is sought: one under another key is somebody else's, and ours can't happen any more."""
    if undo.operation_id in (None, sought.operation_id):
        return replace(undo, reference=sought.provider_reference)
    return replace(undo, reference=sought.provider_reference, external_id="", state="refused", operation_id=None)


def _cancelled(answer: Any, order_id: str | None) -> Found:
    order = _object(answer)
    if order.external_id != order_id or order.state != "reversed":
        raise _NotUnderstood(f"asked to cancel {order_id}, answered with {order.external_id} {answer.get('state')}")
    return _cancellation(answer, order)


def _moment(value: Any) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return at if at is not None and at.tzinfo is not None else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
