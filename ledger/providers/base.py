"""The words shared by every provider adapter: what it can do, what is looked for, and what a look or a webhook says.

Adapters report; they never decide. An adapter that is not sure says *unreachable* (no information), never *empty*.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

_HOUR_S, _DAY_S = 3600.0, 86400.0
DEFAULT_LOOK_SCHEDULE_S: tuple[float, ...] = (
    30, 120, 600, _HOUR_S, 6 * _HOUR_S, _DAY_S, 2 * _DAY_S, 3 * _DAY_S, 4 * _DAY_S, 5 * _DAY_S,
)  # fmt: skip
LOOK_JITTER = 0.10
"""Each look is due at its time of the schedule, give or take this share."""
BODY_EXCERPT_BYTES = 4096


class ProviderConfigError(ValueError):
    """The configuration of a provider is wrong; the message names the setting and the remedy."""


class SignatureRefused(Exception):
    """A webhook is not believed: wrong or missing signature, outside the time window, or not what was signed.

    `reason` is what refusals are counted by: signature, headers, time or content.
    """

    def __init__(self, message: str, reason: Literal["signature", "headers", "time", "content"] = "signature") -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Capability:
    """What a provider promises, from its documentation; all times are seconds. When unsure, promise less."""

    lookup: Literal["strong", "eventual", "by_id", "none"]
    lookup_lag_s: float = 0.0
    """How long after an execution a lookup may still miss it (`eventual`)."""
    idempotency_window_s: float | None = None
    """How long after the first send an equal key is honoured; None: never relied upon."""
    reference_unique: bool = False
    """The provider itself refuses a second object under one reference."""
    max_in_flight_s: float = 60.0
    """How long after the last written byte something may still be executed."""
    final_within_s: float | None = None
    """An accepted object is final after this time; None: at once."""
    enforces_deadline: bool = False
    """The provider refuses to execute after a deadline that we put in the request."""
    cleanup_ok: frozenset[str] = frozenset()
    """Actions that a cleanup may perform without an approval."""
    cleanable: frozenset[str] = frozenset()
    """Actions whose objects a cleanup may remove."""
    compensable: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Action → the action that undoes it."""
    partly_compensable: frozenset[str] = frozenset()
    """Actions of which a part can be undone, several times."""
    irreversible: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Action → why it can never be undone and what a person can do instead, said before anybody asks."""
    undo_visible_days: int | None = None
    """Customers may see an undo only after so many days."""
    look_schedule_s: tuple[float, ...] = DEFAULT_LOOK_SCHEDULE_S
    """When to look, in seconds since the doubt began, ascending."""
    look_spacing_s: float = 30.0
    """Two empty looks count only when this far apart."""
    person_after_s: float = _HOUR_S
    """Unknown for so long while the provider answers: a case opens."""
    person_after_unreachable_s: float = _DAY_S
    """Unknown for so long while it does not answer: a grouped case opens."""
    rate_per_s: float = 10.0
    """Looks per second over all workers, at most."""
    after_absent: Literal["ask", "resend"] = "ask"
    lookup_url: str = ""
    """Where a person looks it up; {reference} and {external_id} are filled in, percent-encoded. Empty: nowhere."""

    def __post_init__(self) -> None:
        times = self.look_schedule_s
        if any(later <= earlier for earlier, later in zip(times, times[1:], strict=False)) or any(t < 0 for t in times):
            raise ProviderConfigError("look_schedule_s: seconds since the doubt began, each later than the one before.")
        if self.lookup != "none" and not times:
            raise ProviderConfigError("look_schedule_s: at least one look is needed, or lookup 'none'.")
        if self.rate_per_s <= 0:
            raise ProviderConfigError("rate_per_s: more than 0.")

    def with_settings(self, settings: Mapping[str, Any]) -> "Capability":
        """This record with some fields replaced from configuration (JSON types); ProviderConfigError otherwise."""
        known = {f.name: getattr(self, f.name) for f in fields(self)}
        return replace(self, **{name: _setting(name, value, known) for name, value in settings.items()})


_CHOICES = {"lookup": {"strong", "eventual", "by_id", "none"}, "after_absent": {"ask", "resend"}}
_MAY_BE_NONE = {"idempotency_window_s", "final_within_s", "undo_visible_days"}


def _setting(name: str, value: Any, known: Mapping[str, Any]) -> Any:
    """One configured value in the type of its field."""
    if name not in known:
        raise ProviderConfigError(f"capability.{name} is not a setting. Known: {', '.join(sorted(known))}.")
    old = known[name]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if value is None and name in _MAY_BE_NONE:
        return None
    if isinstance(old, bool) and isinstance(value, bool):
        return value
    if name in _CHOICES and value in _CHOICES[name]:
        return value
    if name == "undo_visible_days" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if name.endswith("_s") and not isinstance(old, tuple) and number and value >= 0:
        return float(value)
    if isinstance(old, tuple) and _is_list(value, int | float):
        return tuple(float(v) for v in value)
    if isinstance(old, frozenset) and _is_list(value, str):
        return frozenset(value)
    if isinstance(old, Mapping) and isinstance(value, Mapping):
        return MappingProxyType({str(k): str(v) for k, v in value.items()})
    if name == "lookup_url" and isinstance(value, str):
        return value
    raise ProviderConfigError(f"capability.{name}: {value!r} does not fit; by default it is {old!r}.")


def _is_list(value: Any, kind: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(v, kind) and not isinstance(v, bool) for v in value)


@dataclass(frozen=True, slots=True)
class Sought:
    """The effect that a look is about. `amount` is in minor units of `currency` (ISO 4217); None: it has none.

    `undoes`: it undoes the object with this id of the provider; what is found is the undo, under our own `provider_reference`.
    """

    provider_reference: str
    operation_id: str
    external_id: str | None
    action: str
    amount: int | None
    currency: str | None
    sent_at: datetime
    undoes: str | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """One object at the provider. `amount` is in minor units; `at` is the provider's own clock.

    `operation_id` and `undone_by` (who undid it) are set only when the provider hands back the keys that we sent; `undo_id` is the
    provider's id of that undo. `undone_amount`, in minor units: how much of a landed object has been undone so far, by whomever (all of
    it: it reads reversed); None: not told. An undo as an object of its own names in `undoes` the object that it undoes.
    """

    external_id: str
    state: Literal["landed", "pending", "refused", "reversed"]
    amount: int | None
    currency: str | None
    reference: str
    at: datetime | None
    operation_id: str | None = None
    undone_by: str | None = None
    undone_amount: int | None = None
    undo_id: str | None = None
    undoes: str | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What went over the wire, for evidence: `body` is a redacted excerpt, `body_sha256` is over the raw bytes."""

    http_status: int | None = None
    body: str = ""
    body_sha256: str = ""
    request_id: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """One answer to one question. `found` and `empty` are information; the other two say nothing about the effect.

    `refused_access` (401, 403) asks for a person at once: our own access is broken.
    """

    outcome: Literal["found", "empty", "unreachable", "refused_access"]
    objects: tuple[Found, ...] = ()
    http_status: int | None = None
    body: str = ""
    body_sha256: str = ""
    request_id: str | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class News:
    """One webhook, believed but not yet judged. `kind` is the provider's word; `found` None: it tells nothing."""

    event_id: str
    kind: str
    operation_id: str | None
    reference: str | None
    found: Found | None


@dataclass(frozen=True, slots=True)
class Send:
    """One authorised send from the server. `external_id` names the object to undo; `amount` is in minor units."""

    operation_id: str
    provider_reference: str
    action: str
    amount: int | None
    currency: str | None
    request: Mapping[str, Any]
    external_id: str | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one send. Only a clear yes is `landed`, only a definite no is `refused`; doubt is `unknown`."""

    verdict: Literal["landed", "refused", "pending", "unknown", "not_sent"]
    found: Found | None = None
    http_status: int | None = None
    body: str = ""
    body_sha256: str = ""
    request_id: str | None = None
    detail: str = ""


@runtime_checkable
class Provider(Protocol):
    """What an adapter is. It is safe for threads and for processes that fork after it was made. It retries nothing."""

    @property
    def kind(self) -> str: ...

    @property
    def capability(self) -> Capability: ...

    def look(self, sought: Sought) -> Look:
        """Ask the provider about one effect. Never raises for anything the provider does; doubt is `unreachable`."""

    def perform(self, send: Send) -> Answer:
        """Do one authorised action, once. Never raises for anything the provider does; doubt is `unknown`."""

    def compensate(self, send: Send) -> Answer:
        """Undo `send.external_id` by `send.action`, once. As `perform`."""

    def read_webhook(self, headers: Mapping[str, str], raw: bytes, now: datetime) -> News:
        """Verify the signature over the raw bytes, within a time window around `now` (aware); or SignatureRefused."""
