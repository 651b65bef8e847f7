"""Hints through whatever broker CELERY_BROKER_URL names: that one arrives, that none does harm, and that none is needed."""

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from kombu import Connection

from console.celery import app
from runs.models import Run
from tests import makers
from tests.world import World

pytestmark = pytest.mark.broker
NOTICED_SECONDS_MAX = 60


def run_without_its_lease() -> Run:
    """A run whose worker was given a fifth of a second and has not been heard of since."""
    return makers.new_run(ttl_s=0.2)[0]


def wait_until_noticed(run: Run) -> None:
    deadline = time.monotonic() + NOTICED_SECONDS_MAX
    while Run.objects.get(pk=run.pk).state == run.state:
        assert time.monotonic() < deadline, "nobody noticed the expired lease"
        time.sleep(0.05)


def test_the_schedule_reaches_the_worker(world: World) -> None:
    wait_until_noticed(run_without_its_lease())


def test_a_hint_alone_reaches_the_worker_and_is_harmless_twice(world: World) -> None:
    world.stop("beat")
    run = run_without_its_lease()
    deadline = time.monotonic() + NOTICED_SECONDS_MAX
    while Run.objects.get(pk=run.pk).state == run.state:
        for _ in range(2):
            app.send_task("runs.expire_leases", expires=5, retry=False)
        assert time.monotonic() < deadline, "the hint did not arrive"
        time.sleep(0.2)
    assert run.events.filter(kind="lease.expired").count() == 1


def test_a_worker_that_was_killed_loses_nothing(world: World) -> None:
    world.kill("celery")
    run = run_without_its_lease()
    world.start("celery")
    wait_until_noticed(run)


HINT = """
import time, django
django.setup()
from django.db import transaction
from runs.hints import nudge
begun = time.monotonic()
with transaction.atomic():
    nudge("looks.due")
print(time.monotonic() - begun)
"""


@pytest.mark.parametrize("url", ["redis://127.0.0.1:9/0", "amqp://127.0.0.1:9//"])
def test_a_dead_broker_costs_a_request_nothing_but_the_hint(database: None, url: str) -> None:
    environment = {**os.environ, "CELERY_BROKER_URL": url, "DJANGO_SETTINGS_MODULE": "console.settings"}
    done = subprocess.run([sys.executable, "-c", HINT], env=environment, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1


def test_a_message_in_the_folder_is_always_whole(tmp_path: Path) -> None:
    options = {name: str(tmp_path) for name in ("data_folder_in", "data_folder_out", "control_folder")}
    broken: list[str] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for path in tmp_path.glob("*.msg"):
                broken.extend([path.name] if not path.read_bytes() else [])

    with Connection("filesystem://", transport_options=options) as connection, ThreadPoolExecutor(1) as pool:
        watched = pool.submit(look)
        queue = connection.SimpleQueue("whole")
        for _ in range(300):
            queue.put({"words": "all of them"})
        over.set()
        watched.result()
        assert not broken
        assert queue.get(timeout=5).payload == {"words": "all of them"}
