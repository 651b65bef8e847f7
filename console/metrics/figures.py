"""The figures of the page, each by one query through an index, over the cancels asked (or the answers found) within a window.

Durations are seconds. Money is minor units, and never summed over currencies.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db import connection

from runs import transition

DAYS = (1, 7, 30)
GROUPS_MAX = 200  # rows of agent and day that are shown

OUTCOMES: tuple[tuple[str, str], ...] = (
    ("not_sent", "Nothing had landed"),
    ("in_flight", "Still in flight"),
    ("landed_before", "Landed before the cancel"),
    ("landed_after", "Landed — confirmed after the cancel"),
    ("checking", "Unknown — checking"),
    ("person", "Unknown — needs a person"),
    ("already_closed", "Had already finished"),
    ("terminated", "Terminated"),
)
"""The eight outcomes of a cancel; a run counts once, in the gravest that holds."""


@dataclass(frozen=True)
class Spread:
    """How some durations are spread: how many, half of them within `p50`, 95 of 100 within `p95`, none above `max`."""

    count: int
    p50: float | None = None
    p95: float | None = None
    max: float | None = None


@dataclass(frozen=True)
class Window:
    """From when to when, both of the database's clock."""

    days: int
    since: datetime
    until: datetime


def window(days: int) -> Window:
    """The last `days` days, up to now."""
    now = transition.clock()
    return Window(days, now - timedelta(days=days), now)


_SPREAD = "count({0}), percentile_cont(ARRAY[0.5, 0.95, 1.0]) WITHIN GROUP (ORDER BY {0})"  # one sort for all three
_QUIET_S = "extract(epoch FROM quiet_at - asked_at)::float"
_HEARD_S = "extract(epoch FROM heard_at - asked_at)::float"
_ASKED = "FROM runs_run WHERE asked_at >= %s AND asked_at < %s"

_OUTCOMES = """
SELECT CASE
    WHEN cancel_mode = 'terminate' THEN 'terminated'
    WHEN settlement = 'unresolved' OR needs_person > 0 THEN 'person'
    WHEN in_flight > 0 THEN 'in_flight'
    WHEN in_doubt > 0 THEN 'checking'
    WHEN landed > 0 AND EXISTS (
        SELECT 1 FROM ledger_effect e WHERE e.run_id = r.id AND e.role = 'work' AND e.state IN ('landed', 'duplicated')
        AND e.known_position > r.cancel_position) THEN 'landed_after'
    WHEN landed > 0 THEN 'landed_before'
    ELSE 'not_sent' END AS outcome, count(*)
FROM runs_run r WHERE asked_at >= %s AND asked_at < %s GROUP BY 1
"""
_TOO_LATE = """
SELECT count(DISTINCT run_id) FROM runs_cancelrequest WHERE answer = 'already_closed' AND at >= %s AND at < %s
"""
_LANDED_AFTER = """
SELECT coalesce(e.landed_currency, ''), count(*), sum(coalesce(e.landed_amount, e.amount, 0))
FROM runs_run r JOIN ledger_effect e ON e.run_id = r.id
WHERE r.asked_at >= %s AND r.asked_at < %s AND r.landed > 0 AND e.role = 'work' AND e.state IN ('landed', 'duplicated')
AND e.known_position > r.cancel_position
GROUP BY 1 ORDER BY 1
"""
_UNKNOWN_OPEN = "FROM ledger_effect WHERE state IN ('unknown', 'ambiguous') AND NOT unknowable"
_UNKNOWN_S = "extract(epoch FROM %s - unknown_since)::float"
_RESOLVED = """
SELECT how_we_know = 'person', count(*) FROM ledger_effect
WHERE doubted AND known_at >= %s AND known_at < %s AND state NOT IN ('unknown', 'ambiguous', 'pending', 'conflicted') GROUP BY 1
"""
_WAITING = "FROM runs_approval WHERE state = 'requested'"
_WAITING_S = "extract(epoch FROM %s - requested_at)::float"
_UNDO_WAITING = "FROM ledger_compensation WHERE state = 'requested'"
_UNDO_DECIDED = """
SELECT count(*) FILTER (WHERE approved_at >= %s AND approved_at < %s),
    count(*) FILTER (WHERE state = 'rejected' AND ended_at >= %s AND ended_at < %s),
    count(*) FILTER (WHERE state = 'expired' AND ended_at >= %s AND ended_at < %s)
FROM ledger_compensation
"""
_DECIDED = """
SELECT count(*) FILTER (WHERE state = 'approved'), count(*) FILTER (WHERE state = 'rejected'), count(*) FILTER (WHERE state = 'expired')
FROM runs_approval WHERE decided_at >= %s AND decided_at < %s
"""


@dataclass(frozen=True)
class Quiet:
    """Time from cancel accepted to quiet: of all, of each day (UTC, oldest first), by day and agent (latest days first)."""

    all: Spread
    by_day: list[tuple[date, Spread]]
    by_agent: list[tuple[str, date, Spread]]


def quiet(within: Window) -> Quiet:
    """Time to quiet of every run that has become quiet, in one pass; at most `GROUPS_MAX` rows of agent and day."""
    day = "(asked_at AT TIME ZONE 'UTC')::date"
    sql = f"SELECT agent, {day}, {_SPREAD.format(_QUIET_S)} {_ASKED} GROUP BY GROUPING SETS ((), ({day}), (agent, {day}))"  # noqa: S608
    told = [(agent, on, _spread(row)) for agent, on, *row in _rows(sql, within)]
    by_day = [(on, spread) for agent, on, spread in told if agent is None and on is not None]
    by_agent = [(agent, on, spread) for agent, on, spread in told if agent is not None]
    of_all = next((spread for _, on, spread in told if on is None), Spread(0))
    latest_first = sorted(sorted(by_agent, key=lambda one: one[0]), key=lambda one: one[1], reverse=True)
    return Quiet(of_all, sorted(by_day, key=lambda one: one[0]), latest_first[:GROUPS_MAX])


def heard(within: Window) -> Spread:
    """From cancel accepted to the worker's acknowledgement, where there was a worker to hear it."""
    return _spread(_row(f"SELECT {_SPREAD.format(_HEARD_S)} {_ASKED}", within))  # noqa: S608 - constants of this module


def not_quiet(within: Window) -> tuple[int, int]:
    """How many of those cancels have no quiet yet, and of how many it is only presumed."""
    count = "count(*) FILTER (WHERE quiet_at IS NULL), count(*) FILTER (WHERE quiet_basis = 'presumed')"
    row = _row(f"SELECT {count} {_ASKED}", within)  # noqa: S608
    return row[0], row[1]


def outcomes(within: Window) -> list[tuple[str, str, int]]:
    """(key, words, how many) for each of the eight, in their order."""
    counted = {str(row[0]): int(row[1]) for row in _rows(_OUTCOMES, within)}
    counted["already_closed"] = _row(_TOO_LATE, within)[0]
    return [(key, words, counted.get(key, 0)) for key, words in OUTCOMES]


def landed_after(within: Window) -> list[tuple[str, int, int]]:
    """(currency or "", how many, minor units) of the actions whose landing was learned after the cancel."""
    return [(row[0], row[1], int(row[2])) for row in _rows(_LANDED_AFTER, within)]


def refused(within: Window) -> tuple[int, int]:
    """Attempts to act that were refused after a cancel, and the runs that made them."""
    row = _row(f"SELECT coalesce(sum(refused_after_cancel), 0), count(*) FILTER (WHERE refused_after_cancel > 0) {_ASKED}", within)  # noqa: S608
    return int(row[0]), row[1]


def unknown_open(now: datetime) -> Spread:
    """The effects that are unknown now, by their age."""
    return _spread(_one(f"SELECT {_SPREAD.format(_UNKNOWN_S)} {_UNKNOWN_OPEN}", [now] * 2))  # noqa: S608


def resolved(within: Window) -> tuple[int, int]:
    """Doubts settled within the window: by machine, by a person."""
    counted = {bool(row[0]): int(row[1]) for row in _rows(_RESOLVED, within)}
    return counted.get(False, 0), counted.get(True, 0)


def approvals_waiting(now: datetime) -> Spread:
    """Questions that wait for an approver now, by their age."""
    return _spread(_one(f"SELECT {_SPREAD.format(_WAITING_S)} {_WAITING}", [now] * 2))  # noqa: S608


def undos_waiting(now: datetime) -> Spread:
    """Requests to undo that nobody has decided yet, by their age."""
    return _spread(_one(f"SELECT {_SPREAD.format(_WAITING_S)} {_UNDO_WAITING}", [now] * 2))  # noqa: S608


def undos_decided(within: Window) -> tuple[int, int, int]:
    """Requests to undo that were approved, rejected and expired within the window. People make them, so the table is small."""
    row = _one(_UNDO_DECIDED, [within.since, within.until] * 3)
    return row[0], row[1], row[2]


def approvals_decided(within: Window) -> tuple[int, int, int]:
    """Approved, rejected and expired within the window."""
    row = _row(_DECIDED, within)
    return row[0], row[1], row[2]


def _spread(row: Any) -> Spread:
    count, fractions = row
    return Spread(count, *(fractions or ()))


def _row(sql: str, within: Window) -> Any:
    return _one(sql, [within.since, within.until])


def _one(sql: str, values: list[Any]) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchone()


def _rows(sql: str, within: Window) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, [within.since, within.until])
        return cursor.fetchall()
