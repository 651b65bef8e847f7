"""Our worker in the races, as an agent's program is written: effects at the supplier through the SDK, without pause.

usage: python -m tests.bench.ours_worker — what it needs to know is in its environment.
"""

from __future__ import annotations

import os
import threading
from itertools import count
from typing import Any

import httpx

from countermand import Countermand, Landed, RunCancelled
from countermand.http import classified, conclude
from countermand.run import Run
from countermand.sending import Op
from tests.bench.racing import AT_A_TIME, Reporter

PROCESSES = 2

cm = Countermand.from_env()
reporter = Reporter()
of_this_thread = threading.local()


def place(op: Op) -> Landed:
    """One action: its bytes leave for the supplier."""
    if not hasattr(of_this_thread, "client"):
        of_this_thread.client = httpx.Client(base_url=os.environ["SUPPLIER_URL"], trust_env=False)
    line = {"sku": "A", "quantity": 1, "unit_price": "1.00"}
    order = {"reference": op.reference, "currency": "EUR", "total": "1.00", "lines": [line]}
    reporter.action(op.reference.partition("/")[0], op.operation_id)
    with classified():
        answer: Any = conclude(of_this_thread.client.post("/orders", json=order, headers={"Idempotency-Key": op.key}))
    return Landed(str(answer["id"]), 100, "EUR")


@cm.agent("races")
def races(run: Run) -> None:
    race = run.input["race"]
    threading.Thread(target=_watch, args=(run, race), daemon=True).start()
    try:
        run.step("act", _act, race)
    except RunCancelled:
        reporter.heard(race)
        raise


def _watch(run: Run, race: str) -> None:
    run.cancelled.wait()
    reporter.knew(race)


def _act(run: Run, race: str) -> None:
    for number in count():
        run.effect("supplier", "create_order", ref=f"{race}/{number}", amount=100, currency="EUR", request={"n": number}, send=place)


if __name__ == "__main__":
    cm.work(processes=PROCESSES, concurrency=AT_A_TIME // PROCESSES)
