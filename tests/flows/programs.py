"""Worker programs of these tests, each plan a moment of a run's life: `python -m tests.flows.programs`."""

from __future__ import annotations

import argparse
import asyncio
import os
from pathlib import Path
from typing import Any

from countermand import AsyncCountermand, Countermand
from countermand.async_run import AsyncRun
from countermand.faultpoints import reached
from countermand.run import Run
from examples.purchase_orders import where
from examples.purchase_orders.orders import supplier_request, validate
from examples.purchase_orders.supplier_client import create_order


def tidy(run: Run) -> None:
    """Register what the input names, then wait until somebody stops it."""
    for order, key in enumerate(run.input["tidy"]):
        run.cleanup(key, "note", {"key": key, "run": run.ref}, order=order)
    waits(run)


def waits(run: Run) -> None:
    """Wait in a step that hears a cancel, until there is one or the file that the input names."""
    run.step("wait", _wait, run.input.get("until"), kind="wait", hears_cancel_every_s=0.2)


def _wait(run: Run, until: str | None) -> None:
    while not (until and Path(until).exists()):
        run.progress(0.5, "half of it")
        run.cancelled.wait(0.1)
        run.checkpoint()


def beats(run: Run) -> None:
    """A tool that does nothing but say that it is alive."""
    run.step("tight", _beat, hears_cancel_every_s=1.0)


def _beat(run: Run) -> None:
    while True:
        run.heartbeat()


def deaf(run: Run) -> None:
    """A tool that cannot hear: it works until the file that the input names is there, whatever happens."""
    run.step("deaf", _deaf, run.input["until"])


def _deaf(until: str) -> None:
    import time

    while not Path(until).exists():
        time.sleep(0.1)


async def order_async(run: AsyncRun) -> dict[str, Any]:
    """The purchase order's plan, awaited."""
    order = await run.step("validate", validate, run.input)
    request = supplier_request(order)

    async def send(op: Any) -> Any:
        await asyncio.sleep(0)
        return await asyncio.to_thread(create_order, where.supplier_url(), op, request, answer_timeout_s=20)

    sent = await run.effect(
        "supplier", "create_order", key="order", ref=order["ref"], amount=order["total"], currency=order["currency"],
        request=request, answer_within_s=25, send=send,
    )  # fmt: skip
    await run.step("notify", asyncio.sleep, 0)
    return {"supplier_order": sent.external_id}


def note(key: str, run: str) -> None:
    """Tidying leaves one line for each time that it is done."""
    with (where.outbox() / f"{run}.notes").open("a", encoding="utf-8") as notes:
        notes.write(f"{key}\n")
    reached("noted", key=key)


AGENTS = {"tidy": tidy, "waits": waits, "beats": beats, "deaf": deaf, "order-async": order_async}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lease-s", type=float)
    parser.add_argument("--concurrency", type=int, default=1)
    given = parser.parse_args()
    where.outbox().mkdir(parents=True, exist_ok=True)
    make = AsyncCountermand if os.environ.get("FLOWS_ASYNC") else Countermand
    cm = make(*where.control_plane())
    for name, plan in AGENTS.items():
        cm.agent(name)(plan)
    cm.cleanup("note")(note)
    cm.work(ttl_s=given.lease_s, concurrency=given.concurrency)


if __name__ == "__main__":
    main()
