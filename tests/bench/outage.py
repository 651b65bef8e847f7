"""After an outage: ten thousand effects in doubt, one Celery worker as operations.md starts it, and people who go on cancelling.

The supplier is a process of its own that really is gone and comes back; its rate limit is lifted, so that nothing spares the database.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.bench import ground

EFFECTS = int(os.environ.get("BENCH_EFFECTS", "10000"))
PER_RUN = 100
POOL = os.environ.get("BENCH_POOL", "prefork")
NEVER_ARRIVED_EVERY = 50  # of these the supplier knows nothing: they prove absent, by two looks some time apart
CANCELS_QUIET = 60
LINE = {"sku": "A", "quantity": 1, "unit_price": "1.00"}
ALERT_WITHIN_S = 120
SETTLED_WITHIN_S = 1200


def measure() -> dict[str, Any]:
    """Looks a second of one worker, how long the ten thousand took, and cancel → receipt before and meanwhile, in milliseconds."""
    from console.embedded import processes
    from console.embedded.processes import LOCALHOST, Processes, free_port, make_broker_folder
    from console.models import Credential
    from runs import actors

    store = ground.HOME / "bench-supplier.sqlite3"
    store.unlink(missing_ok=True)
    make_broker_folder(ground.HOME / "broker")
    port, web = free_port(), free_port()
    url = f"http://{LOCALHOST}:{port}"
    known = {"COUNTERMAND_PROVIDERS": json.dumps({"supplier": _supplier(url)})}
    supplier = processes.supplier(port, store, "", "", known)
    _, token = Credential.issue("bench", scopes=sorted(actors.MACHINE_SCOPES), agents=["*"])
    try:
        with Processes(ground.HOME / "logs" / "bench") as running:
            running.start(supplier)
            running.wait_until_ready("supplier")
            _fill(url)
            running.stop("supplier")
            running.start(processes.web(web, known))
            running.wait_until_ready("web")
            with _canceller(f"http://{LOCALHOST}:{web}/api/v1", token) as cancel:
                quiet = [cancel() for _ in range(CANCELS_QUIET)]
                running.start(processes.celery_worker(known, POOL))
                running.start(processes.celery_beat(known))
                _until(_alerted, ALERT_WITHIN_S)
                running.start(supplier)
                running.wait_until_ready("supplier")
                return _settle(cancel) | _told("nothing else going on", quiet)
    finally:
        store.unlink(missing_ok=True)


def _supplier(url: str) -> dict[str, Any]:
    return {"kind": "supplier", "url": url, "capability": {"rate_per_s": 100000}}


def _fill(url: str) -> None:
    """Effects as a worker declares them and reports that it got no answer, each with its order at the supplier."""
    from django.conf import settings

    from ledger import catalogue, intents, outcomes
    from ledger.operations import Intent
    from runs import actors, lifecycle, steps
    from runs.actors import Actor

    settings.PROVIDERS["supplier"] = _supplier(url)
    catalogue.forget()
    worker = Actor("machine", "bench", "bench", "api", actors.MACHINE_SCOPES, frozenset({"*"}))
    with httpx.Client(base_url=url, trust_env=False) as at_supplier:
        for first in range(0, EFFECTS, PER_RUN):
            made = lifecycle.create(worker, lifecycle.NewRun("bench", "Bench", {}), holder="w", ttl_s=600)
            token = made.grant.token  # type: ignore[union-attr]
            steps.start(worker, made.run.pk, token, steps.NewStep(key="s"))
            for number in range(first, min(first + PER_RUN, EFFECTS)):
                wanted = Intent("s", "supplier", "create_order", f"L-{number}", {}, ordinal=number - first, amount=100, currency="EUR")
                sent = intents.declare(worker, made.run.pk, token, f"nonce-{number:012}", wanted)
                outcomes.report(worker, sent.effect.pk, 1, "unknown")
                if number % NEVER_ARRIVED_EVERY:
                    order = {"reference": f"L-{number}", "currency": "EUR", "total": "1.00", "lines": [LINE]}
                    key = {"Idempotency-Key": str(sent.effect.pk)}
                    at_supplier.post("/orders", json=order, headers=key).raise_for_status()


@contextmanager
def _canceller(url: str, token: str) -> Iterator[Callable[[], float]]:
    """Starts a run and cancels it over HTTP; the milliseconds from asking to the receipt."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=40, trust_env=False) as client:

        def cancel() -> float:
            body = {"agent": "bench", "title": "Bench", "claim": {"holder": "w", "ttl_s": 600}}
            run = client.post("/runs", json=body).raise_for_status().json()["run"]
            began = time.perf_counter()
            client.post(f"/runs/{run['id']}/cancellation", json={"mode": "cancel"}).raise_for_status()
            return (time.perf_counter() - began) * 1000

        yield cancel


def _settle(cancel: Callable[[], float]) -> dict[str, Any]:
    """Left alone until half of it is settled, which tells the looks a second; then a run is cancelled every quarter of a second."""
    began, cancels, course = time.monotonic(), [], [(0.0, 0)]
    while (settled := _settled()) < EFFECTS and time.monotonic() - began < SETTLED_WITHIN_S:
        if settled < EFFECTS / 2:
            course.append((time.monotonic() - began, settled))
        else:
            cancels.append(cancel())
        time.sleep(0.25)
    took_s = time.monotonic() - began
    (from_s, from_done), (to_s, to_done) = next(one for one in course if one[1] >= 0.05 * EFFECTS), course[-1]
    return {
        f"effects in doubt after the outage / settled by themselves, s={took_s:.0f}": f"{EFFECTS:,} / {settled:,}",
        "of them landed / absent / with a person": " / ".join(str(count) for count in _ends()),
        f"settled by looks a second, one worker ({POOL})": round((to_done - from_done) / (to_s - from_s)),
        **_told(f"meanwhile ({len(cancels)} cancels)", cancels),
    }


def _told(when: str, cancels: list[float]) -> dict[str, Any]:
    shares = " / ".join(f"{ground.percentile(cancels, share):.0f}" for share in (0.5, 0.95))
    return {f"cancel → receipt, {when}, ms p50 / p95": shares}


def _settled() -> int:
    from ledger.models import Effect

    return Effect.objects.filter(business_ref__startswith="L-", state__in=("landed", "absent")).count()


def _ends() -> list[int]:
    from ledger.models import Effect

    mine = Effect.objects.filter(business_ref__startswith="L-")
    return [mine.filter(state=state).count() for state in ("landed", "absent", "ambiguous")]


def _alerted() -> bool:
    from reconciliation.models import ProviderHealth

    return ProviderHealth.objects.filter(pk="supplier", alerted_at__isnull=False).exists()


def _until(true: Callable[[], bool], within_s: float) -> None:
    by = time.monotonic() + within_s
    while not true():
        if time.monotonic() > by:
            raise TimeoutError(f"{true.__name__} is not true after {within_s:.0f} s")
        time.sleep(0.2)


if __name__ == "__main__":
    with ground.ready():
        for name, value in measure().items():
            print(f"{name:75} {value}")  # noqa: T201
