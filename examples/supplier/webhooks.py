"""Deliver the supplier's signed events (Standard Webhooks), a bounded number of times with growing pauses.

The queue is in the store, so a restart forgets nothing; an event that is never taken is given up and the log says so.
"""

import asyncio
import sqlite3
from datetime import UTC, datetime

import httpx
from standardwebhooks import Webhook

from examples.supplier.store import Store

PAUSES_S = (0.5, 2.0, 8.0, 30.0, 120.0)
_IDLE_S = 0.2


async def deliver_for_ever(store: Store, url: str, secret: str, telling: asyncio.Lock) -> None:
    """Send what is due until the task is cancelled; `telling` is held while something is on its way."""
    signer = Webhook(secret)
    async with httpx.AsyncClient(timeout=5, follow_redirects=False, trust_env=False) as client:
        while True:
            async with telling:
                due = store.webhooks_due()
                await asyncio.gather(*(_deliver(store, client, url, signer, row) for row in due))
            if not due:
                await asyncio.sleep(_IDLE_S)


async def _deliver(store: Store, client: httpx.AsyncClient, url: str, signer: Webhook, row: sqlite3.Row) -> None:
    now = datetime.now(UTC)
    headers = {
        "content-type": "application/json",
        "webhook-id": row["id"],
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": signer.sign(row["id"], now, row["body"]),
    }
    try:
        response = await client.post(url, content=row["body"].encode(), headers=headers)
        answer, taken = str(response.status_code), response.is_success
    except httpx.HTTPError as error:
        answer, taken = type(error).__name__, False
    more = row["attempts"] < len(PAUSES_S)
    again_in_s = None if taken or not more else PAUSES_S[row["attempts"]]
    store.webhook_tried(row["id"], row["reference"], answer=answer, again_in_s=again_in_s)
