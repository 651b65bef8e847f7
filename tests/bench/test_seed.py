"""The seeded database: its records agree, every page of it answers through an index, in a number of queries that does not grow."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import psycopg
import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoDbBlocker

from ledger.models import Effect
from reconciliation import integrity
from reconciliation.models import Discrepancy
from runs import states
from runs.models import Event, Run
from tests import platform
from tests.bench import seed
from tests.conftest import empty_tables

RUNS = 600
BIG = ("runs_run", "runs_event", "ledger_effect", "ledger_attempt", "ledger_evidence", "runs_step", "runs_lease", "ledger_account")


@pytest.fixture(scope="module")
def world_of_many(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[str, int]]:
    """A database with some of everything, for all tests here."""
    with django_db_blocker.unblock():
        yield seed.seed(platform.OWNER_URL, RUNS, items=0)
        connections.close_all()
        empty_tables()


@pytest.fixture
def somebody(world_of_many: dict[str, int], django_db_blocker: DjangoDbBlocker) -> Iterator[Client]:
    """A client of somebody who may see every page."""
    with django_db_blocker.unblock():
        user, _ = User.objects.get_or_create(username="reader")
        user.groups.set(Group.objects.all())
        client = Client()
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        yield client
        connections.close_all()


def asked(client: Client, path: str) -> list[str]:
    """The statements that a page needs."""
    with CaptureQueriesContext(connection) as captured:
        assert client.get(path).status_code == 200, path
    return [query["sql"] for query in captured if query["sql"].lstrip().startswith(("SELECT", "WITH"))]


def plans(statements: list[str]) -> dict[str, str]:
    """How each statement about a big table would be answered if reading a whole table cost too much."""
    about = [sql for sql in statements if any(table in sql for table in BIG)]
    with psycopg.connect(platform.OWNER_URL) as owner:
        owner.execute("SET enable_seqscan = off")
        return {sql: "\n".join(line for (line,) in owner.execute(f"EXPLAIN {sql}").fetchall()) for sql in about}  # type: ignore[call-overload]


def test_the_records_agree(somebody: Client, world_of_many: dict[str, int]) -> None:
    integrity.check_all()
    assert [one.sentence for one in Discrepancy.objects.all()] == []
    assert Run.objects.count() >= RUNS and 0.85 < world_of_many["runs_event"] / (seed.EVENTS_PER_RUN * world_of_many["runs_run"]) < 1.15
    assert set(Run.objects.values_list("agent", flat=True)) >= {"refunds", "invoices"}
    assert set(Effect.objects.values_list("currency", flat=True)) >= {"EUR", "USD"}
    assert {"completed", "failed", "cancelled", "terminated", "running", "scheduled"} <= set(Run.objects.values_list("status", flat=True))
    assert set(Run.objects.values_list("state", flat=True)) <= set(states.STATES)


def test_every_copy_has_names_of_its_own(somebody: Client) -> None:
    marked = Run.objects.filter(agent="agent-qzx").count()
    assert Run.objects.count() - marked >= RUNS and marked < 60  # the stories themselves
    assert not Event.objects.exclude(run__agent="agent-qzx").filter(actor_name__contains="qzx", run__isnull=False).exists()


def pages() -> list[str]:
    """Lists with every filter, and pages of one thing."""
    queries: dict[str, list[dict[str, Any]]] = {
        "/runs/": [
            {}, {"size": 100}, {"status": "completed"}, {"person": 1}, {"doubtful": 1}, {"agent": "claims"}, {"q": "RE-1"},
            {"started_from": "2026-01-01T00:00", "started_to": "2026-01-01T00:01"}, {"cancelled_by": "Eva Diaz"},
        ],
        "/audit/": [
            {}, {"people": 1}, {"actor": "Eva Diaz"}, {"actor": "Nobody"}, {"kind": "cancel"},
            {"provider": "old-bank"}, {"provider": "payments"}, {"currency": "EUR", "amount_from": "1", "amount_to": "2"},
            {"quiet_over": 3}, {"since": "2026-01-01T00:00", "until": "2026-01-02T00:00"},
        ],
        "/cases/": [{}, {"tab": "settled"}], "/approvals/": [{}, {"tab": "decided"}], "/metrics/": [{"days": 30}],
        "/search/": [{"q": "customer=c-1"}, {"q": "OB-1"}],
    }  # fmt: skip
    return [f"{path}?{urlencode(query)}" for path, asked_for in queries.items() for query in asked_for]


QUERIES_MAX = {"/runs/": 28, "/audit/": 24, "/cases/": 24, "/approvals/": 26, "/metrics/": 30, "/search/": 26}


@pytest.mark.parametrize("path", pages())
def test_a_page_needs_few_queries_none_of_which_reads_a_whole_table(somebody: Client, path: str) -> None:
    statements = asked(somebody, path)
    assert len(statements) <= QUERIES_MAX[path.partition("?")[0]], "\n".join(statements)
    for sql, plan in plans(statements).items():
        assert "OFFSET" not in sql.upper(), sql
        assert not re.search(rf"Seq Scan on ({'|'.join(BIG)})\b", plan), f"{sql}\n{plan}"


def test_the_page_of_a_run_needs_few_queries(somebody: Client) -> None:
    for run in (Run.objects.filter(status="cancelled").latest("created_at"), Run.objects.filter(status="completed").latest("version")):
        assert len(asked(somebody, f"/runs/{run.ref}/")) <= 36
        assert len(asked(somebody, f"/audit/runs/{run.ref}/")) <= 36


FINDS = {
    "/audit/?actor=Eva+Diaz": "event_by_person",
    "/audit/?actor=tok-refunds": "event_by_machine",
    "/audit/?people=1": "event_of_people",
    "/audit/?kind=terminate.accepted": "event_rare_kind",
    "/audit/?provider=old-bank": "effect_by_provider",
    "/audit/?currency=CHF&amount_from=1&amount_to=2": "effect_by_amount",
}


@pytest.mark.parametrize("path", FINDS)
def test_what_is_rare_is_found_by_its_own_index(somebody: Client, path: str) -> None:
    found = plans(asked(somebody, path))
    assert any(FINDS[path] in plan for plan in found.values()), "\n\n".join(found.values())


def test_however_often_a_list_is_asked_for_it_is_planned_for_what_it_asks(somebody: Client) -> None:
    for _ in range(7):
        somebody.get("/runs/?person=1")
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements WHERE statement LIKE %s", ["%needs_person%LIMIT 10001%"])
        assert cursor.fetchall() == []
        assert connection.connection.prepare_threshold == 5  # and the verbs of this process are prepared as before
