"""A worker program as a user would write one, started by the tests as a process of its own. Its supplier is a file."""

import os
import sys
import time
from pathlib import Path

from countermand import Countermand, Op, Run, RunCancelled

cm = Countermand.from_env()
LEDGER = Path(os.environ["SUPPLIER_FILE"])


def send(op: Op) -> dict[str, str]:
    with LEDGER.open("a") as out:
        out.write(f"{op.operation_id} {op.attempt} {os.getpid()}\n")
    return {"id": f"S-{op.attempt}"}


def note(word: str) -> None:
    with Path(f"{LEDGER}.notes").open("a") as out:
        out.write(f"{word}\n")


@cm.agent("order")
def order(run: Run) -> dict[str, str]:
    run.step("validate", note, "validated")
    sent = run.effect("supplier", "create_order", ref="PO-1", amount=100, currency="EUR", request={}, send=send)
    run.step("notify", note, "notified")
    return {"order": str(sent.external_id)}


@cm.agent("loop")
def loop(run: Run) -> None:
    note("looping")
    while True:
        run.checkpoint()
        time.sleep(0.02)


@cm.agent("deaf")
def deaf(run: Run) -> None:
    note("deaf")
    try:
        time.sleep(60)
    except RunCancelled:
        sys.exit(3)


@cm.cleanup("tidy")
def tidy(name: str) -> None:
    note(f"tidied {name}")


if __name__ == "__main__":
    cm.work(processes=int(os.environ.get("PROCESSES", "1")), grace_s=float(os.environ.get("GRACE_S", "10")))
