"""The same installation for machines: Prometheus text at `/internal/metrics`. Everything that must be true of all processes together is
read from the database at each scrape; only what belongs to a process (its sockets, its tail) is that process's own."""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Iterable, Iterator
from typing import Any

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from console import beats
from console.live import hub
from console.notifications import queries as notifications
from reconciliation import integrity
from runs.tail import tail

log = logging.getLogger(__name__)

WINDOW = "1 hour"
# In a condition the statement's own moment: no index is used for a clock that may go on from row to row.

_TIMES = """
SELECT count({0}), percentile_cont(0.5) WITHIN GROUP (ORDER BY {0}), percentile_cont(0.95) WITHIN GROUP (ORDER BY {0}), max({0})
FROM runs_run WHERE asked_at > statement_timestamp() - %s::interval
"""
_FROM_ASKED = {"heard": "heard_at", "quiet": "quiet_at", "settled": "settled_at"}
_CANCELS = "SELECT count(*) FROM runs_run WHERE asked_at IS NOT NULL"
_REFUSED = "SELECT coalesce(sum(refused_after_cancel), 0)::bigint FROM runs_run WHERE refused_after_cancel > 0"
_RUNS = "SELECT state, count(*) FROM runs_run WHERE closed_at IS NULL GROUP BY 1"
_UNKNOWN = """
SELECT provider, state, count(*), coalesce(max(extract(epoch FROM clock_timestamp() - unknown_since)), 0)::float
FROM ledger_effect WHERE state IN ('unknown', 'ambiguous', 'pending', 'conflicted') AND NOT unknowable GROUP BY 1, 2
"""
_LOOKS = """
SELECT provider, count(*), coalesce(max(extract(epoch FROM clock_timestamp() - next_look_at)), 0)::float
FROM ledger_effect WHERE next_look_at <= statement_timestamp() GROUP BY 1
"""
_CASES = """
SELECT kind, state, count(*), max(extract(epoch FROM clock_timestamp() - opened_at))::float FROM reconciliation_case
WHERE state <> 'settled' GROUP BY 1, 2
"""
_APPROVALS = """
SELECT count(*), coalesce(max(extract(epoch FROM clock_timestamp() - requested_at)), 0)::float FROM runs_approval WHERE state = 'requested'
"""
_UNDOS = """
SELECT state, count(*), max(extract(epoch FROM clock_timestamp() - requested_at))::float FROM ledger_compensation
WHERE state IN ('requested', 'approved', 'executing') GROUP BY 1
"""
_PROVIDERS = "SELECT provider, (unreachable_since IS NOT NULL)::int FROM reconciliation_providerhealth"
_WEBHOOKS = "SELECT count(*) FROM reconciliation_webhookevent WHERE processed_at IS NULL"


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """`/internal/metrics`, for whoever brings METRICS_TOKEN as its bearer; without that setting there is no such page."""
    expected = settings.METRICS_TOKEN
    if not expected:
        return HttpResponseNotFound("METRICS_TOKEN is not set, so nothing is told here.\n", content_type="text/plain")
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), expected.encode()):
        refused = HttpResponse("Send METRICS_TOKEN as the bearer.\n", status=401, content_type="text/plain")
        refused.headers["WWW-Authenticate"] = 'Bearer realm="countermand metrics"'
        return refused
    registry = CollectorRegistry()
    registry.register(Figures())
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class Figures:
    """A Prometheus collector that asks anew at each scrape. A database that does not answer costs its figures, and shows as `up 0`."""

    def collect(self) -> Iterator[Metric]:
        began_s = time.monotonic()
        yield from _of_this_process()
        told: list[Metric] = []
        try:
            for group in (_times, _counts, _unknown, _looks, _cases, _approvals, _providers, _sweeps, _notifications, _records):
                told += group()
            up = 1
        except DatabaseError:
            log.warning("the figures could not be read", exc_info=True)
            up, told = 0, []
        yield from told
        yield gauge("database_up", "Whether the database gave every figure of this scrape.", up)
        yield gauge("scrape_seconds", "How long this scrape took.", time.monotonic() - began_s)


def gauge(name: str, told: str, value: float) -> Metric:
    """One number."""
    return GaugeMetricFamily(f"countermand_{name}", told, value=value)


def gauges(name: str, told: str, labels: tuple[str, ...], values: Iterable[tuple[tuple[str, ...], float]]) -> Metric:
    """One number for each combination of labels."""
    family = GaugeMetricFamily(f"countermand_{name}", told, labels=labels)
    for of, value in values:
        family.add_metric(of, value)
    return family


def _of_this_process() -> Iterator[Metric]:
    yield gauge("sockets", "Pages connected to this web process.", hub.connected())
    lag_s = tail.lag_s
    if lag_s is not None:
        yield gauge("tail_lag_seconds", "Age of the moment up to which this process has told every event.", lag_s)


def _times() -> Iterator[Metric]:
    for name, column in _FROM_ASKED.items():
        age = f"extract(epoch FROM {column} - asked_at)::float"
        ((count, p50, p95, most),) = _rows(_TIMES.format(age), [WINDOW])
        told = {"0.5": p50, "0.95": p95, "1": most}
        about = f"From cancel accepted to {name}, of the cancels asked within the last hour."
        yield gauges(f"time_to_{name}_seconds", about, ("quantile",), [((q,), v) for q, v in told.items() if v is not None])
        yield gauge(f"time_to_{name}_count", f"How many of those cancels were {name} by now.", count)


def _counts() -> Iterator[Metric]:
    yield CounterMetricFamily("countermand_cancels", "Runs that were ever asked to stop.", value=_number(_CANCELS))
    refused = _number(_REFUSED)
    yield CounterMetricFamily("countermand_refused_after_cancel", "Attempts to act that were refused after a cancel.", value=refused)
    yield gauges("runs_open", "Runs that are not closed.", ("state",), [((state,), count) for state, count in _rows(_RUNS)])


def _unknown() -> Iterator[Metric]:
    rows = _rows(_UNKNOWN)
    labels = ("provider", "state")
    yield gauges("effects_in_doubt", "Effects whose outcome is not known.", labels, [((p, s), count) for p, s, count, _ in rows])
    yield gauges("effects_in_doubt_oldest_seconds", "Age of the oldest of them.", labels, [((p, s), age) for p, s, _, age in rows])


def _looks() -> Iterator[Metric]:
    rows = _rows(_LOOKS)
    yield gauges("looks_due", "Effects that should be looked up by now.", ("provider",), [((p,), count) for p, count, _ in rows])
    yield gauges("looks_overdue_seconds", "How late the latest of them is.", ("provider",), [((p,), age) for p, _, age in rows])


def _cases() -> Iterator[Metric]:
    rows = _rows(_CASES)
    yield gauges("cases_open", "Cases that are not settled.", ("kind", "state"), [((k, s), count) for k, s, count, _ in rows])
    yield gauges("cases_oldest_seconds", "Age of the oldest of them.", ("kind", "state"), [((k, s), age) for k, s, _, age in rows])


def _approvals() -> Iterator[Metric]:
    ((count, oldest_s),) = _rows(_APPROVALS)
    yield gauge("approvals_waiting", "Questions that wait for an approver.", count)
    yield gauge("approvals_oldest_seconds", "Age of the oldest of them.", oldest_s)
    rows = _rows(_UNDOS)
    yield gauges("undo_requests", "Requests to undo that are not over.", ("state",), [((s,), count) for s, count, _ in rows])
    yield gauges("undo_requests_oldest_seconds", "Age of the oldest of them.", ("state",), [((s,), age) for s, _, age in rows])


def _providers() -> Iterator[Metric]:
    yield gauges(
        "provider_unreachable", "1 while a provider cannot be asked.", ("provider",), [((p,), down) for p, down in _rows(_PROVIDERS)]
    )
    yield gauge("webhooks_unprocessed", "Webhooks that are stored and not used yet.", _number(_WEBHOOKS))


def _sweeps() -> Iterator[Metric]:
    ages = beats.ages_s()
    ran = [((task,), age) for task, age in ages.items() if age is not None]
    yield gauges("sweep_age_seconds", "Since each scheduled task last came to its end.", ("task",), ran)
    yield gauge("sweeps_late", "Frequent sweeps that have not come to their end lately, or never.", len(beats.late()))


def _notifications() -> Iterator[Metric]:
    waiting = notifications.waiting()
    yield gauge("notifications_pending", "Messages that have not arrived yet.", waiting["pending"])
    yield gauge("notifications_oldest_seconds", "Age of the oldest of them.", waiting["oldest_s"])
    yield gauge("notifications_behind_seconds", "How far following the event log is behind.", waiting["behind_s"])
    yield gauge("notifications_given_up", "Messages that never arrived.", waiting["given_up"])
    yield gauge("notification_endpoints_disabled", "Endpoints to which nothing is sent.", waiting["disabled"])


def _records() -> Iterator[Metric]:
    yield gauge("records_disagree", "Discrepancies of the records that are open: 0 is well.", integrity.open_count())
    last = integrity.last_check()
    if last is not None:
        yield gauge("records_checked_timestamp_seconds", "When the records were last judged.", last.finished_at.timestamp())


def _number(sql: str) -> int:
    ((value,),) = _rows(sql)
    return int(value)


def _rows(sql: str, values: list[Any] | None = None) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values or [])
        return cursor.fetchall()
