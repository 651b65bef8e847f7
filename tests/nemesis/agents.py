"""The worker program of the nemesis: the example's purchase orders, a batch of them as children, and a run that tidies up after itself."""

from __future__ import annotations

import argparse
from typing import Any

from countermand import ChildCancelled, ChildFailed, Countermand, Run
from examples.purchase_orders import where
from examples.purchase_orders.agent import AGENT, purchase_order

BATCH, TIDY = "batch", "tidy"


def batch(run: Run) -> dict[str, Any]:
    """Every order of the input as a child, started together, then waited for one after the other."""
    orders = run.input["orders"]
    for order in orders:
        _part(run, order, wait=False)
    return {"children": [_result(run, order) for order in orders]}


def _part(run: Run, order: dict[str, Any], wait: bool) -> Any:
    reference = order["order"]["po_number"]
    return run.child(AGENT, input=order, business_ref=reference, title=reference, wait=wait)


def _result(run: Run, order: dict[str, Any]) -> Any:
    try:
        return _part(run, order, wait=True)
    except (ChildCancelled, ChildFailed) as ended:
        return type(ended).__name__


def tidy(run: Run) -> dict[str, Any]:
    """Registers two things to tidy, then orders. They are tidied only when the run is stopped or fails."""
    for number in (1, 2):
        run.cleanup(f"scratch-{number}", "tidy_up", {"number": number}, order=number)
    return purchase_order(run)


def tidy_up(number: int) -> None:
    """Nothing outside is touched; that it is done once is what the records say."""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lease-s", type=float, required=True)
    parser.add_argument("--concurrency", type=int, required=True)
    given = parser.parse_args()
    cm = Countermand(*where.control_plane())
    for name, plan in {AGENT: purchase_order, BATCH: batch, TIDY: tidy}.items():
        cm.agent(name)(plan)
    cm.cleanup("tidy_up")(tidy_up)
    cm.work(ttl_s=given.lease_s, concurrency=given.concurrency)


if __name__ == "__main__":
    main()
