"""What the benchmarks stand on: an embedded PostgreSQL of their own, durable as in production, migrated, serving as the app role.

Import this before Django's settings are read."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg

from console.embedded import postgres
from console.embedded.processes import make_broker_folder

HOME = Path(os.environ.get("COUNTERMAND_HOME") or Path(__file__).resolve().parents[2] / ".countermand")
SERVER = postgres.server("bench", HOME)
PROVIDERS = ("supplier", "payments", "courier", "mailer", "old-bank")
SEED_VERSION = 1  # raise it when tests/bench/seed.py or stories.py writes other rows
os.environ.update(
    COUNTERMAND_TEST="1",
    DATABASE_URL=SERVER.app_url(),
    DATABASE_OWNER_URL=SERVER.owner_url(),
    DJANGO_SETTINGS_MODULE="console.settings",
    COUNTERMAND_PROVIDERS=json.dumps(dict.fromkeys(PROVIDERS, {"kind": "supplier", "url": "http://127.0.0.1:9"})),
)


@contextlib.contextmanager
def ready() -> Iterator[None]:
    """The server running, the schema fresh, Django set up."""
    make_broker_folder(HOME / "broker")  # hints go where they would go
    with postgres.running(SERVER):
        with psycopg.connect(SERVER.owner_url(), autocommit=True) as owner:
            owner.execute("DROP SCHEMA public CASCADE")
            owner.execute("CREATE SCHEMA public")
        _migrate()
        yield


def _migrate() -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from console.roles import grant_app_role

    app = dict(connection.settings_dict)
    owner = psycopg.conninfo.conninfo_to_dict(SERVER.owner_url())
    connection.settings_dict |= {"USER": owner["user"], "OPTIONS": {}}
    call_command("migrate", verbosity=0, interactive=False)
    grant_app_role(connection)
    connection.close()
    connection.settings_dict.update(app)


@contextlib.contextmanager
def seeded(runs: int) -> Iterator[None]:
    """A database with so many runs behind Django's connection and `DATABASE_URL`. It is kept for the next time, newer migrations are
    applied to it, and it is made anew when its seed or an older migration has changed. The server must be running."""
    from django.db import connection

    from tests.bench import seed

    name = f"seeded_{runs}"
    before = dict(connection.settings_dict), os.environ["DATABASE_URL"]
    connection.close()
    with psycopg.connect(SERVER.url("postgres", "postgres"), autocommit=True) as server:
        fresh = not _still_good(server, name)
        if fresh:
            server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            server.execute(f"CREATE DATABASE {name} OWNER {postgres.OWNER}")
        connection.settings_dict["NAME"] = name
        os.environ["DATABASE_URL"] = SERVER.app_url(name)
        try:
            began = time.monotonic()
            _migrate()
            if fresh:
                items = seed.LONG_ITEMS if runs >= seed.LONG_ITEMS else 0
                seed.seed(SERVER.owner_url(name), runs, items, lambda told: print(f"  {name}: {told}", flush=True))  # noqa: T201
                server.execute(f"COMMENT ON DATABASE {name} IS '{SEED_VERSION}'")
            elif time.monotonic() - began > 2:
                print(f"  {name}: newer migrations took {time.monotonic() - began:.0f} s", flush=True)  # noqa: T201
            yield
        finally:
            connection.close()
            connection.settings_dict.update(before[0])
            os.environ["DATABASE_URL"] = before[1]


def _still_good(server: psycopg.Connection[Any], name: str) -> bool:
    """Whether that database was seeded to its end by the present seed, and by no migration that is gone."""
    from django.db.migrations.loader import MigrationLoader

    told = server.execute("SELECT shobj_description(oid, 'pg_database') FROM pg_database WHERE datname = %s", [name]).fetchone()
    if told is None or told[0] != str(SEED_VERSION):
        return False
    with psycopg.connect(SERVER.owner_url(name)) as owner:
        applied = owner.execute("SELECT app, name FROM django_migrations").fetchall()
    return set(applied) <= set(MigrationLoader(None).disk_migrations)


def rate(work: Callable[[int], None], count: int) -> float:
    """How many a second, over `count` calls in a row."""
    began = time.perf_counter()
    for number in range(count):
        work(number)
    return count / (time.perf_counter() - began)


def alternating(rounds: int, count: int, **works: Callable[[int], None]) -> dict[str, list[float]]:
    """Rates of several workloads measured in turns, so that a noisy neighbour hits all of them alike."""
    rates: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(rounds):
        for name, work in works.items():
            rates[name].append(rate(lambda number, work=work, turn=turn: work(turn * count + number), count))
    return rates


def percentile(values: list[float], share: float) -> float:
    """The value below which `share` (0 to 1) of the values lie."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def percentiles(values: list[float]) -> str:
    """The 50th, 95th and 99th, for people."""
    return " / ".join(str(round(percentile(values, share))) for share in (0.5, 0.95, 0.99)) if values else "-"


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Median of the ratios of neighbouring rounds."""
    return statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
