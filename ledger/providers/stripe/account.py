"""One Stripe account: requests are written by the official SDK and go out over one bounded exchange each.

What comes back is not read from the SDK's objects but from the answer itself, so that nothing is believed but Stripe's documented shape.
"""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import stripe

from ledger.providers.base import Seen
from ledger.providers.stripe.objects import NotUnderstood, named, outline
from ledger.providers.wire import Exchange, Wire, excerpt

stripe.enable_telemetry = False  # it tells of this machine, and keeps an id in a file of the user's
logging.getLogger("stripe").setLevel(logging.WARNING)  # below, it writes down every request, with its body

PAGE_SIZE = 100
LISTING_S_MAX = 30.0
Thing = dict[str, Any]
Call = Callable[..., object]
"""Calls one service of the SDK: the first argument is `StripeClient.v1`."""


class NoInformation(Exception):
    """The answer says nothing of what was asked; the message says why, `seen` what came."""

    def __init__(self, why: str, seen: Seen) -> None:
        super().__init__(why)
        self.seen = seen


@dataclass(frozen=True)
class Listing:
    """What a listing that was read to its end holds of ours; `seen` is the page that decides, without other people's objects."""

    things: tuple[Thing, ...]
    seen: Seen


class _Answered(Exception):
    """Leaves the SDK with the answer, before it could interpret or repeat anything."""

    def __init__(self, exchange: Exchange) -> None:
        super().__init__(exchange.status)
        self.exchange = exchange


class _OverWire(stripe.HTTPClient):
    """The SDK's own port for transports, with ours in it: no redirect, no socket shared over a fork, a time and a size limit."""

    name = "countermand"

    def __init__(self, wire: Wire) -> None:
        super().__init__()
        self._wire = wire

    def request(self, method: str, url: str, headers: Mapping[str, str] | None, post_data: Any = None, **options: Any) -> Any:
        raise _Answered(self._wire.exchange(method.upper(), url, content=post_data, headers=headers))


class Account:
    """Safe for threads and for processes that fork. `timeout_s` bounds one whole exchange."""

    def __init__(self, api_key: str, api_base: str, *, timeout_s: float) -> None:
        self._client = stripe.StripeClient(
            api_key,
            base_addresses={"api": api_base},
            max_network_retries=0,  # the SDK by itself would send up to three times
            http_client=_OverWire(Wire(api_base, timeout_s=timeout_s)),
        )

    def ask(self, call: Call, *given: object) -> Exchange:
        """Send one request. NothingLeft or NoAnswer when there is no whole answer."""
        try:
            call(self._client.v1, *given)
        except _Answered as answered:
            return answered.exchange
        raise AssertionError("the SDK returned without having sent anything")

    def fetch(self, kind: str, thing_id: str, call: Call) -> Thing:
        """The one object that was asked for. NothingLeft, NoAnswer, NoInformation."""
        exchange = self.ask(call)
        try:
            thing = named(_information(exchange), kind)
            if thing["id"] != thing_id:
                raise NotUnderstood(f"asked for {thing_id}, answered with {thing['id']}")
        except NotUnderstood as error:
            raise NoInformation(str(error), exchange.seen) from None
        return thing

    def find(self, path: str, kind: str, page: Call, wanted: Callable[[Thing], bool], since: float) -> Listing:
        """What is wanted in the listing at `path`, read to its end, or newest first back to `since` (Unix time).

        NothingLeft, NoAnswer; NoInformation when one page of it is not Stripe's, or there are more than can be read.
        """
        until = time.monotonic() + LISTING_S_MAX
        found: list[Thing] = []
        seen_ids: set[str] = set()
        deciding: Seen | None = None
        newest_first, last = True, float("inf")
        params: Thing = {"limit": PAGE_SIZE}
        while True:
            exchange = self.ask(page, dict(params))
            try:
                things, has_more = _page(exchange, path, kind)
                if has_more and (not things or not seen_ids.isdisjoint(thing["id"] for thing in things)):
                    raise NotUnderstood("a listing that does not come to an end")
                if has_more and time.monotonic() > until:
                    raise NotUnderstood(f"not read to its end in {LISTING_S_MAX:g} s: more than {len(seen_ids)} objects")
            except NotUnderstood as error:
                raise NoInformation(str(error), exchange.seen) from None
            ours = [thing for thing in things if wanted(thing)]
            found += ours
            deciding = exchange.seen if deciding is None or ours else deciding
            seen_ids.update(thing["id"] for thing in things)
            for thing in things:
                newest_first, last = newest_first and thing["created"] <= last, thing["created"]
            if not has_more or (newest_first and last < since):
                body = excerpt(b"", {"data": [outline(thing) for thing in found]})
                detail = f"{len(found)} of {len(seen_ids)} objects at {path} are of this reference"
                return Listing(tuple(found), replace(deciding, body=body, detail=detail))
            params["starting_after"] = things[-1]["id"]


def _page(exchange: Exchange, path: str, kind: str) -> tuple[list[Thing], bool]:
    """The objects of a page and whether there are more, if this is Stripe's list of exactly that path; NotUnderstood."""
    answer = _information(exchange)
    things, has_more = answer.get("data"), answer.get("has_more")
    if answer.get("object") != "list" or not isinstance(things, list) or not isinstance(has_more, bool):
        raise NotUnderstood("HTTP 200, but not one of Stripe's lists")
    if answer.get("url") != path:
        raise NotUnderstood(f"asked for {path}, answered about {repr(answer.get('url'))[:100]}")
    return [named(thing, kind) for thing in things], has_more


def _information(exchange: Exchange) -> Thing:
    """The JSON object of a 200; NotUnderstood."""
    if exchange.status in (401, 403):
        raise NotUnderstood(f"HTTP {exchange.status}: our access is refused")
    if exchange.status != 200:
        raise NotUnderstood(f"HTTP {exchange.status}")
    if exchange.json is None:
        raise NotUnderstood("HTTP 200, but the body is not a JSON object")
    return exchange.json
