"""The supplier's durable store (SQLite): orders, its log, and webhooks still to be delivered.

What is executed and what the log says of it are one commit, so the log can be believed after a kill. It must never
execute the same idempotency key twice, unless the supplier is told to be careless.
"""

import asyncio
import json
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from examples.supplier.orders import Order, Refused

_SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
    id TEXT PRIMARY KEY, reference TEXT NOT NULL, idempotency_key TEXT UNIQUE, digest TEXT NOT NULL,
    currency TEXT NOT NULL, total TEXT NOT NULL, lines TEXT NOT NULL, accepted_at REAL NOT NULL,
    cancelled_at REAL, cancellation_id TEXT, cancellation_key TEXT
);
CREATE INDEX IF NOT EXISTS orders_reference ON orders (reference);
CREATE TABLE IF NOT EXISTS log (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at REAL NOT NULL, kind TEXT NOT NULL, reference TEXT, order_id TEXT,
    idempotency_key TEXT, attempt TEXT, detail TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS log_reference ON log (reference, seq);
CREATE TABLE IF NOT EXISTS webhooks (
    id TEXT PRIMARY KEY, reference TEXT NOT NULL, body TEXT NOT NULL, attempts INTEGER NOT NULL, due_at REAL
);
CREATE INDEX IF NOT EXISTS webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL;
"""


def iso(at: float | None) -> str | None:
    """A moment as ISO 8601 UTC with microseconds, or None."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()


class Store:
    """One connection, used from the event loop's thread only; every public method is one commit."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_SCHEMA)
        self._logged = asyncio.Event()

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _commit(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # -- orders

    def accept(self, order: Order, *, key: str | None, attempt: str | None, careless: bool = False) -> tuple[dict[str, Any], bool]:
        """Execute an order once per idempotency key: (the order, True for a replay). Refused 409 for a reused key.

        `careless`: the key is logged and forgotten, and the order executed whatever was executed before.
        """
        kept = None if careless else key
        with self._commit():
            known = self._db.execute("SELECT * FROM orders WHERE idempotency_key = ?", (kept,)).fetchone()
            if known is not None:
                if known["digest"] != order.digest:
                    raise Refused(409, "idempotency_key_reused", "This Idempotency-Key was used for another order.")
                self.note("replay", order.reference, known["id"], key, attempt)
                return self.shown(known), True
            order_id = f"SO-{secrets.token_hex(5).upper()}"
            row = (order_id, order.reference, kept, order.digest, order.currency, order.total, json.dumps(order.lines))
            sql = "INSERT INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)"
            self._db.execute(sql, (*row, time.time()))
            self.note("execution", order.reference, order_id, key, attempt, total=order.total, currency=order.currency)
            return self.order(order_id), False

    def cancel(self, order_id: str, *, key: str | None, attempt: str | None) -> tuple[dict[str, Any], bool]:
        """Cancel an accepted order, once: (the order, True when it is a replay). Refused 404 or 409 otherwise."""
        with self._commit():
            row = self._row(order_id)
            if row["cancelled_at"] is not None:
                if key is None or row["cancellation_key"] != key:
                    raise Refused(409, "already_cancelled", f"Order {order_id} was cancelled before.")
                self.note("replay", row["reference"], order_id, key, attempt, of="cancellation")
                return self.shown(row), True
            self._db.execute(
                "UPDATE orders SET cancelled_at = ?, cancellation_id = ?, cancellation_key = ? WHERE id = ?",
                (time.time(), f"SC-{secrets.token_hex(5).upper()}", key, order_id),
            )
            self.note("cancellation", row["reference"], order_id, key, attempt)
            return self.order(order_id), False

    def order(self, order_id: str, *, lag_s: float = 0) -> dict[str, Any]:
        """The order as a reader sees it `lag_s` seconds late; Refused 404 when it is not (yet) visible."""
        row = self._row(order_id)
        if row["accepted_at"] > time.time() - lag_s:
            raise Refused(404, "not_found", f"No order {order_id}.")
        return self.shown(row, lag_s=lag_s)

    def by_reference(self, reference: str, *, lag_s: float = 0) -> list[dict[str, Any]]:
        """Every order with this reference that is visible `lag_s` seconds late, oldest first."""
        rows = self._db.execute(
            "SELECT * FROM orders WHERE reference = ? AND accepted_at <= ? ORDER BY accepted_at",
            (reference, time.time() - lag_s),
        )
        return [self.shown(row, lag_s=lag_s) for row in rows]

    def _row(self, order_id: str) -> sqlite3.Row:
        row = self._db.execute("SELECT * FROM orders WHERE id = ?", (order_id,)).fetchone()
        if row is None:
            raise Refused(404, "not_found", f"No order {order_id}.")
        return row

    @staticmethod
    def shown(row: sqlite3.Row, *, lag_s: float = 0) -> dict[str, Any]:
        """An order as the API gives it."""
        cancelled = row["cancelled_at"] is not None and row["cancelled_at"] <= time.time() - lag_s
        return {
            "id": row["id"],
            "reference": row["reference"],
            "state": "cancelled" if cancelled else "accepted",
            "currency": row["currency"],
            "total": row["total"],
            "lines": json.loads(row["lines"]),
            "idempotency_key": row["idempotency_key"],
            "accepted_at": iso(row["accepted_at"]),
            "cancelled_at": iso(row["cancelled_at"]) if cancelled else None,
            "cancellation_id": row["cancellation_id"] if cancelled else None,
            "cancellation_key": row["cancellation_key"] if cancelled else None,
        }

    # -- log

    def note(
        self,
        kind: str,
        reference: str | None = None,
        order_id: str | None = None,
        key: str | None = None,
        attempt: str | None = None,
        **detail: Any,
    ) -> None:
        """Append one line to the log, within the commit that is open or as its own."""
        columns = "(at, kind, reference, order_id, idempotency_key, attempt, detail)"
        row = (time.time(), kind, reference, order_id, key, attempt, json.dumps(detail))
        self._db.execute(f"INSERT INTO log {columns} VALUES (?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608 -- a literal
        self._logged.set()

    def log(self, *, after: int, reference: str | None, kind: str | None) -> list[dict[str, Any]]:
        """Log lines past `after`, oldest first, narrowed to a reference and a kind when given."""
        rows = self._db.execute(
            "SELECT * FROM log WHERE seq > :after AND (:reference IS NULL OR reference = :reference)"
            " AND (:kind IS NULL OR kind = :kind) ORDER BY seq",
            {"after": after, "reference": reference, "kind": kind},
        )
        return [{**dict(row), "at": iso(row["at"]), "detail": json.loads(row["detail"])} for row in rows]

    async def log_wait(self, wait_s: float, **narrow: Any) -> list[dict[str, Any]]:
        """Like `log`, but waits up to `wait_s` seconds for the first line."""
        until = time.monotonic() + wait_s
        while not (lines := self.log(**narrow)) and (left := until - time.monotonic()) > 0:
            if self._logged.is_set():
                self._logged = asyncio.Event()
            try:
                await asyncio.wait_for(self._logged.wait(), left)
            except TimeoutError:
                continue
        return lines

    # -- webhooks

    def queue_webhook(self, kind: str, order: dict[str, Any], *, delay_s: float) -> None:
        """Owe the customer one event about `order`, first delivered `delay_s` seconds from now."""
        now = time.time()
        body = json.dumps({"type": kind, "timestamp": iso(now), "data": order}, separators=(",", ":"))
        row = (f"evt_{secrets.token_hex(10)}", order["reference"], body, now + delay_s)
        self._db.execute("INSERT INTO webhooks VALUES (?, ?, ?, 0, ?)", row)

    def webhooks_due(self, limit: int = 8) -> list[sqlite3.Row]:
        """Webhooks whose next try is now."""
        sql = "SELECT * FROM webhooks WHERE due_at <= ? ORDER BY due_at LIMIT ?"
        return self._db.execute(sql, (time.time(), limit)).fetchall()

    def webhook_tried(self, event_id: str, reference: str, *, answer: str, again_in_s: float | None) -> None:
        """Record one delivery attempt; `again_in_s` None means delivered or given up."""
        due_at = None if again_in_s is None else time.time() + again_in_s
        with self._commit():
            sql = "UPDATE webhooks SET attempts = attempts + 1, due_at = ? WHERE id = ?"
            self._db.execute(sql, (due_at, event_id))
            self.note("webhook", reference, None, None, None, event_id=event_id, answer=answer, again_in_s=again_in_s)

    def wipe(self) -> None:
        """Forget every order, log line and webhook."""
        with self._commit():
            for table in ("orders", "log", "webhooks"):
                self._db.execute(f"DELETE FROM {table}")  # noqa: S608 -- names from the literal above
