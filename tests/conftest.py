"""The database of the suite. Tests commit for real, as the app role, on as many connections as they like; afterwards
every table that has rows is emptied, except what the migrations put there."""

import contextlib
from collections.abc import Iterator

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, connections
from psycopg import sql
from pytest_django import DjangoDbBlocker

from console.roles import grant_app_role
from tests import makers, platform
from tests.world import world, world_processes  # noqa: F401 - fixtures for every test

KEPT = frozenset({"django_migrations", "django_content_type", "auth_permission", "auth_group", "auth_group_permissions"})


ON_SERVICES = ("tests/runs/", "tests/ledger/", "tests/reconciliation/", "tests/races/", "tests/console/test_database")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever of the domain touches the database must also hold on the oldest PostgreSQL that we support. And tests
    with real processes come last: those sweep the database, and would do the work of tests that call the sweeps."""
    for item in items:
        if item.nodeid.startswith(ON_SERVICES) and _uses(item, "django_db_setup"):
            item.add_marker(pytest.mark.services)
    items.sort(key=lambda item: _uses(item, "world_processes"))


def _uses(item: pytest.Item, fixture: str) -> bool:
    return fixture in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Makes this run's database: the owner migrates and grants, then everything else is the app role."""
    with platform.database(), django_db_blocker.unblock():
        with _as_owner():
            call_command("migrate", verbosity=0, interactive=False)
            grant_app_role(connection)
        yield
        connections.close_all()


@contextlib.contextmanager
def _as_owner() -> Iterator[None]:
    app = {key: connection.settings_dict[key] for key in ("USER", "PASSWORD", "OPTIONS")}
    owner = psycopg.conninfo.conninfo_to_dict(platform.OWNER_URL)
    connection.settings_dict |= {"USER": owner.get("user", ""), "PASSWORD": owner.get("password", ""), "OPTIONS": {}}
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict |= app


@pytest.fixture
def database(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A clean database for a test whose commits are real."""
    with django_db_blocker.unblock():
        yield
        connections.close_all()
        empty_tables()


@pytest.fixture
def counters(database: None) -> Iterator[None]:
    """The database, and in the end the counters of every run are what its effects say."""
    yield
    makers.assert_counters()


@pytest.fixture
def _django_db_helper(database: None) -> None:
    """pytest-django's own `db`, `transactional_db` and mark end here: they would roll back or TRUNCATE, and here the
    code under test commits and the history tables refuse TRUNCATE."""


def empty_tables(tries: int = 5) -> None:
    """Deletes every row that migrations did not make. Only the owner can, past the triggers that keep history. Tried
    again when a sweep of a process under test locks the same rows in another order."""
    for left in reversed(range(tries)):
        try:
            return _empty_tables_once()
        except psycopg.errors.DeadlockDetected:
            if not left:
                raise


def _empty_tables_once() -> None:
    with psycopg.connect(platform.OWNER_URL) as owner:
        owner.execute("LOCK TABLE runs_sealplace IN EXCLUSIVE MODE")  # no sweep of a process seals what is being removed
        owner.execute("LOCK TABLE reconciliation_webhookevent IN EXCLUSIVE MODE")  # or makes a case of news about it
        tables = owner.execute(
            "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = 'public' AND c.relkind = 'r' AND NOT c.relispartition"
        ).fetchall()
        names = [sql.Identifier(name) for (name,) in tables if name not in KEPT]
        probe = sql.SQL(" UNION ALL ").join(
            sql.SQL("(SELECT {} FROM {} LIMIT 1)").format(sql.Literal(name.as_string(owner)), name) for name in names
        )
        filled = [name for (name,) in owner.execute(probe).fetchall()]
        if filled:
            owner.execute("SET LOCAL session_replication_role = replica")
            for name in filled:
                owner.execute(sql.SQL("DELETE FROM {}").format(sql.SQL(name)))


@pytest.fixture
def owner_connection(database: None) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """A connection of the role that owns the tables, for what no application process may do."""
    with psycopg.connect(platform.OWNER_URL, autocommit=True) as owner:
        yield owner
