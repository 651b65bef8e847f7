"""The queue of cases with 100,000 of them, beside the same with 300."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.bench import ground

CASES = 100_000
PAGES = 60


def measure() -> dict[str, Any]:
    """Milliseconds of the page and of the API's list as a signed-in person gets them, rendering included."""
    from django.contrib.auth.models import Group, User
    from django.test import Client

    user = User.objects.create(username="bench")
    user.groups.set([Group.objects.get(name="Support")])
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    _fill(300)
    few = _timed(client, "/cases/")
    _fill(CASES - 300)
    many = _timed(client, "/cases/")
    return {
        "queue page, 300 cases, ms p50 / p95": _words(few),
        f"queue page, {CASES:,} cases, ms p50 / p95": _words(many),
        "queue page, 100,000 cases / 300 cases, p50": round(ground.percentile(many, 0.5) / ground.percentile(few, 0.5), 2),
        f"queue found by reference, {CASES:,}, ms p50 / p95": _words(_timed(client, "/cases/?tab=all&q=PO-77")),
        f"GET /cases, {CASES:,}, ms p50 / p95": _words(_timed(client, "/api/v1/cases")),
    }


def _fill(count: int) -> None:
    """Cases as sweeps would have opened them, written in bulk: only their number matters here."""
    import psycopg

    with psycopg.connect(ground.SERVER.owner_url(), autocommit=True) as owner:
        owner.execute(
            "INSERT INTO reconciliation_case (id, ref, kind, state, provider, business_ref, amount, currency, why, facts, opened_at,"
            " reopened, claimed_by, claimed_name, settled_by, version)"
            " SELECT gen_random_uuid(), 'Q-' || upper(substr(md5(random()::text), 1, 10)), 'orphan', 'open', 'supplier', 'PO-' || n,"
            " CASE WHEN n %% 5 = 0 THEN NULL ELSE (random() * 1000000)::bigint END,"
            " CASE WHEN n %% 5 = 0 THEN '' ELSE (ARRAY['EUR','USD','JPY'])[1 + n %% 3] END, 'Why.', %s,"
            " now() - random() * interval '30 days', 0, '', '', '', 1 FROM generate_series(1, %s) n",
            (json.dumps({}), count),
        )
        owner.execute("ANALYZE reconciliation_case")


def _timed(client: Any, path: str) -> list[float]:
    times = []
    for _ in range(PAGES):
        began = time.perf_counter()
        assert client.get(path).status_code == 200
        times.append((time.perf_counter() - began) * 1000)
    return times


def _words(times: list[float]) -> str:
    return f"{ground.percentile(times, 0.5):.0f} / {ground.percentile(times, 0.95):.0f}"


if __name__ == "__main__":
    with ground.ready():
        for name, value in measure().items():
            print(f"{name:55} {value}")  # noqa: T201
