"""What the suite stands on, loaded before Django's settings (`-p tests.platform`): which PostgreSQL it uses and under
what name. The database is this run's own, so two runs in one checkout do not meet; it never touches another one.

Without DATABASE_OWNER_URL it is the embedded PostgreSQL. With it (`make test-services`) it is that server."""

import base64
import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psutil
import psycopg
from psycopg import sql

from console.embedded import postgres
from console.embedded.processes import LOCALHOST, free_port, make_broker_folder

HOME = Path(os.environ.get("COUNTERMAND_HOME") or Path(__file__).resolve().parent.parent / ".countermand")
PREFIX = "countermand_test_"
NAME = f"{PREFIX}{os.getpid()}"
# A worker of pytest-xdist inherits what its controller has set below. Each has a server of its own, because what is told and sealed
# waits for every older transaction of a server.
WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
OUTER = {name: os.environ.get(f"SUITE_{name}", os.environ.get(name, "")) for name in ("DATABASE_OWNER_URL", "DATABASE_URL")}
os.environ.update({f"SUITE_{name}": url for name, url in OUTER.items()})
EXTERNAL_URL = OUTER["DATABASE_OWNER_URL"]
EMBEDDED = None if EXTERNAL_URL else postgres.server(f"test-{WORKER}" if WORKER else "test", HOME)


def named(url: str, database: str) -> str:
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


if EMBEDDED:
    MAINTENANCE_URL = EMBEDDED.owner_url("postgres")
    OWNER_URL, APP_URL = EMBEDDED.owner_url(NAME), EMBEDDED.app_url(NAME)
else:
    if not OUTER["DATABASE_URL"]:
        raise SystemExit("DATABASE_OWNER_URL is set: set DATABASE_URL too, with the role that the application uses.")
    MAINTENANCE_URL = EXTERNAL_URL
    OWNER_URL = named(MAINTENANCE_URL, NAME)
    APP_URL = named(OUTER["DATABASE_URL"], NAME)

# Subprocesses that a test starts find the same database the same way.
os.environ.update(COUNTERMAND_TEST="1", DATABASE_URL=APP_URL, DATABASE_OWNER_URL=OWNER_URL, CELERY_QUEUE=NAME)
# Where tests/world.py starts the supplier; nobody answers there unless a test asks for the world.
SUPPLIER_PORT = free_port()
SUPPLIER_URL = f"http://{LOCALHOST}:{SUPPLIER_PORT}"
WEBHOOK_SECRET = "whsec_" + base64.b64encode(b"only for the tests on this machine").decode()
SUPPLIER = {"kind": "supplier", "url": SUPPLIER_URL, "webhook_secrets": [WEBHOOK_SECRET]}
# Where tests/localstripe.py starts Stripe's emulator, for the tests that ask for it.
STRIPE_PORT = free_port()
STRIPE_URL = f"http://{LOCALHOST}:{STRIPE_PORT}"
STRIPE_WEBHOOK_SECRET = "whsec_only_for_the_tests_on_this_machine"
STRIPE = {"kind": "stripe", "api_key": "sk_test_countermand", "api_base": STRIPE_URL, "webhook_secrets": [STRIPE_WEBHOOK_SECRET]}
PROVIDERS = {"supplier": SUPPLIER, "stripe": STRIPE}
os.environ["COUNTERMAND_PROVIDERS"] = json.dumps(PROVIDERS)
# The same providers for the processes of tests/world.py, where minutes would be waited for in earnest: every time is short.
IMPATIENCE = {
    "max_in_flight_s": 0.3, "look_spacing_s": 0.4, "look_schedule_s": [0.2, 1, 2, 3, 4, 6, 8, 12, 20, 60],
    "person_after_s": 6, "person_after_unreachable_s": 6,
}  # fmt: skip
# Nobody needs to listen there: a mail server is never asked, and the worker that mails is told its address by the test.
MAIL = {"kind": "smtp", "host": LOCALHOST, "tls": "none", "from": "orders@example.org"}
IMPATIENT_PROVIDERS = json.dumps(
    {
        "mail": MAIL,
        "supplier": SUPPLIER | {"capability": IMPATIENCE},
        "stripe": STRIPE | {"capability": IMPATIENCE | {"lookup_lag_s": 0.3, "rate_per_s": 50}},
    }
)
SCRATCH = HOME / "tests" / str(os.getpid())  # the broker's folders, logs, spools and stores of this run
os.environ["COUNTERMAND_BROKER_FOLDER"] = str(SCRATCH / "broker")
os.environ["COUNTERMAND_SPOOL"] = str(SCRATCH / "spool")


@contextlib.contextmanager
def database() -> Iterator[None]:
    """An empty database and scratch folder of this run's own, gone afterwards."""
    _clear_scratch()
    make_broker_folder(SCRATCH / "broker")
    with postgres.running(EMBEDDED) if EMBEDDED else contextlib.nullcontext():
        with psycopg.connect(MAINTENANCE_URL, autocommit=True) as connection:
            _ensure_app_role(connection)
            for (name,) in connection.execute("SELECT datname FROM pg_database WHERE datname LIKE %s", [f"{PREFIX}%"]).fetchall():
                pid = name.removeprefix(PREFIX)
                if name == NAME or not (pid.isdigit() and psutil.pid_exists(int(pid))):
                    _drop(connection, name)  # left by a run that was killed
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(NAME)))
        try:
            yield
        finally:
            with psycopg.connect(MAINTENANCE_URL, autocommit=True) as connection:
                _drop(connection, NAME)
            shutil.rmtree(SCRATCH, ignore_errors=True)


def _clear_scratch() -> None:
    """Removes what runs that were killed left behind."""
    for folder in SCRATCH.parent.glob("*"):
        if folder == SCRATCH or not psutil.pid_exists(int(folder.name)):
            shutil.rmtree(folder, ignore_errors=True)


def _drop(connection: psycopg.Connection[tuple[object, ...]], name: str) -> None:
    connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _ensure_app_role(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    role = urlsplit(APP_URL).username or postgres.APP
    if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone():
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
