"""The proxy itself: it must pass what it is not told to break, and break only that."""

import http.server
import threading
from collections.abc import Iterator

import httpx
import pytest

from tests.proxy import Proxy


class _Handler(http.server.BaseHTTPRequestHandler):
    asked: list[str] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append(f"{self.path} {body.decode()}")
        self.send_response(201)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    _Handler.asked.clear()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with Proxy(f"http://127.0.0.1:{server.server_address[1]}") as made:
        yield made
    server.shutdown()
    server.server_close()


def post(proxy: Proxy, path: str, text: str = "x", **options: float) -> httpx.Response:
    return httpx.post(f"{proxy.url}{path}", content=text.encode(), trust_env=False, **options)


def test_passes_what_it_is_not_told_to_break(proxy: Proxy) -> None:
    proxy.arm("drop_request", r"POST /b$")
    with httpx.Client(base_url=proxy.url, trust_env=False) as client:
        answers = [client.post("/a", content=b"x" * 100_000) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {201} and len(answers[0].content) == 100_000
    assert [(one.what, one.mode, one.status) for one in proxy.seen] == [("POST /a", "pass", 201)] * 3


@pytest.mark.parametrize(("mode", "reached"), [("drop_request", 0), ("lose_response", 1)])
def test_cuts_one_exchange(proxy: Proxy, mode: str, reached: int) -> None:
    proxy.arm(mode, r"POST /a$")  # type: ignore[arg-type]
    with pytest.raises(httpx.RemoteProtocolError):
        post(proxy, "/a")
    assert len(_Handler.asked) == reached
    assert post(proxy, "/a").status_code == 201


@pytest.mark.parametrize(("mode", "status"), [("http_502", 502), ("maintenance_200", 200)])
def test_answers_in_the_servers_place(proxy: Proxy, mode: str, status: int) -> None:
    proxy.arm(mode, r"POST /a$")  # type: ignore[arg-type]
    assert post(proxy, "/a").status_code == status
    assert _Handler.asked == []


def test_a_held_request_arrives_after_its_sender_has_gone(proxy: Proxy) -> None:
    proxy.arm("hold_request", r"POST /a$")
    with pytest.raises(httpx.ReadTimeout):
        post(proxy, "/a", "late", timeout=0.1)
    assert _Handler.asked == []
    proxy.release()
    assert post(proxy, "/b", "now").status_code == 201
    for _ in range(100):
        if "/a late" in _Handler.asked:
            break
        post(proxy, "/b", "now")
    assert _Handler.asked.count("/a late") == 1
