"""The supplier simulator as a process of its own, for any test that needs a real one. It never touches another's."""

import os
import re
import signal
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

import httpx

ROOT = Path(__file__).resolve().parents[2]
_ADDRESS = re.compile(r"listening on (http://\S+)")


def order(reference: str, currency: str = "EUR", unit_price: str = "12.50", quantity: int = 10, total: str = "125.00") -> Any:
    """An order body as the supplier takes it."""
    line = {"sku": "BRG-6204-2RS", "quantity": quantity, "unit_price": unit_price}
    return {"reference": reference, "currency": currency, "total": total, "lines": [line]}


class Simulator:
    """One running supplier; `with Simulator(store) as supplier:`. Started again on the same store it goes on."""

    def __init__(self, store: Path, *, webhook_url: str | None = None, webhook_secret: str | None = None) -> None:
        self._arguments = ["--port", "0", "--store", str(store)]
        if webhook_url:
            self._arguments += ["--webhook-url", webhook_url]
        self._environment = {**os.environ, **({"SUPPLIER_WEBHOOK_SECRET": webhook_secret} if webhook_secret else {})}
        self._pool = ThreadPoolExecutor(8)

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "examples.supplier", *self._arguments],
            cwd=ROOT, env=self._environment, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        said = _ADDRESS.search(self.process.stdout.readline())
        assert said, "the supplier did not start"
        self.url = said.group(1)
        self.http = httpx.Client(base_url=self.url, timeout=20, trust_env=False)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            assert self.stop() == 0
        self.http.close()
        self._pool.shutdown(wait=True)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def stop(self, sig: int = signal.SIGTERM) -> int:
        """Signal it and wait; its exit code."""
        self.process.send_signal(sig)
        return self.process.wait(10)

    def control(self, point: str, **settings: Any) -> None:
        self.http.post("/control", json={"point": point, **settings}).raise_for_status()

    def release(self, **narrow: str) -> int:
        return int(self.http.post("/release", json=narrow).raise_for_status().json()["released"])

    def place(self, body: Any, key: str | None = None, *, timeout: float = 20) -> httpx.Response:
        headers = {"Idempotency-Key": key, "X-Attempt": "1"} if key else {}
        with httpx.Client(base_url=self.url, timeout=timeout, trust_env=False) as client:
            return client.post("/orders", json=body, headers=headers)

    def place_later(self, body: Any, key: str | None = None, *, timeout: float = 20) -> "Future[httpx.Response]":
        """The same from another thread, for requests that will be held."""
        return self._pool.submit(self.place, body, key, timeout=timeout)

    def orders(self, reference: str) -> list[dict[str, Any]]:
        orders: list[dict[str, Any]] = self.http.get("/orders", params={"reference": reference}).raise_for_status().json()["orders"]
        return orders

    def log(self, reference: str | None = None, kind: str | None = None, *, wait_s: float = 0) -> list[dict[str, Any]]:
        narrow = {"reference": reference, "kind": kind, "wait_s": wait_s or None}
        answer = self.http.get("/log", params={k: v for k, v in narrow.items() if v is not None})
        entries: list[dict[str, Any]] = answer.raise_for_status().json()["entries"]
        return entries

    def kinds(self, reference: str) -> list[str]:
        return [entry["kind"] for entry in self.log(reference)]

    def wait_for(self, reference: str, kind: str) -> dict[str, Any]:
        """The first log line of that kind, waiting for it without polling."""
        lines = self.log(reference, kind, wait_s=10)
        assert lines, f"the supplier never logged {kind} for {reference}: {self.kinds(reference)}"
        return lines[0]
