"""What Stripe's objects say of an effect of ours, read strictly from their documented shapes.

Our ids travel in the metadata: Stripe copies a payment's metadata to its charge, and gives a refund only what we put there.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

from ledger.providers.base import Found
from ledger.providers.stripe.amounts import from_stripe

REFERENCE, OPERATION = "countermand_reference", "countermand_operation"
IDENTIFIER = re.compile(r"\w{1,200}", re.ASCII)
_TEXT_MAX = 200
State = Literal["landed", "pending", "refused", "reversed"]


class NotUnderstood(Exception):
    """The answer is not about what was asked, or not in Stripe's documented shape."""


def metadata(reference: str, operation_id: str) -> dict[str, str]:
    """The metadata by which a payment or refund is found again."""
    return {REFERENCE: reference, OPERATION: operation_id}


def named(thing: Any, kind: str) -> dict[str, Any]:
    """`thing` as one of Stripe's objects of that kind, or NotUnderstood."""
    if not isinstance(thing, dict) or thing.get("object") != kind:
        raise NotUnderstood(f"not a {kind}")
    if not isinstance(thing.get("id"), str) or not IDENTIFIER.fullmatch(thing["id"]) or not isinstance(thing.get("metadata"), dict):
        raise NotUnderstood(f"a {kind} without id and metadata")
    if not isinstance(thing.get("created"), int) or isinstance(thing["created"], bool):
        raise NotUnderstood(f"a {kind} without a time")
    return thing


def reference_of(thing: Mapping[str, Any]) -> str:
    """Our reference in an object's metadata; '' when it is none of ours."""
    return _text(thing["metadata"].get(REFERENCE)) or ""


def payment(thing: Any) -> Found:
    """A payment intent. Its charge says how much was refunded where it is expanded. NotUnderstood, BadAmount."""
    intent = named(thing, "payment_intent")
    charge = intent.get("latest_charge")
    state = _payment_state(intent)
    received = intent.get("amount_received") if state == "landed" else None
    amount, currency = from_stripe(intent.get("amount") if received is None else received, intent.get("currency"))
    undone = None
    if state == "landed" and isinstance(charge, dict):
        undone, state = _undone(named(charge, "charge"), state)
    return _found(intent, intent["id"], state, amount, currency, undone)


def _payment_state(intent: Mapping[str, Any]) -> State:
    status = intent.get("status")
    if status == "succeeded":
        return "landed"
    if status == "canceled":
        return "refused"
    if status == "requires_payment_method":  # a declined one goes back to this status; a new one has never been tried
        return "refused" if intent.get("last_payment_error") else "pending"
    if status in ("processing", "requires_action", "requires_capture", "requires_confirmation"):
        return "pending"
    raise NotUnderstood(f"a payment in the unknown status {status!r}")


def charged(thing: Any) -> Found | None:
    """A charge, as the payment that it is part of; None when it does not decide that payment. NotUnderstood, BadAmount."""
    charge = named(thing, "charge")
    status, intent = charge.get("status"), _text(charge.get("payment_intent"))
    if status not in ("succeeded", "pending", "failed"):
        raise NotUnderstood(f"a charge in the unknown status {status!r}")
    if status == "failed" and intent:
        return None  # a payment may be tried again by another charge: what became of it, it says itself
    state: State = "refused" if status == "failed" else "landed" if status == "succeeded" and charge.get("captured") is True else "pending"
    captured = charge.get("amount_captured") if state == "landed" else None
    amount, currency = from_stripe(charge.get("amount") if captured is None else captured, charge.get("currency"))
    undone = None
    if state == "landed":
        undone, state = _undone(charge, state)
    return _found(charge, intent or charge["id"], state, amount, currency, undone)


def _undone(charge: Mapping[str, Any], state: State) -> tuple[int, State]:
    """How much of a charge was refunded, and what that makes of its payment."""
    if not isinstance(charge.get("refunded"), bool):
        raise NotUnderstood("a charge does not say whether it was refunded")
    undone, _ = from_stripe(charge.get("amount_refunded"), charge.get("currency"))
    return undone, "reversed" if charge["refunded"] else state


def refund(thing: Any) -> Found:
    """A refund. One that had gone out and came back reads reversed, one that never went out reads refused. NotUnderstood, BadAmount."""
    given = named(thing, "refund")
    amount, currency = from_stripe(given.get("amount"), given.get("currency"))
    status = given.get("status")
    state: State
    if status == "succeeded":
        state = "landed"
    elif status in ("pending", "requires_action"):
        state = "pending"
    elif status in ("failed", "canceled"):
        state = "reversed" if given.get("balance_transaction") or given.get("failure_balance_transaction") else "refused"
    else:
        raise NotUnderstood(f"a refund in the unknown status {status!r}")
    return _found(given, given["id"], state, amount, currency, None)


def _found(thing: Mapping[str, Any], external_id: str, state: State, amount: int, currency: str, undone: int | None) -> Found:
    try:
        created = datetime.fromtimestamp(thing["created"], UTC)
    except (OverflowError, ValueError, OSError):
        raise NotUnderstood("a time that is none") from None
    operation = _text(thing["metadata"].get(OPERATION))
    at = None if state == "reversed" else created  # when it was undone, the object does not say
    return Found(external_id, state, amount, currency, reference_of(thing), at, operation, undone_amount=undone)


def outline(thing: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an object that decide, for evidence: nothing of the customer."""
    kept = {name: thing.get(name) for name in _DECIDING if name in thing}
    kept["metadata"] = {name: thing["metadata"].get(name) for name in (REFERENCE, OPERATION) if name in thing["metadata"]}
    if isinstance(thing.get("latest_charge"), dict):
        kept["latest_charge"] = {name: thing["latest_charge"].get(name) for name in _DECIDING if name in thing["latest_charge"]}
    return kept


_DECIDING = (
    "id", "object", "status", "amount", "amount_received", "amount_captured", "amount_refunded", "refunded", "captured", "currency",
    "created", "charge", "payment_intent", "failure_reason", "failure_balance_transaction", "livemode",
)  # fmt: skip


def _text(value: Any) -> str | None:
    """A text that can be one of our ids: short, and nothing in it that could not be shown or stored."""
    return value if isinstance(value, str) and 0 < len(value) <= _TEXT_MAX and value.isprintable() else None
