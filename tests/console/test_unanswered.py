"""A connection that PostgreSQL ends in the middle of the work is told as what it is: nobody knows, ask again. Never as our mistake."""

from __future__ import annotations

import time
from collections.abc import Callable

import psycopg
import pytest
from django.db import connection, transaction

from console.door import DjangoDoor
from countermand.errors import Unreachable
from runs import leases, queries
from runs.models import Run
from tests import platform
from tests.console.browsing import person, text
from tests.makers import WORKER
from tests.wire import claimed, worker

pytestmark = pytest.mark.usefixtures("database")


def idle_for_too_long(*args: object, **given: object) -> None:
    """A transaction in which nothing is asked for longer than may be, as of a thread that gets no turn."""
    with transaction.atomic(), psycopg.connect(platform.APP_URL, autocommit=True) as other:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid(), set_config('idle_in_transaction_session_timeout', '10ms', true)")
            pid = cursor.fetchone()[0]
        until_s = time.monotonic() + 20
        while other.execute("SELECT 1 FROM pg_stat_activity WHERE pid = %s", [pid]).fetchone():
            assert time.monotonic() < until_s, "was not ended"
            time.sleep(0.001)
        Run.objects.exists()


def over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    api = worker()
    run, lease = claimed(api)
    monkeypatch.setattr(leases, "heartbeat", idle_for_too_long)
    refused = api.post(f"/runs/{run['id']}/heartbeat", {"lease": lease})
    assert (refused.status_code, refused.data["code"]) == (503, "busy") and "ask again" in refused.data["detail"]


def in_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    run, lease = claimed(worker())
    monkeypatch.setattr(leases, "heartbeat", idle_for_too_long)
    with pytest.raises(Unreachable):
        DjangoDoor(WORKER).heartbeat(run["id"], {"lease": lease})


def on_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = claimed(worker())
    client = person()
    monkeypatch.setattr(queries, "read_run", idle_for_too_long)
    response = client.get(f"/runs/{run['ref']}/")
    assert response.status_code == 503 and "look again, then ask again" in text(response)


@pytest.mark.parametrize("door", [over_http, in_the_process, on_a_page])
def test_every_door_says_that_nobody_knows(door: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch):
    door(monkeypatch)
