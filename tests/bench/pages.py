"""Every page and list with a million runs behind it, beside the same page with three hundred. `BENCH_RUNS` makes it smaller."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from tests.bench import ground

RUNS = int(os.environ.get("BENCH_RUNS", "1000000"))
FEW = 300
BLOCKS, TIMES = int(os.environ.get("BENCH_BLOCKS", "3")), int(os.environ.get("BENCH_TIMES", "8"))
TARGET_MS = 150
METRICS_TOKEN = "bench-metrics-token"  # noqa: S105 - for a page of this process alone

Path = Callable[[random.Random], str]


def measure() -> dict[str, Any]:
    """Milliseconds (p50 / p95) of every page with `RUNS` runs, and how many times as long as with `FEW`. In turns, a block of each, so
    that a noisy neighbour hits both; within a block the connection stays, as it does in a web process."""
    few: dict[str, list[float]] = {}
    many: dict[str, list[float]] = {}
    for block in range(BLOCKS):
        for runs, times in ((FEW, few), (RUNS, many)):
            with ground.seeded(runs):
                _ask_all(times, block)
    told = {name: _words(times, few.get(name)) for name, times in many.items()}
    over = [name for name, times in many.items() if ground.percentile(times, 0.95) > TARGET_MS]
    told[f"slower than {TARGET_MS} ms at p95"] = "; ".join(over) or "none"
    from tests.bench import browsing

    with ground.seeded(RUNS):
        told |= browsing.measure()
    return told | {"load of this machine meanwhile (1, 5, 15 min)": " ".join(f"{load:.1f}" for load in os.getloadavg())}


def _words(times: list[float], few: list[float] | None) -> str:
    ratio = f"x {ground.percentile(times, 0.5) / ground.percentile(few, 0.5):.2f}" if few else ""
    return f"{ground.percentile(times, 0.5):6.1f} / {ground.percentile(times, 0.95):6.1f} ms   {ratio}"


def _ask_all(times: dict[str, list[float]], block: int) -> None:
    """Every page, several times over."""
    from django.conf import settings

    settings.METRICS_TOKEN = METRICS_TOKEN
    client, wanted = _client(), os.environ.get("BENCH_ONLY", "")
    paths = {name: path for name, path in _paths(Known()) if wanted in name}
    for turn in range(TIMES + 1):
        chance = random.Random(block * TIMES + turn)
        for name, path in paths.items():
            began = time.perf_counter()
            _ask(client, path(chance))
            if turn:  # the first time also compiles the template
                times.setdefault(name, []).append((time.perf_counter() - began) * 1000)


def _ask(client: Any, path: str) -> None:
    if path.startswith("POST "):
        response = client.post(path[5:], {"form": "csv"})
        assert response.status_code == 200, (path, response.status_code)
        next(iter(response.streaming_content))
        response.close()
        return
    headers = {"HTTP_AUTHORIZATION": f"Bearer {METRICS_TOKEN}"} if path.startswith("/internal/") else {}
    response = client.get(path, follow=True, **headers)
    assert response.status_code == 200, (path, response.status_code)


def _client() -> Any:
    from django.test import Client

    client = Client()
    client.force_login(person(), backend="django.contrib.auth.backends.ModelBackend")
    return client


def person() -> Any:
    """Somebody who may see every page."""
    from django.contrib.auth.models import Group, User

    user, made = User.objects.get_or_create(username="bench", defaults={"first_name": "Bea", "last_name": "Bench"})
    if made:
        user.groups.set(Group.objects.all())
    return user


@dataclass
class Known:
    """What there is to ask for in the database, found once."""

    def __post_init__(self) -> None:
        from ledger.models import Effect
        from reconciliation.models import Case
        from runs.models import Event, Run

        spread = "SELECT * FROM {} TABLESAMPLE BERNOULLI (%s) LIMIT 500"
        runs = _count(Run)
        share = min(100.0, 100 * 1000 / max(runs, 1))
        self.runs = list(Run.objects.raw(spread.format("runs_run"), [share]))
        self.effects = list(Effect.objects.raw(spread.format("ledger_effect"), [share]))
        self.stopped = [run for run in self.runs if run.cancel_position is not None] or self.runs
        self.cases = list(Case.objects.exclude(state="settled").values_list("ref", flat=True)[:200])
        self.newest, self.oldest = Run.objects.latest("created_at"), Run.objects.earliest("created_at")
        people = Event.objects.filter(actor_type="person", kind="cancel.accepted").exclude(actor_name__startswith="Qzx")
        self.busy = _commonest(people.values_list("actor_name", flat=True)[:5000])
        self.rare = _rarest()
        longest = Run.objects.filter(version__gte=4000).order_by("-version").first()
        self.longest = longest or self.newest

    def some(self, chance: random.Random) -> Any:
        """Any run."""
        return chance.choice(self.runs)

    def moment(self, chance: random.Random) -> Any:
        """Any time that there are runs of."""
        return self.oldest.created_at + (self.newest.created_at - self.oldest.created_at) * chance.random()


def _count(model: Any) -> int:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT greatest(reltuples, 1)::bigint FROM pg_class WHERE oid = %s::regclass", [model._meta.db_table])
        return int(cursor.fetchone()[0])


def _commonest(names: Any) -> str:
    found = list(names)
    return max(set(found), key=found.count) if found else "Ana Berg"


def _rarest() -> str:
    """The last of the staff acts least."""
    from django.contrib.auth.models import User

    last = User.objects.exclude(username="bench").order_by("-pk").exclude(pk__gte=910_000_000).first()
    return last.get_full_name() if last else "Nobody"


def _paths(known: Known) -> Iterator[tuple[str, Path]]:
    """Every page by its name."""
    yield from _run_pages(known)
    yield from _queues(known)
    yield from _audit(known)
    yield from _others(known)


def _run_pages(known: Known) -> Iterator[tuple[str, Path]]:
    import uuid

    from runs.queries import make_cursor

    def runs(**query: Any) -> Path:
        return lambda _: f"/runs/?{urlencode(query, doseq=True)}"

    def at(moment: Any) -> str:
        return f"{moment:%Y-%m-%dT%H:%M}"

    def day(chance: random.Random, length: timedelta = timedelta(days=1)) -> dict[str, str]:
        began = known.moment(chance)
        return {"started_from": at(began), "started_to": at(began + length)}

    def deep(chance: random.Random, backwards: bool = False, **query: Any) -> str:
        return f"/runs/?{urlencode(query | {'cursor': make_cursor(backwards, known.moment(chance), uuid.UUID(int=0))}, doseq=True)}"

    yield "runs, all", runs()
    yield "runs, 100 rows", runs(size=100)
    yield "runs, older page, anywhere", deep
    yield "runs, newer page, anywhere", lambda chance: deep(chance, True)
    yield "runs, state completed", runs(status="completed")
    yield "runs, state cancelled with effects pending", runs(status="cancelled_pending")
    yield "runs, states running and writing", runs(status=["running", "writing"])
    yield "runs, needs a person", runs(person=1)
    yield "runs, has unknown effects", runs(doubtful=1)
    yield "runs, common agent", runs(agent="refunds")
    yield "runs, rare agent", runs(agent="archive")
    yield "runs, started on one day", lambda chance: f"/runs/?{urlencode(day(chance))}"
    yield "runs, started in one minute", lambda chance: f"/runs/?{urlencode(day(chance, timedelta(minutes=1)))}"
    yield "runs, started before a day", lambda chance: f"/runs/?{urlencode({'started_to': at(known.moment(chance))})}"
    yield "runs, started after now", runs(started_from="2100-01-01T00:00")
    yield "runs, cancel by somebody busy", runs(cancelled_by=known.busy)
    yield "runs, cancel by somebody who rarely does", runs(cancelled_by=known.rare)
    yield "runs, cancel by nobody", runs(cancelled_by="Nobody Here")
    yield "runs, cancel by me", runs(cancelled_by="me")
    yield "runs, agent, state and day", lambda c: f"/runs/?{urlencode(day(c) | {'agent': 'claims', 'status': 'cancelled'})}"
    yield "runs, rare agent and state", runs(agent="archive", status=["cancelled", "terminated", "failed"])
    yield "runs, agent, person and state", runs(agent="refunds", cancelled_by=known.busy, status="cancelled")
    yield "runs, older page of a state", lambda chance: deep(chance, status="failed")
    yield "runs, q reference", lambda chance: f"/runs/?q={known.some(chance).ref}"
    yield "runs, q business reference", lambda chance: f"/runs/?q={known.some(chance).business_ref}"
    yield "runs, q start of a business reference", runs(q="RE-1234")
    yield "runs, q start that many old ones have", runs(q="RE-1")
    yield "runs, q provider's id", lambda chance: f"/runs/?q={chance.choice(known.effects).external_id or 'OB-1'}"
    yield "runs, q nothing", runs(q="no such thing")
    yield "run, any", lambda chance: f"/runs/{known.some(chance).ref}/"
    yield "run, cancelled", lambda chance: f"/runs/{chance.choice(known.stopped).ref}/"
    yield "run, 5,000 on its timeline", lambda _: f"/runs/{known.longest.ref}/"
    yield "run, 5,000 on its timeline, earlier", lambda _: f"/runs/{known.longest.ref}/?before=2500"


def _queues(known: Known) -> Iterator[tuple[str, Path]]:
    for tab in ("unclaimed", "all", "settled"):
        yield f"cases, {tab}", lambda _, tab=tab: f"/cases/?tab={tab}"  # type: ignore[misc]
    if known.cases:
        yield "case, any", lambda chance: f"/cases/{chance.choice(known.cases)}/"
    for tab in ("to_decide", "asked", "decided"):
        yield f"approvals, {tab}", lambda _, tab=tab: f"/approvals/?tab={tab}"  # type: ignore[misc]


def _audit(known: Known) -> Iterator[tuple[str, Path]]:
    def audit(**query: Any) -> Path:
        return lambda _: f"/audit/?{urlencode(query, doseq=True)}"

    def days(chance: random.Random, length: timedelta) -> dict[str, str]:
        began = known.moment(chance)
        return {"since": f"{began:%Y-%m-%dT%H:%M}", "until": f"{began + length:%Y-%m-%dT%H:%M}"}

    def deep(chance: random.Random, **query: Any) -> str:
        return f"/audit/?{urlencode(query | {'place': f'o{int(known.moment(chance).timestamp())}.000000-1'})}"

    yield "audit, all", audit()
    yield "audit, older page, anywhere", deep
    yield "audit, people only", audit(people=1)
    yield "audit, somebody busy", audit(actor=known.busy)
    yield "audit, somebody who rarely acts", audit(actor=known.rare)
    yield "audit, a machine", audit(actor="tok-archive")
    yield "audit, nobody", audit(actor="Nobody Here")
    yield "audit, me", audit(actor="me")
    yield "audit, common kind", audit(kind="effect.landed")
    yield "audit, rare kind", audit(kind="terminate.accepted")
    yield "audit, group of kinds", audit(kind="cancel")
    yield "audit, group of common kinds", audit(kind="step")
    yield "audit, state reached, common", audit(state="run.completed")
    yield "audit, state reached, rare", audit(state="effect.conflicted")
    yield "audit, one run", lambda chance: f"/audit/?run={known.some(chance).ref}"
    yield "audit, one action", lambda chance: f"/audit/?effect={chance.choice(known.effects).ref}"
    yield "audit, common provider", audit(provider="payments")
    yield "audit, rare provider", audit(provider="old-bank")
    yield "audit, unknown provider", audit(provider="nobody")
    yield "audit, common currency", audit(currency="USD")
    yield "audit, rare currency", audit(currency="CHF")
    yield "audit, narrow amounts", audit(currency="EUR", amount_from="5000.00", amount_to="5050.00")
    yield "audit, wide amounts", audit(currency="EUR", amount_from="10.00", amount_to="1000.00")
    yield "audit, largest amounts", audit(currency="GBP", amount_from="20000.00")
    yield "audit, quiet after more than a minute", audit(quiet_over=60)
    yield "audit, quiet after more than a second", audit(quiet_over=1)
    yield "audit, one day", lambda chance: f"/audit/?{urlencode(days(chance, timedelta(days=1)))}"
    yield "audit, one day, people", lambda chance: f"/audit/?{urlencode(days(chance, timedelta(days=1)) | {'people': 1})}"
    yield "audit, an hour of one provider", lambda c: f"/audit/?{urlencode(days(c, timedelta(hours=1)) | {'provider': 'mailer'})}"
    yield (
        "audit, rare provider, person, month",
        lambda c: f"/audit/?{urlencode(days(c, timedelta(days=30)) | {'provider': 'old-bank', 'people': 1})}",
    )
    yield "audit, amounts and kind", audit(currency="EUR", amount_from="1000.00", amount_to="2000.00", kind="effect.refused")
    yield "audit, story of any run", lambda chance: f"/audit/runs/{known.some(chance).ref}/"
    yield "audit, story of a cancelled run", lambda chance: f"/audit/runs/{chance.choice(known.stopped).ref}/"
    yield "audit, what an export would hold", lambda _: "/audit/export?people=1"
    yield "audit, export begins", lambda _: "POST /audit/export?people=1"
    yield "audit, export of everything begins", lambda _: "POST /audit/export"


def _others(known: Known) -> Iterator[tuple[str, Path]]:
    yield "search, reference", lambda chance: f"/search/?q={known.some(chance).ref}"
    yield "search, business reference", lambda chance: f"/search/?q={chance.choice(known.effects).business_ref}"
    yield "search, provider's id", lambda chance: f"/search/?q={chance.choice(known.effects).external_id or 'OB-1'}"
    yield "search, operation id", lambda chance: f"/search/?q={chance.choice(known.effects).pk}"
    yield "search, agent", lambda _: "/search/?q=refunds"
    yield "search, label", lambda chance: f"/search/?{urlencode({'q': f'customer=c-{chance.randrange(50_000)}'})}"
    yield "search, common label", lambda _: "/search/?q=region%3Deu"
    yield "search, nothing", lambda _: "/search/?q=nothing-of-that-name"
    yield "metrics, 7 days", lambda _: "/metrics/?days=7"
    yield "metrics, 30 days", lambda _: "/metrics/?days=30"
    yield "Prometheus", lambda _: "/internal/metrics"
    yield "GET /runs", lambda _: "/api/v1/runs"
    yield "GET /effects", lambda _: "/api/v1/effects"
    yield "GET /effects of a rare provider", lambda _: "/api/v1/effects?provider=old-bank"
    yield "GET /effects, unknown ones", lambda _: "/api/v1/effects?state=unknown"
    yield "GET /cases", lambda _: "/api/v1/cases"


if __name__ == "__main__":
    with ground.ready():
        if len(sys.argv) > 1:
            RUNS = int(sys.argv[1])
        for name, value in measure().items():
            print(f"{name:45} {value}")  # noqa: T201
