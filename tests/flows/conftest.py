"""Real processes for every test of this folder, and the driver that asks them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection, transaction

from tests import checker
from tests.flows.driver import Flow
from tests.world import SERVERS, World


@pytest.fixture
def flow(world: World, tmp_path: Path) -> Iterator[Flow]:
    """A driver of the running system. The supplier sends no webhooks by itself: a test that wants one says when."""
    world.control("webhook_off")
    made = Flow(world, tmp_path)
    written = {name: len(world.log(name)) for name in SERVERS}
    yield made
    assert violations(made) == []
    made.close()
    for name, before in written.items():
        said = world.log(name)[before:]
        if name not in made.shaken and "Traceback" in said:
            pytest.fail(f"{name} says:\n{said[-4000:]}")


def violations(flow: Flow) -> list[str]:
    """What the checker finds in everything that happened, held against the providers' own logs."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        history = checker.export()
    for entry in flow.world.supplier_log():
        if entry["kind"] not in ("execution", "cancellation") or not entry["idempotency_key"]:  # somebody else's undo has no key of ours
            continue
        attempt = int(entry["attempt"]) if entry["attempt"] else None
        history.received.append({"operation_id": entry["idempotency_key"], "attempt": attempt, "executed": True})
    for executions in flow.executions:
        history.received += executions()
    return checker.violations(history)
