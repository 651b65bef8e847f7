"""A receiver of webhooks over a real socket: keeps what came, answers as a test says, verifies with the library that receivers use."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from standardwebhooks import Webhook


@dataclass
class Got:
    """One request, as it came."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    def verified(self, secret: str) -> dict[str, Any]:
        told: dict[str, Any] = Webhook(secret).verify(self.raw, self.headers)
        return told


@dataclass
class Receiver:
    """`answers` are used up one by one: a status, or something to call first (which may return a status); afterwards 204."""

    port: int = 0
    got: list[Got] = field(default_factory=list)
    answers: list[int | Callable[[], int | None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def guard(self) -> dict[str, Any]:
        """The settings that let webhooks come here."""
        return {"schemes": ["http"], "ports": [self.port], "private_networks": ["127.0.0.0/8"]}

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.got]

    def wait_for(self, count: int, within_s: float = 60.0) -> list[Got]:
        end_s = time.monotonic() + within_s
        while len(self.got) < count:
            assert time.monotonic() < end_s, f"{len(self.got)} of {count} requests came"
            time.sleep(0.02)
        return self.got


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A receiver for as long as the test."""
    kept = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            kept.got.append(Got(self.path, {name.lower(): value for name, value in self.headers.items()}, raw))
            answer = kept.answers.pop(0) if kept.answers else 204
            status = answer() if callable(answer) else answer
            try:
                self.send_response(status or 204)
                self.send_header("location", "/elsewhere")
                self.end_headers()
            except OSError:
                pass  # whoever asked is gone

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield kept
    server.shutdown()
    server.server_close()
