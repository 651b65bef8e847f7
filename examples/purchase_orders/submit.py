"""Create one run for each order of a CSV file over the API: `python -m examples.purchase_orders.submit --first 20`.

Safe to repeat: the order's number is the client key, so an order that was submitted before makes no second run.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import httpx

from examples.purchase_orders import where
from examples.purchase_orders.agent import AGENT, PLAN
from examples.purchase_orders.orders import CSV_PATH, BadOrder, read_csv


def run_body(order: dict[str, Any]) -> dict[str, Any]:
    """The body of `POST /runs` for one order of the file."""
    kept = ("po_number", "supplier", "currency", "lines", "total")
    return {
        "agent": AGENT,
        "title": f"{order['po_number']} to {order['supplier']}",
        "business_ref": order["po_number"],
        "client_key": order["po_number"],
        "input": {"order": {name: order[name] for name in kept}},
        "labels": {"site": order["delivery_site"], "requested_by": order["requested_by"]},
        "plan": PLAN,
    }


def submit(client: httpx.Client, order: dict[str, Any]) -> bool:
    """Create the run of one order and print what came of it; False when it was not created and is not there."""
    try:
        response = client.post("/api/v1/runs", json=run_body(order))
        body = response.json()
    except (httpx.HTTPError, ValueError) as error:
        print(f"{order['po_number']}  not known: {error}. Submit again: nothing is created twice.", file=sys.stderr)
        return False
    if response.status_code in (200, 201):
        run = body.get("run", body)
        print(f"{order['po_number']}  {run['ref']}  {'created' if response.status_code == 201 else 'was there already'}")
        return True
    print(f"{order['po_number']}  refused: {body.get('detail', response.status_code)}", file=sys.stderr)
    return False


def main() -> int:
    """0 when every order has its run."""
    parser = argparse.ArgumentParser(prog="python -m examples.purchase_orders.submit", description=__doc__)
    parser.add_argument("--csv", type=Path, default=CSV_PATH)
    parser.add_argument("--first", type=int, metavar="N", help="only the first N orders")
    given = parser.parse_args()
    try:
        orders = read_csv(given.csv)[: given.first]
    except (OSError, UnicodeDecodeError, BadOrder) as error:
        parser.error(str(error))
    url, token = where.control_plane()
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=10) as client:
        done = [submit(client, order) for order in orders]
    print(f"{sum(done)} of {len(done)} orders have a run")
    return 0 if all(done) else 1


if __name__ == "__main__":
    raise SystemExit(main())
