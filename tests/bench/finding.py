"""Finding out at size: looks a second from one worker against the supplier, and the queue's page with 100,000 cases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

from tests.bench import ground

LOOKS = 300
LINE = {"sku": "A", "quantity": 1, "unit_price": "1.00"}
CASES = 100_000
PAGES = 60


def measure() -> dict[str, Any]:
    """Looks a second, and milliseconds of the queue's page and of the API's list."""
    return _looks() | _queue()


def _looks() -> dict[str, Any]:
    """One process, as one thread of a Celery worker does it, against the supplier as a process of its own; no rate limit."""
    import httpx
    from django.conf import settings

    import console.celery  # noqa: F401 - hints go where they would go
    from console.embedded.processes import LOCALHOST, free_port, make_broker_folder
    from ledger import catalogue, intents, outcomes
    from ledger.models import Effect
    from ledger.operations import Intent
    from reconciliation import looks
    from runs import actors, lifecycle, steps
    from runs.actors import Actor

    port = free_port()
    url = f"http://{LOCALHOST}:{port}"
    settings.PROVIDERS["supplier"] = {"kind": "supplier", "url": url, "capability": {"rate_per_s": 100000}}
    catalogue.forget()
    store = ground.HOME / "bench-supplier.sqlite3"
    store.unlink(missing_ok=True)
    make_broker_folder(ground.HOME / "broker")
    command = [sys.executable, "-m", "examples.supplier", "--port", str(port), "--store", str(store)]
    supplier = subprocess.Popen(command, env={**os.environ}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
    try:
        for _ in range(100):
            try:
                httpx.get(f"{url}/log", timeout=1, trust_env=False)
                break
            except httpx.TransportError:
                time.sleep(0.1)
        worker = Actor("machine", "bench", "bench", "api", actors.MACHINE_SCOPES, frozenset({"*"}))
        made = lifecycle.create(worker, lifecycle.NewRun("bench", "Bench", {}), holder="w", ttl_s=600)
        token = made.grant.token  # type: ignore[union-attr]
        steps.start(worker, made.run.pk, token, steps.NewStep(key="s"))
        for number in range(LOOKS):
            wanted = Intent("s", "supplier", "create_order", f"L-{number}", {}, ordinal=number, amount=100, currency="EUR")
            sent = intents.declare(worker, made.run.pk, token, f"nonce-{number:012}", wanted)
            outcomes.report(worker, sent.effect.pk, 1, "unknown")
            order = {"reference": f"L-{number}", "currency": "EUR", "total": "1.00", "lines": [LINE]}
            httpx.post(f"{url}/orders", json=order, headers={"Idempotency-Key": str(sent.effect.pk)}, trust_env=False).raise_for_status()
        Effect.objects.filter(state="unknown").update(next_look_at=made.run.created_at)
        began = time.perf_counter()
        done = looks.look_for(60)
        return {f"looks a second ({done} looks, one thread)": round(done / (time.perf_counter() - began))}
    finally:
        supplier.terminate()
        supplier.wait(10)
        store.unlink(missing_ok=True)


def _queue() -> dict[str, Any]:
    """The page and the list as a signed-in person gets them, rendering included, with and without the 100,000."""
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
