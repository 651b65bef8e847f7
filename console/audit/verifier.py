"""Recomputes the hash chains from plain rows. Independent of what seals them: only the standard library, and docs/audit.md is its source.

A stream is a run's id, or `system`. Its events are walked in order; each is turned into its canonical line here, hashed, and compared
with the link that was sealed and with every head that was anchored outside the database. The first bad row of a stream is named.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from decimal import Decimal
from typing import Any

LINK = 32  # bytes
SYSTEM = "system"


@dataclass(frozen=True)
class Bad:
    """The first row of a stream that is not what was sealed or anchored. `place` counts from 1; `event` is the row's id."""

    stream: str
    place: int
    what: str
    event: int | None = None

    def __str__(self) -> str:
        row = f" (row {self.event} of runs_event)" if self.event is not None else ""
        return f"{self.stream}: event {self.place}{row}: {self.what}"


@dataclass(frozen=True)
class Stretch:
    """A seal as it is stored: the places it covers, the link before them, theirs, and the last one."""

    first: int
    last: int
    previous: str
    links: bytes
    head: str


@dataclass
class Anchors:
    """The heads that were kept outside: for each stream, place → head; and what is wrong with the file itself."""

    heads: dict[str, dict[int, str]] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)
    lines: int = 0


@dataclass
class Count:
    """What was walked."""

    streams: int = 0
    events: int = 0
    sealed: int = 0
    anchored: int = 0


def canonical(row: Mapping[str, Any]) -> bytes:
    """The line of an event: one JSON object as PostgreSQL prints a `jsonb`.

    `row` has the columns of runs_event; `data` is the column's text, `at` an aware datetime, `run` and `tx` are text.
    """
    at = row["at"].astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"
    data = json.loads(row["data"], parse_float=Decimal, parse_int=Decimal)
    return _json(dict(row) | {"data": data, "at": at}).encode()


def _json(value: Any) -> str:
    """Keys by length and then by bytes, one space after `:` and `,`, numbers as exact decimals, nothing escaped that need not be."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return "{" + ", ".join(f"{_json(key)}: {_json(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)


def read_anchors(lines: Iterable[str]) -> Anchors:
    """The anchors of a file, one line each; every line must name the SHA-256 of the line before it."""
    found, previous = Anchors(), "0" * 64
    for number, line in enumerate(lines, start=1):
        line = line.rstrip("\n")
        try:
            told = json.loads(line)
            heads = [(str(stream), int(place), str(head)) for stream, place, head in told["heads"]]
            if told["number"] != number or told["previous"] != previous:
                found.bad.append(f"line {number} of the anchors does not follow the line before it")
                break
        except (ValueError, KeyError, TypeError):
            found.bad.append(f"line {number} of the anchors cannot be read")
            break
        for stream, place, head in heads:
            found.heads.setdefault(stream, {})[place] = head
        previous = hashlib.sha256(line.encode()).hexdigest()
        found.lines = number
    return found


def verify(
    stream: str,
    events: Iterable[tuple[int, int, bytes]],
    seals: Iterable[Stretch],
    anchored: Mapping[int, str],
    count: Count | None = None,
) -> Bad | None:
    """Walk one stream: its events as (place, row id, canonical line) in order, its seals in order, its anchored heads by place.

    Returns the first row that is bad, or None. Events after the last seal are only counted.
    """
    count = count or Count()
    count.streams += 1
    links = _links(stream, seals)
    link = hashlib.sha256(f"countermand chain 1 {stream}".encode()).digest()
    place, told, last_good = 0, next(links, None), 0
    if isinstance(told, Bad):
        return told
    for at, row, line in events:
        if at != place + 1:
            what = "is missing" if at > place + 1 else "stands there twice"
            return Bad(stream, place + 1 if at > place + 1 else at, what)
        place, link = at, hashlib.sha256(link + line).digest()
        count.events += 1
        if told is not None:
            if told != link:
                return Bad(stream, place, "is not what was sealed", row)
            count.sealed += 1
            told = next(links, None)
            if isinstance(told, Bad):
                return told
        if place in anchored:
            if anchored[place] != link.hex():
                return Bad(stream, last_good + 1, f"or one up to {place} is not what was anchored: the chain was rewritten", None)
            last_good = place
            count.anchored += 1
    if told is not None:
        return Bad(stream, place + 1, "was sealed, and is missing")
    cut = [head for head in anchored if head > place]
    if cut:
        return Bad(stream, place + 1, f"is missing: the chain was anchored up to event {max(cut)}")
    return None


def _links(stream: str, seals: Iterable[Stretch]) -> Iterator[bytes | Bad]:
    """The sealed links in order; a seal that does not follow the one before it ends them."""
    place, head = 0, hashlib.sha256(f"countermand chain 1 {stream}".encode()).hexdigest()
    for seal in seals:
        whole = len(seal.links) == LINK * (seal.last - seal.first + 1) and seal.links[-LINK:].hex() == seal.head
        if seal.first != place + 1 or seal.previous != head or not whole:
            yield Bad(stream, place + 1, f"its seal ({seal.first} to {seal.last}) does not follow the seal before it")
            return
        for start in range(0, len(seal.links), LINK):
            yield seal.links[start : start + LINK]
        place, head = seal.last, seal.head
