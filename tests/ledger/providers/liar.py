"""A server that answers whatever a test tells it to, for the truth tables of adapters."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

JSON = "application/json"


class Liar(ThreadingHTTPServer):
    """`answers` are given in turn, the last one for ever: status, media type, body. `asked` is what came: method, path, headers, body.

    `cut`: the connection is closed when half of the answer has been written.
    """

    def __init__(self) -> None:
        self.answers: list[tuple[int, str, bytes]] = [(200, JSON, b"{}")]
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.cut = False
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not wait for the end of a lie is no error."""

    def say(self, *bodies: Any, status: int = 200, media: str = JSON) -> None:
        """Forget what was asked, and answer with these from now on: bytes as they are, anything else as JSON."""
        self.asked.clear()
        self.cut = False
        self.answers = [(status, media, body if isinstance(body, bytes) else json.dumps(body).encode()) for body in bodies]


class _Handler(BaseHTTPRequestHandler):
    server: Liar

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        status, media, answer = self.server.answers.pop(0) if len(self.server.answers) > 1 else self.server.answers[0]
        self.send_response(status)
        self.send_header("content-type", media)
        self.send_header("location", "/elsewhere")
        self.send_header("request-id", "req_77")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer[: len(answer) // 2] if self.server.cut else answer)
        self.close_connection = self.server.cut

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def lying() -> Iterator[Liar]:
    with Liar() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
