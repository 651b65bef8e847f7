"""Start a worker for purchase orders: `python -m examples.purchase_orders`. SIGTERM gives its leases back."""

from countermand import Countermand
from examples.purchase_orders import where
from examples.purchase_orders.agent import AGENT, purchase_order

if __name__ == "__main__":
    url, token = where.control_plane()
    cm = Countermand(url, token)
    cm.agent(AGENT)(purchase_order)
    cm.work()
