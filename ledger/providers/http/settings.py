"""What can be configured about a JSON API, checked in full when the adapter is made. Every error names its setting and the remedy."""

import os
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from standardwebhooks import Webhook

from ledger.providers import standard_webhooks
from ledger.providers.base import Capability, ProviderConfigError
from ledger.providers.guard import Forbidden, Guard
from ledger.providers.http import templates
from ledger.providers.http.reading import Shape

_METHODS = ("POST", "PUT", "PATCH", "DELETE")
_STATES = ("landed", "pending", "refused", "reversed")
_NO_BY_ITSELF = frozenset({400, 402, 404, 405, 406, 410, 413, 415, 422})
_HEADER = re.compile(r"[A-Za-z0-9-]+", re.ASCII)
_PATH = re.compile(r"[^.\s]+(\.[^.\s]+)*")
_PAGES_MAX = 10


@dataclass(frozen=True)
class Code:
    """A JSON answer with one of these statuses and, at `path`, one of these words (any, when there are none)."""

    statuses: frozenset[int]
    path: str | None
    words: frozenset[str]


@dataclass(frozen=True)
class Call:
    """One thing to do: what is sent, and what answers mean yes or no. `item`: where the object stands in the answer."""

    method: str
    path: str
    body: Any
    headers: Mapping[str, str]
    item: str
    landed: frozenset[int]
    refused: Code


@dataclass(frozen=True)
class Complete:
    """How a listing says that it is all: at `path` stands exactly `value`."""

    path: str
    value: Any


@dataclass(frozen=True)
class Pages:
    """The next page is asked for with the parameter `param`, whose value stands at `cursor`; null or empty on the last page."""

    cursor: str
    param: str
    most: int
    missing_is_last: bool


@dataclass(frozen=True)
class Question:
    """How to ask about one effect: for a list (`list`), or for one object (`item`) that may be absent (`absent`)."""

    path: str
    headers: Mapping[str, str]
    about: str | None
    item: str
    list: str | None
    complete: Complete | None
    pages: Pages | None
    absent: Code | None


@dataclass(frozen=True)
class Action:
    """One action: how it is done (or undone), how it is looked for, and how its object reads."""

    perform: Call | None
    compensate: Call | None
    look: Question | None
    shape: Shape


@dataclass(frozen=True)
class Events:
    """Webhooks (Standard Webhooks): where the kind and the object stand, and which action's shape reads which kind."""

    signers: tuple[Webhook, ...]
    kind: str
    item: str
    kinds: Mapping[str, str]


@dataclass(frozen=True)
class Api:
    """Everything that the adapter knows of a provider."""

    url: str
    timeout_s: float
    guard: Guard
    tls: ssl.SSLContext | None
    headers: Mapping[str, str]
    actions: Mapping[str, Action]
    events: Events
    capability: Capability


def read(config: Mapping[str, Any]) -> Api:
    """The settings as the adapter uses them. ProviderConfigError."""
    given = _Given(config, "http", known=_TOP)
    guard = Guard.from_settings(config.get("guard", {}))
    url = given.text("url").rstrip("/")
    try:
        parts = guard.check_url(url)
    except Forbidden as error:
        raise ProviderConfigError(f"http: url: {error}") from None
    if parts.query or parts.fragment or "{" in url:
        raise ProviderConfigError("http: url: scheme, host and first part of the path only; queries and placeholders stand in each path.")
    timeout_s = config.get("timeout_s", 10)
    if not isinstance(timeout_s, int | float) or isinstance(timeout_s, bool) or timeout_s <= 0:
        raise ProviderConfigError("http: timeout_s: a number of seconds, more than 0.")
    shape = _shape(given.part("object", known=_OBJECT)) if "object" in config else None
    refused = _code(given.part("refused", known=_CODE, default={"statuses": [400, 422]}), "http: refused", for_no=True)
    actions = {
        name: _action(_Given(action, f"http: actions.{name}", known=_ACTION), shape, refused)
        for name, action in given.part("actions").values.items()
    }
    if not actions:
        raise ProviderConfigError("http: actions: at least one is needed.")
    return Api(
        url=url,
        timeout_s=timeout_s,
        guard=guard,
        tls=_tls(config.get("ca_file")),
        headers=_fixed_headers(given),
        actions=actions,
        events=_events(given, config, actions),
        capability=_capability(given, actions),
    )


_TOP = {
    "kind", "name", "url", "timeout_s", "ca_file", "guard", "auth", "headers", "object", "refused", "actions", "webhook_secrets",
    "webhooks", "capability",
}  # fmt: skip
_OBJECT = {
    "id", "state", "reference", "amount", "currency", "time", "operation_id", "undone_by", "undone_amount", "undo_id", "undoes",
    "amount_format", "states",
}  # fmt: skip
_CODE = {"statuses", "code", "codes"}
_ACTION = {"perform", "compensate", "look", "object"}
_CALL = {"method", "path", "body", "headers", "item", "landed", "refused"}
_LOOK = {"path", "headers", "about", "item", "list", "complete", "pages", "absent"}


class _Given:
    """One JSON object of the settings, with the name it has in messages."""

    def __init__(self, values: Any, name: str, known: set[str] | None = None) -> None:
        if not isinstance(values, Mapping):
            raise ProviderConfigError(f"{name}: an object is needed.")
        if known is not None and (unknown := sorted(set(values) - known)):
            raise ProviderConfigError(f"{name}: {unknown[0]} is not a setting. Known: {', '.join(sorted(known))}.")
        self.values, self.name = values, name

    def fail(self, name: str, remedy: str) -> ProviderConfigError:
        return ProviderConfigError(f"{self.name}: {name}: {remedy}")

    def part(self, name: str, known: set[str] | None = None, default: Any = None) -> "_Given":
        return _Given(self.values.get(name, {} if default is None else default), f"{self.name}: {name}", known)

    def text(self, name: str, default: str | None = None) -> str:
        value = self.values.get(name, default)
        if not isinstance(value, str) or not value:
            raise self.fail(name, "a text is needed.")
        return value

    def place(self, name: str) -> str | None:
        """A dotted path, or None when it is not told."""
        value = self.values.get(name)
        if value is not None and (not isinstance(value, str) or not _PATH.fullmatch(value)):
            raise self.fail(name, 'a dotted path such as "data.id" is needed.')
        return value

    def place_needed(self, name: str) -> str:
        if (value := self.place(name)) is None:
            raise self.fail(name, 'a dotted path such as "data.id" is needed.')
        return value

    def template(self, name: str, value: Any, allowed: frozenset[str] = templates.NAMES) -> set[str]:
        """The placeholders in a template."""
        try:
            used = set(templates.names(value))
        except templates.CannotFill as error:
            raise self.fail(name, str(error)) from None
        if wrong := sorted(used - allowed):
            raise self.fail(name, f"{{{wrong[0]}}} cannot stand here, only {', '.join(sorted(allowed))}.")
        return used

    def route(self, allowed: frozenset[str]) -> tuple[str, set[str]]:
        path = self.text("path")
        if (
            not path.startswith("/")
            or path.startswith("//")
            or "#" in path
            or not (path.isascii() and path.isprintable() and " " not in path)
        ):
            raise self.fail("path", 'a path under url, such as "/orders?reference={reference}", percent-encoded.')
        if any(part in (".", "..") for part in path.partition("?")[0].split("/")):
            raise self.fail("path", "without . and .. parts.")
        return path, self.template("path", path, allowed)

    def headers(self) -> dict[str, str]:
        headers = self.part("headers")
        for name, value in headers.values.items():
            if not isinstance(name, str) or not _HEADER.fullmatch(name):
                raise headers.fail(str(name), "no name of a header.")
            if not isinstance(value, str) or not (value.isascii() and value.isprintable()):
                raise headers.fail(name, "one line of plain text is needed.")
            headers.template(name, value, frozenset({"operation_id", "attempt"}))
        return dict(headers.values)


def _shape(given: _Given) -> Shape:
    states = given.part("states").values
    for word, state in states.items():
        if state not in _STATES:
            raise given.fail(f"states.{word}", f"one of {', '.join(_STATES)}.")
    shape = Shape(
        id=given.place("id") or "id",
        state=given.place("state"),
        reference=given.place("reference"),
        amount=given.place("amount"),
        currency=given.place("currency"),
        time=given.place("time"),
        operation_id=given.place("operation_id"),
        undone_by=given.place("undone_by"),
        undone_amount=given.place("undone_amount"),
        undo_id=given.place("undo_id"),
        undoes=given.place("undoes"),
        amount_format=given.values.get("amount_format", "decimal"),
        states=dict(states),
    )
    if shape.amount_format not in ("minor", "decimal"):
        raise given.fail("amount_format", '"minor" (whole numbers of minor units) or "decimal" (texts such as "12.50").')
    if (shape.state is None) != (not states):
        raise given.fail("states", "say what each word at state means; without state there are none, and whatever exists has landed.")
    if (shape.amount is None) != (shape.currency is None):
        raise given.fail("currency", "amount and currency are told together: an amount without its currency says nothing.")
    if shape.reference is None and shape.undoes is None:
        raise given.fail("reference", "where our reference stands (or, for an undo, undoes: where the undone object's id stands).")
    return shape


def _code(given: _Given, name: str, for_no: bool) -> Code:
    statuses = given.values.get("statuses", [])
    whole = isinstance(statuses, list) and all(isinstance(s, int) and not isinstance(s, bool) and 400 <= s <= 499 for s in statuses)
    if not whole or not statuses:
        raise given.fail("statuses", "a list of statuses from 400 to 499: nothing else is a definite answer.")
    words = given.values.get("codes", [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise given.fail("codes", "a list of texts.")
    path = given.place("code")
    if words and path is None:
        raise given.fail("code", "where the words of codes stand.")
    if for_no and not words and (odd := sorted(set(statuses) - _NO_BY_ITSELF)):
        raise given.fail("codes", f"HTTP {odd[0]} alone does not say that nothing happened: name the codes that do.")
    if not for_no and not words:
        raise given.fail("codes", "the documented words for 'there is none': a mere status may come from a wrong path.")
    return Code(frozenset(statuses), path, frozenset(words))


def _action(given: _Given, shape: Shape | None, refused: Code) -> Action:
    if "object" in given.values:
        shape = _shape(given.part("object", known=_OBJECT))
    if shape is None:
        raise given.fail("object", "where its id, state and our reference stand; or one object for all actions.")
    action = Action(
        perform=_call(given.part("perform", known=_CALL), refused, frozenset()) if "perform" in given.values else None,
        compensate=_call(given.part("compensate", known=_CALL), refused, frozenset({"external_id"}))
        if "compensate" in given.values
        else None,
        look=_question(given.part("look", known=_LOOK)) if "look" in given.values else None,
        shape=shape,
    )
    if action.perform and action.compensate:
        raise given.fail("compensate", "an action does something or undoes something, not both.")
    if action.compensate is None and action.shape.reference is None:
        raise given.fail("object", "reference: where our reference stands.")
    if action.compensate and action.look and action.shape.reference is None and action.shape.operation_id is None:
        raise given.fail("object", "operation_id or reference: without either nobody could tell our undo from another one.")
    return action


def _call(given: _Given, refused: Code, needed: frozenset[str]) -> Call:
    method = given.text("method", "POST").upper()
    if method not in _METHODS:
        raise given.fail("method", f"one of {', '.join(_METHODS)}.")
    path, used = given.route(templates.NAMES - {"request"})
    headers = given.headers()
    used |= {name for value in headers.values() for name in templates.names(value)}
    body = given.values.get("body")
    if body is not None and not isinstance(body, Mapping):
        raise given.fail("body", "a JSON object, with placeholders such as {reference} as its texts.")
    used |= given.template("body", body)
    for name in sorted((needed or {"reference"}) - used):
        raise given.fail("path", f"{{{name}}} must be sent, in path or body.")
    if "operation_id" not in used:
        raise given.fail("headers", '{operation_id} must be sent, as in {"Idempotency-Key": "{operation_id}"}.')
    landed = given.values.get("landed", [200, 201, 202])
    if not isinstance(landed, list) or not landed or not all(isinstance(s, int) and 200 <= s <= 299 for s in landed):
        raise given.fail("landed", "a list of statuses from 200 to 299.")
    code = _code(given.part("refused", known=_CODE), given.name, for_no=True) if "refused" in given.values else refused
    return Call(method, path, body, headers, given.place("item") or "", frozenset(landed), code)


def _question(given: _Given) -> Question:
    path, used = given.route(frozenset({"reference", "operation_id", "external_id"}))
    if not used:
        raise given.fail("path", "{reference}, {operation_id} or {external_id} must be asked for.")
    listed = given.place("list")
    complete, pages, absent = (given.values.get(name) for name in ("complete", "pages", "absent"))
    if listed is None and (complete is not None or pages is not None):
        raise given.fail("list", "complete and pages belong to a list: say where it stands.")
    if listed is not None and absent is not None:
        raise given.fail("absent", "a list that has none is empty; absent belongs to a look for one object.")
    if listed is not None and (complete is None) == (pages is None):
        raise given.fail(
            "complete", 'how a list says that it is all of it: complete ({"path": "has_more", "value": false}, or "always"), or pages.'
        )
    return Question(
        path=path,
        headers=given.headers(),
        about=given.place("about"),
        item=given.place("item") or "",
        list=listed,
        complete=_complete(given) if complete not in (None, "always") else None,
        pages=_pages(given.part("pages", known={"cursor", "param", "most", "missing_is_last"})) if pages is not None else None,
        absent=_code(given.part("absent", known=_CODE), given.name, for_no=False) if absent is not None else None,
    )


def _complete(given: _Given) -> Complete:
    part = given.part("complete", known={"path", "value"})
    if "value" not in part.values or isinstance(part.values["value"], Mapping | list | float):
        raise part.fail("value", "the value that means complete: a text, a whole number, true, false or null.")
    return Complete(part.place_needed("path"), part.values["value"])


def _pages(given: _Given) -> Pages:
    most, missing = given.values.get("most", _PAGES_MAX), given.values.get("missing_is_last", False)
    if not isinstance(most, int) or isinstance(most, bool) or not 1 <= most <= 100:
        raise given.fail("most", "how many pages are followed, 1 to 100.")
    if not isinstance(missing, bool):
        raise given.fail("missing_is_last", "true or false.")
    return Pages(given.place_needed("cursor"), given.text("param"), most, missing)


def _fixed_headers(given: _Given) -> dict[str, str]:
    headers = given.headers()
    if wrong := [name for name, value in headers.items() if "{" in value]:
        raise given.fail("headers", f"{wrong[0]}: placeholders stand in the headers of perform and compensate.")
    if "auth" not in given.values:
        return headers
    auth = given.part("auth", known={"header", "prefix", "env"})
    name, prefix, variable = auth.text("header", "Authorization"), auth.values.get("prefix", ""), auth.text("env")
    secret = os.environ.get(variable, "")
    if not secret or not (secret.isascii() and secret.isprintable()) or secret != secret.strip():
        raise auth.fail("env", f"the environment variable {variable} is empty, or is not one line of plain text.")
    if not _HEADER.fullmatch(name) or not isinstance(prefix, str) or not (prefix.isascii() and prefix.isprintable()):
        raise auth.fail("header", "the name of a header, and as prefix plain text such as 'Bearer '.")
    return headers | {name: prefix + secret}


def _tls(ca_file: Any) -> ssl.SSLContext | None:
    try:
        return ssl.create_default_context(cafile=ca_file) if ca_file is not None else None
    except (OSError, TypeError) as error:
        raise ProviderConfigError(f"http: ca_file: cannot be read ({error}).") from None


def _events(given: _Given, config: Mapping[str, Any], actions: Mapping[str, Action]) -> Events:
    secrets = config.get("webhook_secrets", [])
    if not isinstance(secrets, list | tuple) or not all(isinstance(secret, str) for secret in secrets):
        raise given.fail("webhook_secrets", "a list of at most two secrets, whsec_ followed by base64.")
    webhooks = given.part("webhooks", known={"kind", "item", "kinds"})
    kinds = webhooks.part("kinds").values
    for kind, action in kinds.items():
        if action not in actions:
            raise webhooks.fail(f"kinds.{kind}", f"one of the actions: {', '.join(sorted(actions))}.")
        if actions[action].shape.reference is None and actions[action].shape.operation_id is None:
            raise webhooks.fail(f"kinds.{kind}", f"the object of {action} carries neither our reference nor our key: whose is it?")
    if secrets and not kinds:
        raise webhooks.fail("kinds", 'which kind of event tells of which action, as in {"order.settled": "create_order"}.')
    signers = standard_webhooks.signers(secrets)
    return Events(signers, webhooks.place("kind") or "type", webhooks.place("item") or "data", dict(kinds))


def _capability(given: _Given, actions: Mapping[str, Action]) -> Capability:
    told = given.part("capability").values
    looks = {name: action.look for name, action in actions.items() if action.look is not None}
    if looks and "lookup" not in told:
        raise given.fail("capability.lookup", "strong, eventual or by_id, as the provider documents it.")
    capability = Capability(lookup="none").with_settings(told)
    if capability.lookup != "none" and not looks:
        raise given.fail("capability.lookup", "no action says how to look: give one a look, or promise none.")
    if capability.lookup == "none" and looks:
        raise given.fail("capability.lookup", f"none, but {sorted(looks)[0]} says how to look.")
    for done, undone in capability.compensable.items():
        if done not in actions or undone not in actions or actions[undone].compensate is None:
            raise given.fail("capability.compensable", f"{done} → {undone}: both are actions, and {undone} has a compensate.")
    if capability.lookup_url and urlsplit(capability.lookup_url).scheme not in ("http", "https"):
        raise given.fail("capability.lookup_url", "an http or https address.")
    return capability
