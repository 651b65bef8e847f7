"""The supplier's signed events, sent by the test at the moment it chooses. What they say is read from the supplier itself."""

import json
import uuid
from datetime import UTC, datetime
from typing import Any

import httpx
from standardwebhooks import Webhook

from tests.flows.driver import Flow
from tests.platform import WEBHOOK_SECRET


def orders(flow: Flow, reference: str) -> list[dict[str, Any]]:
    """The supplier's orders under this reference, as its API gives them."""
    return list(flow.world.supplier.get("/orders", params={"reference": reference}).json()["orders"])


def news_of_order(flow: Flow, reference: str, kind: str = "order.accepted", event_id: str = "") -> httpx.Response:
    """Tell us of the one order under `reference`, as the supplier would, and return the answer."""
    (order,) = orders(flow, reference)
    return send(flow, {"type": kind, "timestamp": datetime.now(UTC).isoformat(), "data": order}, event_id)


def send(flow: Flow, event: dict[str, Any], event_id: str = "") -> httpx.Response:
    """Sign an event and post it to the inbox."""
    body, now = json.dumps(event), datetime.now(UTC)
    event_id = event_id or f"evt_{uuid.uuid4().hex}"
    headers = {
        "content-type": "application/json",
        "webhook-id": event_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(WEBHOOK_SECRET).sign(event_id, now, body),
    }
    inbox = f"{flow.world.url}/api/v1/webhooks/supplier"
    return httpx.post(inbox, content=body.encode(), headers=headers, trust_env=False, timeout=30)
