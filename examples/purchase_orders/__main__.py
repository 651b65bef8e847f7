"""Start a worker for purchase orders: `python -m examples.purchase_orders`. SIGTERM gives its leases back."""

import argparse

from countermand import Countermand
from examples.purchase_orders import where
from examples.purchase_orders.agent import AGENT, purchase_order

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m examples.purchase_orders", description=__doc__)
    parser.add_argument("--lease-s", type=float, metavar="SECONDS", help="how long a run is ours without a sign of life (30)")
    parser.add_argument("--concurrency", type=int, default=1, metavar="N", help="runs at a time")
    given = parser.parse_args()
    url, token = where.control_plane()
    cm = Countermand(url, token)
    cm.agent(AGENT)(purchase_order)
    cm.work(ttl_s=given.lease_s, concurrency=given.concurrency)
