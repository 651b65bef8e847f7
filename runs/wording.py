"""Sentences as lists of parts: what to stress, what is a reference, what is a moment. Owns no rule and reads no row.

A page turns the moments into `<time>` in the reader's zone; the API prints the same parts in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime


class Lead(str):
    """The words a sentence opens with; a page shows them in bold."""


class Ref(str):
    """A reference; a page shows it in monospace and never breaks it."""


Part = str | datetime
Parts = list[Part]


def moment_text(at: datetime, *, with_day: bool = False) -> str:
    """`14:02:07 UTC`, or `2 Mar 2026 14:02:07 UTC` when the day matters."""
    at = at.astimezone(UTC)
    day = f"{at.day} {at:%b %Y} " if with_day else ""
    return f"{day}{at:%H:%M:%S} UTC"


def plain(parts: Iterable[Part]) -> str:
    """The sentence as one string, times in UTC; the day is said as soon as two moments lie on different days."""
    parts = list(parts)
    days = {part.astimezone(UTC).date() for part in parts if isinstance(part, datetime)}
    return "".join(moment_text(part, with_day=len(days) > 1) if isinstance(part, datetime) else str(part) for part in parts)


def say(*pieces: Part | Sequence[Part] | None) -> Parts:
    """Join pieces (text, moments, lists of parts) into one sentence; None and empty text are left out."""
    parts: Parts = []
    for piece in pieces:
        if piece is None or piece == "":
            continue
        if isinstance(piece, str | datetime):
            parts.append(piece)
        else:
            parts.extend(piece)
    return parts


def count(n: int, noun: str, plural: str = "") -> str:
    """`1 action`, `2 actions`, `1,200 actions`; `plural` for nouns that do not just take an s."""
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def shortened(text: str, most: int) -> str:
    """At most so many characters; what is left out leaves `…`, after a whole word where there is one."""
    if len(text) <= most:
        return text
    head = text[: most - 1]
    return f"{head.rpartition(' ')[0] or head}…"


def duration(seconds: float) -> str:
    """Seconds as people say them, two units at most: `1.2 s`, `6 min 10 s`, `2 h 10 min`, `3 d 4 h`."""
    seconds = max(0.0, float(seconds))
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two_units(whole, 60, "min", 1, "s")
    if whole < 86400:
        return _two_units(whole, 3600, "h", 60, "min")
    return _two_units(whole, 86400, "d", 3600, "h")


def _two_units(seconds: int, big_s: int, big: str, small_s: int, small: str) -> str:
    rest = seconds % big_s // small_s
    return f"{seconds // big_s} {big} {rest} {small}" if rest else f"{seconds // big_s} {big}"
