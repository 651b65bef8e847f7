"""What we write to Stripe when something is to happen, and which of its errors mean that it did not and will not."""

from collections.abc import Mapping
from typing import Any

from ledger.providers.base import Send
from ledger.providers.stripe.account import Thing
from ledger.providers.stripe.amounts import to_stripe
from ledger.providers.stripe.objects import metadata
from ledger.providers.wire import Exchange

_PAYMENT_FIELDS = {
    "customer", "payment_method", "payment_method_types", "description", "statement_descriptor", "statement_descriptor_suffix",
    "receipt_email", "off_session", "metadata",
}  # fmt: skip
_REFUND_FIELDS = {"payment", "reason"}
_REASONS = ("duplicate", "fraudulent", "requested_by_customer")
_NO_STATUSES = (400, 402, 404)
_NO_TYPES = ("invalid_request_error", "card_error")
_NO_DECISION = ("idempotency_key_in_use", "lock_timeout", "rate_limit")


class CannotAsk(Exception):
    """Stripe cannot be asked this; the message says why. Nothing was sent."""


def payment_params(send: Send) -> Thing:
    """The parameters of a payment that is taken at once. CannotAsk, BadAmount."""
    request = _only(send.request, _PAYMENT_FIELDS)
    given = request.pop("metadata", {})
    if not isinstance(given, dict):
        raise CannotAsk("metadata: an object of texts.")
    return {
        # Cards need no page to come back to; whoever wants other methods says so.
        "payment_method_types": ["card"],
        **request,
        **_money(send),
        "confirm": True,
        "metadata": given | metadata(send.provider_reference, send.operation_id),
    }


def own_refund_params(send: Send) -> Thing:
    """The parameters of a refund that a plan asks for, out of the payment that its request names. CannotAsk, BadAmount."""
    return refund_params(send, _only(send.request, _REFUND_FIELDS).get("payment"))


def refund_params(send: Send, of: object) -> Thing:
    """The parameters of a refund of `send.amount` out of the payment or charge `of`. CannotAsk, BadAmount."""
    name = {"pi_": "payment_intent", "ch_": "charge"}.get(of[:3]) if isinstance(of, str) else None
    if name is None:
        raise CannotAsk("A refund needs the id of its payment, pi_… or ch_….")
    money = _money(send)
    params = {name: of, "amount": money["amount"], "metadata": metadata(send.provider_reference, send.operation_id)}
    return params | ({"reason": send.request["reason"]} if send.request.get("reason") in _REASONS else {})


def _money(send: Send) -> Thing:
    if send.amount is None or send.currency is None:
        raise CannotAsk("Stripe moves money: an amount and a currency are needed.")
    return {"amount": to_stripe(send.amount, send.currency), "currency": send.currency.lower()}


def _only(request: Mapping[str, Any], known: set[str]) -> Thing:
    """What Stripe is asked besides the money; a field that would be dropped is refused instead."""
    if unknown := sorted(set(request) - known):
        raise CannotAsk(f"Stripe is not asked {', '.join(unknown)}. Known: {', '.join(sorted(known))}.")
    return dict(request)


def definite_no(exchange: Exchange) -> str | None:
    """Stripe's reason, when its error means that this did not happen and will not; None otherwise.

    400 and 404 are said before anything is done, 402 after the card was declined. An idempotency error is about another request,
    429 and 409 are about the moment, 5xx says nothing.
    """
    error = exchange.json.get("error") if exchange.json else None
    if exchange.status not in _NO_STATUSES or not isinstance(error, dict):
        return None
    if error.get("type") not in _NO_TYPES or error.get("code") in _NO_DECISION:
        return None
    intent = error.get("payment_intent")
    if isinstance(intent, dict) and intent.get("status") not in ("requires_payment_method", "canceled"):
        return None
    why = ": ".join(str(error[name]) for name in ("decline_code", "code", "message") if error.get(name))[:500]
    return "".join(c if c.isprintable() else " " for c in why) or f"HTTP {exchange.status}"
