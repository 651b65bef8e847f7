"""The messages between a page and the server (docs/live.md): read strictly, because a stranger sends them; written as text once. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

ROWS_MAX = 250
TEXT_MAX = 64 * 1024  # bytes of one message from a page
LIST_MAX = 2000
NUMBER_MAX = 2**63 - 1
REFETCH_ABOVE = 100  # rows

SIGNED_OUT = 4401
NOT_ALLOWED = 4403
BROKEN = 1011


class BadMessage(Exception):
    """What a page sent is not a message of this protocol."""


@dataclass(frozen=True)
class Watch:
    """Everything that a page shows. `kind`: what its list holds (`runs`, `cases`, `approvals`) or ""; `case`: the one case it is about."""

    kind: str = ""
    query: str = ""
    newest: str = ""
    rows: Mapping[uuid.UUID, int] = field(default_factory=dict)
    run: uuid.UUID | None = None
    version: int = 0
    seq: int = 0
    case: uuid.UUID | None = None


@dataclass(frozen=True, slots=True)
class Fragment:
    """A rendered element, ready to be an item of a `fragments` frame. `seq` is set for items of a timeline."""

    id: str
    version: int
    item: str
    seq: int | None = None

    def matching(self, matches: bool) -> Fragment:
        """The same, saying whether the row still meets the page's filter."""
        return Fragment(self.id, self.version, f'{self.item[:-1]},"matches":{"true" if matches else "false"}}}', self.seq)


def fragment(element: str, version: int, html: str) -> Fragment:
    """An element that replaces the one of the same id."""
    return Fragment(element, version, _text({"id": element, "version": version, "html": html}))


def timeline_item(seq: int, html: str) -> Fragment:
    """An item that is appended to the timeline."""
    return Fragment(f"tl-{seq}", seq, _text({"id": f"tl-{seq}", "into": "timeline-items", "html": html}), seq)


def frame(kind: str, **values: Any) -> str:
    """A frame as text."""
    return _text({"type": kind, **values})


def fragments_frame(fragments: Iterable[Fragment]) -> str:
    """One frame of fragments; what they hold has been encoded before, once for everybody."""
    return f'{{"type":"fragments","items":[{",".join(one.item for one in fragments)}]}}'


def read_watch(text: str | None) -> Watch:
    """A `watch` message. Raises BadMessage."""
    if text is None or len(text) > TEXT_MAX:
        raise BadMessage("a message is JSON text of at most 64 KiB")
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise BadMessage("not JSON") from None
    if not isinstance(given, dict) or given.get("type") != "watch":
        raise BadMessage("not a watch")
    rows = given.get("rows") or {}
    if not isinstance(rows, dict):
        raise BadMessage("rows: an object of id and version")
    return _watch(given, rows)


def read_poll(query: Mapping[str, str]) -> Watch:
    """The same from the query of `GET /live/poll`. Raises BadMessage."""
    rows: dict[str, Any] = {}
    for pair in filter(None, query.get("rows", "").split("~")[: ROWS_MAX + 1]):
        name, _, version = pair.partition(".")
        rows[name] = _digits(version)
    numbers = {name: _digits(query.get(name) or "0") for name in ("version", "seq")}
    return _watch({name: query.get(name) or None for name in ("list", "newest", "run")} | numbers, rows)


def _watch(given: Mapping[str, Any], rows: Mapping[str, Any]) -> Watch:
    if len(rows) > ROWS_MAX:
        raise BadMessage(f"more than {ROWS_MAX} rows")
    kind, _, query = _short(given.get("list"), "list").partition("?")
    return Watch(
        kind=kind,
        query=query,
        newest=_short(given.get("newest"), "newest"),
        rows={_id(name): _number(version, "rows") for name, version in rows.items()},
        run=_id(given["run"]) if given.get("run") else None,
        version=_number(given.get("version", 0), "version"),
        seq=_number(given.get("seq", 0), "seq"),
        case=_id(query.removeprefix("id=")) if kind == "cases" and query.startswith("id=") else None,
    )


def _id(value: Any) -> uuid.UUID:
    try:
        return uuid.UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise BadMessage("an id is a UUID") from None


def _number(value: Any, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBER_MAX:
        raise BadMessage(f"{name}: a whole number")
    return value


def _digits(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise BadMessage("a whole number is written in digits")
    return int(text)


def _short(value: Any, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > LIST_MAX or "\x00" in value:
        raise BadMessage(f"{name}: a text of at most {LIST_MAX} characters")
    return value


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


SYNCED, STALE, REFETCH = frame("synced"), frame("stale"), frame("refetch")
