"""The adapter: what we ask of Stripe, what counts as a definite no, and which of its events we read.

Actions: `create_payment` takes a payment at once (a payment intent that is confirmed as it is made); `create_refund` gives money back as
an agent's own effect (`request: {"payment": "pi_…"}`); `refund_payment` undoes a payment, wholly or in part, as an approved compensation.
Our reference and operation id travel as metadata, the operation id also as idempotency key. A worker that sends for itself
must do the same, see `docs/providers.md`: what is not in the metadata is never found again.
"""

import ipaddress
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from ledger.providers.base import Answer, Capability, Found, Look, News, ProviderConfigError, Seen, Send, SignatureRefused, Sought
from ledger.providers.money import BadAmount
from ledger.providers.stripe import signature
from ledger.providers.stripe.account import Account, Call, Listing, NoInformation, Thing
from ledger.providers.stripe.asking import CannotAsk, definite_no, own_refund_params, payment_params, refund_params
from ledger.providers.stripe.objects import IDENTIFIER, NotUnderstood, charged, payment, reference_of, refund
from ledger.providers.wire import NoAnswer, NothingLeft

_DAY_S = 86400.0
CAPABILITY = Capability(
    # Search is documented as up to a minute behind, an hour at worst. Of listings nothing is promised; they are read from the same store
    # as the objects, and a minute costs little.
    lookup="eventual",
    lookup_lag_s=60,
    # "Idempotent requests": keys can be removed once they are at least 24 hours old.
    idempotency_window_s=_DAY_S,
    # Not documented. The SDK gives up waiting after 80 s.
    max_in_flight_s=300,
    # Bank debits and refunds to banks are decided within days, at most two weeks.
    final_within_s=14 * _DAY_S,
    compensable=MappingProxyType({"create_payment": "refund_payment"}),
    partly_compensable=frozenset({"create_payment"}),
    undo_visible_days=10,  # "5-10 business days" until customers see a refund
    irreversible=MappingProxyType({"create_refund": "Money that was given back cannot be taken again without its owner: ask the customer"}),
    # 25 requests a second in a sandbox, 100 live; a look may need several.
    rate_per_s=5,
    after_absent="ask",
)
API_BASE = "https://api.stripe.com"
CLOCKS_APART_S = 3600.0
"""How much older than our send an object may look that the send made."""
_SETTINGS = {"kind", "name", "api_key", "api_base", "timeout_s", "webhook_secrets", "capability"}
_READERS: dict[str, Callable[[Any], Found | None]] = {"payment_intent": payment, "charge": charged, "refund": refund}


class Stripe:
    """Settings: `api_key` (sk_… or rk_…), `api_base` (Stripe's), `timeout_s` (a whole exchange, 20), `webhook_secrets` (up to two),
    `capability` (overrides)."""

    kind = "stripe"

    def __init__(self, config: Mapping[str, Any]) -> None:
        if unknown := sorted(set(config) - _SETTINGS):
            raise ProviderConfigError(f"stripe: unknown setting {', '.join(unknown)}. Known: {', '.join(sorted(_SETTINGS))}.")
        key = config.get("api_key")
        if not isinstance(key, str) or not key.startswith(("sk_", "rk_")) or not key.isascii() or not key.isprintable():
            raise ProviderConfigError("stripe: api_key is needed, a secret (sk_…) or restricted (rk_…) key.")
        timeout_s = config.get("timeout_s", 20)
        if not isinstance(timeout_s, int | float) or isinstance(timeout_s, bool) or timeout_s <= 0:
            raise ProviderConfigError("stripe: timeout_s is a number of seconds, more than 0.")
        mode = "" if key.startswith(("sk_live_", "rk_live_")) else "test/"
        capability = {"lookup_url": f"https://dashboard.stripe.com/{mode}search?query={{reference}}", **config.get("capability", {})}
        self.capability = CAPABILITY.with_settings(capability)
        self._account = Account(key, _api_base(config.get("api_base", API_BASE)), timeout_s=timeout_s)
        self._keys = signature.keys(config.get("webhook_secrets", ()))

    # Looking --------------------------------------------------------------------------------------------------------

    def look(self, sought: Sought) -> Look:
        """All payments (or refunds) under the reference, by listing to the end; anything odd on the way is no information."""
        try:
            if sought.action == "create_payment":
                listing = self._payments(sought)
                found = [self._as_it_stands(thing) for thing in listing.things]
            elif sought.action in ("create_refund", "refund_payment"):
                listing = self._refunds(sought)
                found = [refund(thing) for thing in listing.things]
            else:
                return Look("unreachable", detail=f"Stripe is not asked about {sought.action}.")
        except (NothingLeft, NoAnswer) as error:
            return Look("unreachable", detail=str(error))
        except NoInformation as error:
            outcome = "refused_access" if error.seen.http_status in (401, 403) else "unreachable"
            return _look(outcome, error.seen, detail=str(error))
        except (NotUnderstood, BadAmount) as error:
            return _look("unreachable", listing.seen, detail=str(error))
        # An earlier try under this reference that was declined says nothing of this one.
        ours = tuple(one for one in found if one.state != "refused" or one.operation_id == sought.operation_id)
        return _look("found" if ours else "empty", listing.seen, ours)

    def _payments(self, sought: Sought) -> Listing:
        return self._account.find("/v1/payment_intents", "payment_intent", _list_payments, *_ours(sought))

    def _as_it_stands(self, thing: Thing) -> Found:
        """A payment with its charge, which alone says whether it was refunded."""
        if thing.get("status") == "succeeded" and not isinstance(thing.get("latest_charge"), dict):
            pi, expand = thing["id"], {"expand": ["latest_charge"]}
            whole = self._account.fetch("payment_intent", pi, lambda v1: v1.payment_intents.retrieve(pi, expand))
            if not isinstance(whole.get("latest_charge"), dict) or reference_of(whole) != reference_of(thing):
                raise NotUnderstood(f"{pi} was asked for with its charge, and came without it or as another's")
            thing = whole
        return payment(thing)

    def _refunds(self, sought: Sought) -> Listing:
        """Of the payment, where it is known, else of all: a refund is ours by its metadata alone."""
        of = sought.undoes or sought.external_id or ""
        name = {"pi_": "payment_intent", "ch_": "charge"}.get(of[:3])
        narrowed = {name: of} if name else {}

        def page(v1: Any, params: Thing) -> object:
            return v1.refunds.list(params | narrowed)

        listing = self._account.find("/v1/refunds", "refund", page, *_ours(sought))
        if name and any(thing.get(name) not in (of, None) for thing in listing.things):
            raise NoInformation(f"asked about refunds of {of}, answered about another's", listing.seen)
        return listing

    # Sending --------------------------------------------------------------------------------------------------------

    def perform(self, send: Send) -> Answer:
        """`create_payment` or `create_refund`, once, under the operation id as idempotency key."""
        try:
            if send.action == "create_payment":
                return self._send(send, _create_payment, payment_params(send), payment)
            if send.action == "create_refund":
                return self._send(send, _create_refund, own_refund_params(send), refund)
        except (CannotAsk, BadAmount) as error:
            return Answer("not_sent", detail=str(error))
        return Answer("not_sent", detail="Stripe performs create_payment and create_refund.")

    def compensate(self, send: Send) -> Answer:
        """`refund_payment`: give back `amount` of the payment or charge `external_id`. That it is not too much, others have seen to."""
        if send.action != "refund_payment":
            return Answer("not_sent", detail="Stripe undoes a payment by refund_payment.")
        try:
            return self._send(send, _create_refund, refund_params(send, send.external_id), refund)
        except (CannotAsk, BadAmount) as error:
            return Answer("not_sent", detail=str(error))

    def _send(self, send: Send, call: Call, params: Thing, read: Callable[[Any], Found]) -> Answer:
        try:
            exchange = self._account.ask(call, params, {"idempotency_key": send.operation_id})
        except NothingLeft as error:
            return Answer("not_sent", detail=str(error))
        except NoAnswer as error:
            return Answer("unknown", detail=str(error))
        seen = asdict(exchange.seen)
        if (why := definite_no(exchange)) is not None:
            return Answer("refused", **{**seen, "detail": why})
        if exchange.status != 200:
            return Answer("unknown", **{**seen, "detail": f"HTTP {exchange.status}"})
        try:
            found = read(exchange.json)
        except (NotUnderstood, BadAmount) as error:
            return Answer("unknown", **{**seen, "detail": str(error)})
        if found.reference != send.provider_reference:
            return Answer(
                "unknown",
                **{**seen, "detail": f"asked for {send.provider_reference}, answered about {found.reference or 'nothing of ours'}"},
            )
        if found.state == "reversed":  # done and undone before we heard of it: a look tells the whole story
            return Answer("unknown", **{**seen, "detail": "it was undone at once"})
        return Answer(found.state, found, **seen)

    # Hearing --------------------------------------------------------------------------------------------------------

    def read_webhook(self, headers: Mapping[str, str], raw: bytes, now: datetime) -> News:
        """Verify, then read payments, their charges and refunds; what is not ours by its metadata carries nothing. SignatureRefused.

        A refund that somebody makes in Stripe's dashboard has no metadata: the payment's charge tells of it (`charge.refunded`).
        """
        signature.verify(self._keys, headers, raw, now)
        try:
            event = json.loads(raw)
        except (ValueError, RecursionError):
            event = None
        event_id = event.get("id") if isinstance(event, dict) and event.get("object") == "event" else None
        if not isinstance(event_id, str) or not IDENTIFIER.fullmatch(event_id):
            raise SignatureRefused("The signed body is not one of Stripe's events.", "content")
        kind = "".join(c for c in str(event.get("type", ""))[:100] if c.isprintable())
        found = _told(event)
        if found is None or not found.reference:
            return News(event_id, kind, None, None, None)
        return News(event_id, kind, found.operation_id, found.reference, found)


def _list_payments(v1: Any, params: Thing) -> object:
    return v1.payment_intents.list(params)


def _create_payment(v1: Any, params: Thing, options: Thing) -> object:
    return v1.payment_intents.create(params, options)


def _create_refund(v1: Any, params: Thing, options: Thing) -> object:
    return v1.refunds.create(params, options)


def _told(event: Thing) -> Found | None:
    data = event.get("data")
    thing = data.get("object") if isinstance(data, dict) else None
    reader = _READERS.get(str(thing.get("object"))) if isinstance(thing, dict) else None
    try:
        return reader(thing) if reader else None
    except (NotUnderstood, BadAmount):
        return None


def _api_base(url: object) -> str:
    """An address that keys may be sent to: encrypted, or on this machine."""
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or not parts.hostname or parts.scheme not in ("https", "http") or parts.query or parts.fragment:
        raise ProviderConfigError("stripe: api_base is an address, https://….")
    if parts.scheme == "http" and not _here(parts.hostname):
        raise ProviderConfigError("stripe: api_base must be https://, unless it is on this machine: the key is sent to it.")
    return parts.geturl().rstrip("/")


def _here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _ours(sought: Sought) -> tuple[Callable[[Thing], bool], float]:
    """Which objects of a listing are wanted, and how far back they can be."""
    return lambda thing: reference_of(thing) == sought.provider_reference, sought.sent_at.timestamp() - CLOCKS_APART_S


def _look(outcome: Any, seen: Seen, objects: tuple[Found, ...] = (), *, detail: str = "") -> Look:
    return Look(outcome, objects, **{**asdict(seen), "detail": detail or seen.detail})
