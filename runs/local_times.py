"""Times as a reader types and sees them in a filter: in a zone of their own, to and from moments. Pure.

An address that holds such times also names their zone (`zone`), so that it means the same to everybody; without one they are UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from runs.errors import Invalid

ZONE = "zone"
NEAR_CHANGE = timedelta(hours=3)


def find_zone(name: str) -> tzinfo | None:
    """The time zone called so (`Europe/Berlin`, `UTC`), or None."""
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def read(given: Mapping[str, Any], name: str, *, latest: bool = False) -> datetime | None:
    """The moment that a field holds, in UTC, or None for an empty one. One without an offset is read in the zone that is given with it.

    A time that the clocks showed twice or skipped is the earlier of the two moments that it may mean, with `latest` the later one, so that
    a range leaves out nothing that was asked for. Raises `Invalid`.
    """
    text, zone = given.get(name, "").strip(), find_zone(given.get(ZONE) or "UTC")
    if not text:
        return None
    if zone is None:
        raise Invalid("zone: use the name of a time zone such as Europe/Berlin, or UTC.", field=ZONE)
    try:
        at = _parse(text)
        if at.tzinfo is not None:
            return at.astimezone(UTC)
        meant = [at.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
        return max(meant) if latest else min(meant)
    except (ValueError, OverflowError):
        raise Invalid(f"{name}: use a day and time such as 2026-03-02T14:02.", field=name) from None


def _parse(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.fromisoformat(text.replace(" ", "+"))  # an offset whose plus sign an address took for a space


def fields(since: datetime | None, until: datetime | None, zone_name: str) -> tuple[str, str, str]:
    """What the two fields of a form and its zone show; sent unchanged they mean the same moments. That is in the zone of that name unless
    one of the moments can't be told in it, because the clocks show it twice: then UTC. Parts of a second are left out."""
    since, until = (at and at.replace(microsecond=0) for at in (since, until))
    for name in (zone_name, "UTC"):
        zone = find_zone(name)
        if zone is None:
            continue
        texts = [at.astimezone(zone).replace(tzinfo=None).isoformat() if at else "" for at in (since, until)]
        given = {"since": texts[0], "until": texts[1], ZONE: name}
        if read(given, "since") == since and read(given, "until", latest=True) == until:
            break
    return texts[0], texts[1], name


def words(at: datetime, zone_name: str) -> str:
    """`2 Mar 2026 14:02 GMT`; with its offset where the clocks are changed: `25 Oct 2026 01:30 BST (+01:00)`."""
    zone = find_zone(zone_name) or UTC
    local = at.astimezone(zone)
    seconds = f":{local:%S}" if local.second else ""
    changes = _offset(at - NEAR_CHANGE, zone) != _offset(at + NEAR_CHANGE, zone)
    called = local.tzname() or ""
    name = called if called.isalpha() else f"UTC{_offset(at, zone)}"
    return f"{local.day} {local:%b %Y %H:%M}{seconds} {name}" + (f" ({_offset(at, zone)})" if changes else "")


def _offset(at: datetime, zone: tzinfo) -> str:
    """`+01:00`."""
    return str(timezone(at.astimezone(zone).utcoffset() or timedelta())).removeprefix("UTC") or "+00:00"
