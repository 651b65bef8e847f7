"""A web process alone, for tests of its sockets: what happens is done by the domain's verbs from the test's own process."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

import httpx
import pytest
from django.contrib.auth.models import User

from console.embedded import processes
from console.embedded.processes import LOCALHOST, Processes, free_port
from tests import platform
from tests.fakes import fake  # noqa: F401 - a provider in memory
from tests.undo import known, refunding  # noqa: F401 - people who may undo, and a provider that can
from tests.world import PASSWORD, make_people


@dataclass
class Site:
    """The web process and the people who can sign in to it."""

    url: str
    running: Processes

    def sign_in(self, name: str = "support") -> str:
        """Sign in by the log-in page; the session's key."""
        with self.browser(name) as client:
            return client.cookies["sessionid"]

    @contextlib.contextmanager
    def browser(self, name: str) -> Iterator[httpx.Client]:
        with httpx.Client(base_url=self.url, timeout=10, trust_env=False) as client:
            client.get("/accounts/login/").raise_for_status()
            form = {"login": name, "password": PASSWORD, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
            answer = client.post("/accounts/login/", data=form, headers={"Referer": self.url})
            assert answer.status_code == 302, f"{name} cannot log in: {answer.status_code}"
            yield client


@pytest.fixture(scope="package")
def web_process(django_db_setup: None) -> Iterator[Site]:
    with Processes(platform.SCRATCH / "live-logs") as running:
        port = free_port()
        running.start(processes.web(port, {}))
        running.wait_until_ready("web")
        yield Site(f"http://{LOCALHOST}:{port}", running)


@pytest.fixture
def site(web_process: Site, database: None) -> Site:
    make_people()
    return web_process


def person(name: str) -> User:
    return User.objects.get(username=name)
