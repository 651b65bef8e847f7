"""A whole Countermand for tests that need real processes: web, Celery and the supplier, the same that the demo starts,
on the suite's own database; agent workers when a test asks for them.

The processes live as long as the session, because starting them takes seconds; the database, people and token are new for
every test, and what a test stopped, killed or armed is mended after it."""

import contextlib
import secrets
import signal
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest

from console.embedded import processes
from console.embedded.processes import LOCALHOST, Processes, Spec, free_port
from tests import platform

SERVERS = ("supplier", "web", "celery", "beat")
APPLICATION = "console.asgi:application"
MACHINE_ID, MACHINE_SECRET = "testagents", secrets.token_urlsafe(32)
TOKEN = f"cm_{MACHINE_ID}_{MACHINE_SECRET}"
PEOPLE = {
    "support": "Support",
    "support2": "Support",
    "approver": "Approver",
    "approver2": "Approver",
    "auditor": "Auditor",
    "admin": "Admin",
}
PASSWORD = secrets.token_urlsafe(12)


class World:
    """The running system as a test sees it: its addresses, its token, its people, and power over its processes."""

    def __init__(self, running: Processes, web_port: int) -> None:
        self.processes = running
        self.url = f"http://{LOCALHOST}:{web_port}"
        self.supplier_url = platform.SUPPLIER_URL
        self.token = TOKEN
        self.people = {name: {"username": name, "password": PASSWORD} for name in PEOPLE}
        self._web_port = web_port
        self._changed: set[str] = set()
        self._agents = 0
        self.api = httpx.Client(
            base_url=f"{self.url}/api/v1",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=30,
            trust_env=False,
        )
        self.supplier = httpx.Client(base_url=self.supplier_url, timeout=30, trust_env=False)

    # Processes ------------------------------------------------------------------------------------------------------

    def start(self, name: str, application: str = APPLICATION, **environment: str) -> None:
        """Starts `web`, `celery`, `beat` or `supplier` (again) and waits for it.

        `environment` is for this start only, and so is what `web` serves.
        """
        spec = self._spec(name, environment)
        if environment or application != APPLICATION:
            self._changed.add(name)
        served = tuple(application if part == APPLICATION else part for part in spec.command)
        self.processes.start(replace(spec, command=served))
        self.processes.wait_until_ready(name)

    def kill(self, name: str) -> None:
        """SIGKILL, to the process and whatever it forked."""
        self.processes.kill(name)

    def stop(self, name: str) -> int:
        """SIGTERM, and waits. Returns its exit code."""
        return self.processes.stop(name)

    def signal(self, name: str, number: int) -> None:
        """Any signal, to the process and whatever it forked (SIGSTOP, SIGCONT …)."""
        self.processes.signal(name, number)

    def pid(self, name: str) -> int:
        return self.processes.pid(name)

    def start_agent_worker(self, *options: str, program: str = "examples.purchase_orders", **environment: str) -> str:
        """Starts one worker host, of purchase orders by default; returns its name (`agent-1`, …). It ends with the test."""
        self._agents += 1
        spec = processes.agent_worker(self._agents, self.url, TOKEN, self.supplier_url, environment, options, program)
        self.processes.start(spec)
        return spec.name

    def log(self, name: str) -> str:
        return self.processes.log(name).read_text("utf-8", "replace")

    def _spec(self, name: str, environment: dict[str, str]) -> Spec:
        if name == "supplier":
            store = platform.SCRATCH / "supplier.sqlite3"
            webhooks = f"{self.url}/api/v1/webhooks/supplier"
            return processes.supplier(platform.SUPPLIER_PORT, store, webhooks, platform.WEBHOOK_SECRET, environment)
        environment = {"COUNTERMAND_PROVIDERS": platform.IMPATIENT_PROVIDERS, **environment}
        if name == "web":
            return processes.web(self._web_port, environment)
        makers = {"celery": processes.celery_worker, "beat": processes.celery_beat, "celery-agents": processes.celery_agents}
        return makers[name](environment)

    # The supplier ---------------------------------------------------------------------------------------------------

    def control(self, point: str, **options: Any) -> None:
        """Arms the supplier: `world.control("before_accept", until_released=True, reference="PO-1")`."""
        self.supplier.post("/control", json={"point": point, **options}).raise_for_status()

    def release(self, **which: Any) -> None:
        self.supplier.post("/release", json=which).raise_for_status()

    def supplier_log(self, **narrow: Any) -> list[dict[str, Any]]:
        """What reached the supplier and what it carried out, oldest first (`reference=`, `kind=`, `wait_s=`)."""
        entries: list[dict[str, Any]] = self.supplier.get("/log", params=narrow).json()["entries"]
        return entries

    # People ---------------------------------------------------------------------------------------------------------

    def log_in(self, name: str) -> httpx.Client:
        """A browser-like client signed in as one of `people`, by the log-in page itself."""
        client = httpx.Client(base_url=self.url, timeout=30, trust_env=False, follow_redirects=False)
        client.get("/accounts/login/").raise_for_status()
        form = {"login": name, "password": PASSWORD, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        answer = client.post("/accounts/login/", data=form, headers={"Referer": self.url})
        assert answer.status_code == 302, f"{name} cannot log in: {answer.status_code}"
        client.headers.update({"X-CSRFToken": client.cookies["csrftoken"], "Referer": self.url})
        return client

    # Between tests --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        make_people()
        make_token()

    def mend(self) -> None:
        """Ends what the test started and starts what it ended; lets go of what it armed."""
        for name in list(self.processes.names()):
            if name not in SERVERS:
                self.processes.kill(name)
        self.processes.reap()
        for name in SERVERS:
            if name in self._changed and name in self.processes:
                self.processes.kill(name)
            if name in self.processes:
                self.processes.signal(name, signal.SIGCONT)
            else:
                self.start(name)
        self._changed.clear()
        self.supplier.post("/reset", json={"store": True}).raise_for_status()


def make_people() -> None:
    """The people of the demo and a second support person, with one password."""
    from django.contrib.auth.hashers import make_password
    from django.contrib.auth.models import Group, User

    hashed = make_password(PASSWORD)
    for name, group in PEOPLE.items():
        User.objects.create(username=name, first_name=name.title(), password=hashed).groups.set([Group.objects.get(name=group)])


def make_token() -> None:
    """The machine credential behind TOKEN: every scope that a machine may have, for any agent."""
    from django.utils import timezone

    from console.models import Credential, secret_hash
    from runs.actors import ANY_AGENT, MACHINE_SCOPES

    Credential.objects.create(
        id=MACHINE_ID,
        name="test-agents",
        secret_hash=secret_hash(MACHINE_SECRET),
        scopes=sorted(MACHINE_SCOPES),
        agents=[ANY_AGENT],
        expires_at=timezone.now() + timedelta(days=1),
    )


def delete_queue() -> None:
    """Takes this run's queue out of the broker, which may be somebody's real one."""
    from django.conf import settings

    from console.celery import app

    with app.connection_for_write() as connection:
        connection.default_channel.queue_delete(settings.CELERY_TASK_DEFAULT_QUEUE)


@pytest.fixture(scope="session")
def world_processes(django_db_setup: None) -> Iterator[World]:
    with Processes(platform.SCRATCH / "logs") as running:
        made = World(running, free_port())
        with contextlib.closing(made.api), contextlib.closing(made.supplier):
            for name in SERVERS:
                running.start(made._spec(name, {}))
            for name in SERVERS:
                running.wait_until_ready(name)
            yield made
            running.stop_all()
            delete_queue()


@pytest.fixture
def world(world_processes: World, database: None) -> Iterator[World]:
    """The running system, with people and token, on a clean database."""
    world_processes.begin()
    yield world_processes
    world_processes.mend()
