"""`/metrics/`: what the cancels of the last days came to. Not live: it says as of when, and is asked again by a link."""

from __future__ import annotations

from datetime import date
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.metrics import charts, figures
from console.metrics.figures import Spread
from console.pages.guard import number, page
from console.pages.runs import actor_of
from runs import actors
from runs.wording import duration

NOTHING = "—"


@page("GET")
def metrics(request: HttpRequest) -> HttpResponse:
    """`?days=1|7|30`."""
    actor_of(request).require(actors.RUN_READ, None, "see the metrics")
    asked = number(request.GET.get("days"))
    days = asked if asked in figures.DAYS else 7
    return render(request, "metrics.html", _context(figures.window(days)))


def _context(within: figures.Window) -> dict[str, Any]:
    quiet, totals, ends = figures.quiet(within), figures.totals(within), figures.ends(within)
    machine, person = figures.resolved(within)
    return {
        "as_of": within.until,
        "since": within.since,
        "choices": [{"days": days, "label": _days(days), "current": days == within.days} for days in figures.DAYS],
        "quiet": quiet.all,
        "quiet_chart": charts.upright(
            "Time to quiet by day",
            [(_day(day), spread.p50, spread.p95) for day, spread in quiet.by_day],
            [(_words(spread.p50), _words(spread.p95)) for _, spread in quiet.by_day],
        ),
        "by_day": quiet.by_day,
        "by_agent": [{"agent": agent, "day": _day(day), "spread": spread} for agent, day, spread in quiet.by_agent],
        "groups_max": figures.GROUPS_MAX,
        "not_quiet": totals.not_quiet,
        "presumed": totals.presumed,
        "heard": totals.heard,
        "outcomes": [{"words": words, "count": count} for _, words, count in ends.outcomes],
        "outcomes_total": sum(count for _, _, count in ends.outcomes),
        "outcomes_chart": charts.across("Cancels by outcome", [(words, count, key) for key, words, count in ends.outcomes]),
        "unknown": figures.unknown_open(within.until),
        "machine": machine,
        "person": person,
        "resolved_chart": charts.across(
            "Doubts settled", [("By asking the provider", machine, "machine"), ("By a person", person, "person")]
        ),
        "approvals": [
            _asked("Confirmations that runs wait for", figures.approvals_waiting(within.until), figures.approvals_decided(within)),
            _asked("Undo requests", figures.undos_waiting(within.until), figures.undos_decided(within)),
        ],
        "landed_after": ends.landed_after,
        "refused": totals.refused,
        "refusing_runs": totals.refusing_runs,
    }


def _asked(what: str, waiting: Spread, decided: tuple[int, int, int]) -> dict[str, Any]:
    """One kind of question to approvers: what waits, and what was decided."""
    approved, rejected, expired = decided
    share = f"{100 * rejected / (approved + rejected):.0f} %" if approved + rejected else NOTHING
    return {"what": what, "waiting": waiting, "approved": approved, "rejected": rejected, "expired": expired, "share": share}


def _words(seconds: float | None) -> str:
    return NOTHING if seconds is None else duration(seconds)


def _day(day: date) -> str:
    return f"{day.day} {day:%b}"


def _days(days: int) -> str:
    return "24 hours" if days == 1 else f"{days} days"
