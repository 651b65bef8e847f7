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
_QUIET_S = "date_part('epoch', quiet_at - asked_at)"
_HEARD_S = "date_part('epoch', heard_at - asked_at)"
_ASKED = "FROM runs_run WHERE asked_at >= %s AND asked_at < %s"
_TOTALS = f"""
SELECT {_SPREAD.format(_HEARD_S)}, count(*) FILTER (WHERE quiet_at IS NULL), count(*) FILTER (WHERE quiet_basis = 'presumed'),
    coalesce(sum(refused_after_cancel), 0), count(*) FILTER (WHERE refused_after_cancel > 0) {_ASKED}
"""
# Looking up the actions of so many runs is what takes long, so it is done once for both.
_ENDS = """
WITH asked AS MATERIALIZED (
    SELECT id, cancel_mode, cancel_position, settlement, needs_person, in_flight, in_doubt, landed
    FROM runs_run WHERE asked_at >= %s AND asked_at < %s
), late AS MATERIALIZED (
    SELECT r.id, coalesce(e.landed_currency, '') AS currency, coalesce(e.landed_amount, e.amount, 0) AS amount
    FROM asked r JOIN ledger_effect e ON e.run_id = r.id
    WHERE r.landed > 0 AND e.role = 'work' AND e.state IN ('landed', 'duplicated') AND e.known_position > r.cancel_position
)
SELECT 'late', currency, count(*), sum(amount) FROM late GROUP BY 2
UNION ALL SELECT 'outcome', CASE
    WHEN cancel_mode = 'terminate' THEN 'terminated'
    WHEN settlement = 'unresolved' OR needs_person > 0 THEN 'person'
    WHEN in_flight > 0 THEN 'in_flight'
    WHEN in_doubt > 0 THEN 'checking'
    WHEN landed > 0 AND id IN (SELECT id FROM late) THEN 'landed_after'
    WHEN landed > 0 THEN 'landed_before'
    ELSE 'not_sent' END, count(*), 0 FROM asked GROUP BY 2
"""
_TOO_LATE = """
SELECT count(DISTINCT run_id) FROM runs_cancelrequest WHERE answer = 'already_closed' AND at >= %s AND at < %s
"""
_UNKNOWN_OPEN = "FROM ledger_effect WHERE state IN ('unknown', 'ambiguous') AND NOT unknowable"
_UNKNOWN_S = "date_part('epoch', %s - unknown_since)"
_RESOLVED = """
SELECT how_we_know = 'person', count(*) FROM ledger_effect
WHERE doubted AND known_at >= %s AND known_at < %s AND state NOT IN ('unknown', 'ambiguous', 'pending', 'conflicted') GROUP BY 1
"""
_WAITING = "FROM runs_approval WHERE state = 'requested'"
_WAITING_S = "date_part('epoch', %s - requested_at)"
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


@dataclass(frozen=True)
class Totals:
    """Of the cancels: from accepted to the worker's acknowledgement, where there was a worker to hear it; how many have no quiet yet, of
    how many it is only presumed; attempts to act that were refused afterwards, and the runs that made them."""

    heard: Spread
    not_quiet: int
    presumed: int
    refused: int
    refusing_runs: int


def totals(within: Window) -> Totals:
    """All of them in one pass."""
    count, fractions, not_quiet, presumed, refused, refusing_runs = _row(_TOTALS, within)
    return Totals(_spread((count, fractions)), not_quiet, presumed, int(refused), refusing_runs)


@dataclass(frozen=True)
class Ends:
    """What cancels came to. `outcomes`: (key, words, how many) for each of the eight, in their order; `landed_after`: (currency or "", how
    many, minor units) of the actions whose landing was learned after the cancel."""

    outcomes: list[tuple[str, str, int]]
    landed_after: list[tuple[str, int, int]]


def ends(within: Window) -> Ends:
    """Both, by one look at the actions of each run."""
    rows = _rows(_ENDS, within)
    counted = {key: count for what, key, count, _ in rows if what == "outcome"}
    counted["already_closed"] = _row(_TOO_LATE, within)[0]
    late = sorted((currency, count, int(amount)) for what, currency, count, amount in rows if what == "late")
    return Ends([(key, words, counted.get(key, 0)) for key, words in OUTCOMES], late)


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
