"""Where a URL may lead: every address judged, the connection pinned to a judged one, nothing followed, and all of it over in time."""

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ledger.providers.base import ProviderConfigError
from ledger.providers.guard import Forbidden, Guard, is_public, resolve
from ledger.providers.wire import NoAnswer, NothingLeft, Wire
from tests.ledger.providers import certificates

NAME = "provider.example"
Addresses = Callable[[], list[str]]


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "100.128.0.1", "172.32.0.1", "192.169.0.1", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"],
)
def test_public_addresses(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "address",
    [
        "0.1.2.3", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "172.31.255.255",
        "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1",
        "239.255.255.255", "240.0.0.1", "255.255.255.255",
        "::", "::1", "::7f00:1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::808:808",
        "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:10::1", "2001:db8::1", "2002:7f00:1::", "3fff::1",
        "5f00::1", "fc00::1", "fd12:3456::1", "fe80::1", "fe80::1%1", "fec0::1", "ff02::1", "4000::1",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    with pytest.raises(Forbidden, match="guard.private_networks"):
        Guard().check_address(ipaddress.ip_address(address))


def test_a_private_network_is_allowed_on_purpose_and_only_that_one() -> None:
    guard = Guard.from_settings({"private_networks": ["10.2.0.0/16", "fd00::/8"]})
    for address in ("10.2.3.4", "::ffff:10.2.3.4", "fd00::1", "8.8.8.8"):
        guard.check_address(ipaddress.ip_address(address))
    assert str(guard.check_address(ipaddress.ip_address("::ffff:10.2.3.4"))) == "10.2.3.4"
    for address in ("10.3.0.1", "127.0.0.1", "fc00::1"):
        with pytest.raises(Forbidden):
            guard.check_address(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://provider.example/", "only https"),
        ("file:///etc/passwd", "only https"),
        ("gopher://provider.example/", "only https"),
        ("//provider.example/", "no scheme"),
        ("https://provider.example:8443/", "Port 8443"),
        ("https://provider.example:0/", "Port 0"),
        ("https://provider.example:99999/", "no URL"),
        ("https://user:secret@provider.example/", "user name"),
        ("https://", "host"),
        ("https://[::1/", "no URL"),
    ],
)
def test_urls_that_lead_where_they_may_not(url: str, why: str) -> None:
    with pytest.raises(Forbidden, match=why):
        Guard().check_url(url)


def test_the_url_that_is_allowed_is_parsed() -> None:
    assert Guard().check_url("https://provider.example/v2?x=1").hostname == NAME
    assert Guard.from_settings({"schemes": ["http"]}).check_url("http://provider.example").scheme == "http"
    assert Guard.from_settings({"ports": [443, 8443]}).check_url("https://provider.example:8443").port == 8443


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ([], "guard"),
        ({"hosts": ["x"]}, "guard.hosts"),
        ({"schemes": ["ftp"]}, "guard.schemes"),
        ({"schemes": []}, "guard.schemes"),
        ({"schemes": 7}, "guard.schemes"),
        ({"schemes": [["https"]]}, "guard.schemes"),
        ({"ports": []}, "guard.ports"),
        ({"ports": ["443"]}, "guard.ports"),
        ({"ports": [0]}, "guard.ports"),
        ({"ports": [True]}, "guard.ports"),
        ({"private_networks": "10.0.0.0/8"}, "guard.private_networks"),
        ({"private_networks": ["10.0.0.1/8"]}, "guard.private_networks"),
        ({"private_networks": [10]}, "guard.private_networks"),
    ],
)
def test_settings_that_cannot_be_meant(settings: Any, names: str) -> None:
    with pytest.raises(ProviderConfigError, match=names.replace(".", r"\.")):
        Guard.from_settings(settings)


class Server(ThreadingHTTPServer):
    """Answers a JSON object at once; `/redirect`, `/slow-head` and `/slow-body` do what they say."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str]] = []
        self.ended = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked.append((self.path, self.headers["host"]))
        if self.path == "/slow-head":
            return self._slowly(b"HTTP/1.1 200 OK\r\nx-one: 1")
        if self.path == "/slow-body":
            return self._slowly(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{")
        self.send_response(302 if self.path == "/redirect" else 200)
        self.send_header("content-type", "application/json")
        self.send_header("location", "/elsewhere")
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def _slowly(self, begin: bytes) -> None:
        self.wfile.write(begin)
        for _ in range(200):
            if self.server.ended.wait(0.05):
                return
            self.wfile.write(b"1")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked.append((raw.decode(), self.headers["content-type"]))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.ended.set()
        made.shutdown()


def guarded(server: Server, *networks: str) -> Guard:
    return Guard.from_settings({"schemes": ["http"], "ports": [server.port], "private_networks": list(networks)})


def leads_to(monkeypatch: pytest.MonkeyPatch, *answers: list[str]) -> list[str]:
    """The resolver gives these addresses for NAME, one answer after the other and the last one for ever. Returns what it was asked."""
    real, asked = socket.getaddrinfo, []

    def ask(host: Any, port: Any, *args: Any, **options: Any) -> Any:
        if host not in (NAME, NAME.encode()):
            return real(host, port, *args, **options)
        asked.append(str(host))
        addresses = answers[min(len(asked), len(answers)) - 1]
        return [found for address in addresses for found in real(address, port, *args, **options)]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    return asked


def test_the_connection_goes_to_the_checked_address_under_the_hosts_name(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = leads_to(monkeypatch, ["127.0.0.1"])
    wire = Wire(f"http://{NAME}:{server.port}", timeout_s=5, guard=guarded(server, "127.0.0.1/32"))
    assert wire.exchange("GET", "/a").status == 200
    assert server.asked == [("/a", f"{NAME}:{server.port}")]
    assert asked == [NAME]


@pytest.mark.parametrize(("certified", "status"), [(NAME, 200), ("another.example", None)])
def test_the_certificate_is_held_against_the_name_and_not_the_address(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, certified: str, status: int | None
) -> None:
    certificate, server_tls = certificates.make(tmp_path, certified)
    server.socket = server_tls.wrap_socket(server.socket, server_side=True)
    leads_to(monkeypatch, ["127.0.0.1"])
    guard = Guard(frozenset({"https"}), frozenset({server.port}), (ipaddress.ip_network("127.0.0.1/32"),))
    tls = ssl.create_default_context(cafile=certificate)
    wire = Wire(f"https://{NAME}:{server.port}", timeout_s=5, guard=guard, tls=tls)
    if status:
        assert wire.exchange("GET", "/a").status == status
    else:
        with pytest.raises(NothingLeft, match="CERTIFICATE_VERIFY_FAILED"):
            wire.exchange("GET", "/a")
        assert server.asked == []


def test_a_name_that_is_bound_again_between_check_and_connect_changes_nothing(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is allowed; whoever asked again before connecting would be led to 127.0.0.1, where the server is."""
    asked = leads_to(monkeypatch, ["127.9.9.9"], ["127.0.0.1"])
    wire = Wire(f"http://{NAME}:{server.port}", timeout_s=5, guard=guarded(server, "127.9.9.9/32"))
    with pytest.raises(NothingLeft):
        wire.exchange("GET", "/a")
    assert asked == [NAME] and server.asked == []
    with pytest.raises(NothingLeft, match="127.0.0.1 is no public address"):
        wire.exchange("GET", "/a")
    assert server.asked == []


@pytest.mark.parametrize("other", ["10.0.0.1", "169.254.169.254", "::1"])
def test_one_forbidden_address_forbids_the_name(server: Server, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    for addresses in (["127.0.0.1", other], [other, "127.0.0.1"]):
        leads_to(monkeypatch, addresses)
        wire = Wire(f"http://{NAME}:{server.port}", timeout_s=5, guard=guarded(server, "127.0.0.1/32"))
        with pytest.raises(NothingLeft, match="is no public address"):
            wire.exchange("GET", "/a")
    assert server.asked == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "[::ffff:127.0.0.1]", "localhost"])
def test_however_a_private_address_is_written(server: Server, host: str) -> None:
    with pytest.raises(NothingLeft):
        Wire(f"http://{host}:{server.port}", timeout_s=5, guard=guarded(server)).exchange("GET", "/a")
    assert server.asked == []


def test_an_absolute_url_is_checked_like_the_base(server: Server) -> None:
    wire = Wire("", timeout_s=5, guard=guarded(server, "127.0.0.0/8"))
    assert wire.exchange("GET", f"http://127.0.0.1:{server.port}/a").status == 200
    for url in ("http://127.0.0.1:1/", f"https://127.0.0.1:{server.port}/", f"http://me:it@127.0.0.1:{server.port}/"):
        with pytest.raises(NothingLeft):
            wire.exchange("GET", url)
    assert len(server.asked) == 1


def test_another_address_is_tried_when_one_does_not_answer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    leads_to(monkeypatch, ["127.9.9.9", "127.0.0.1"])
    wire = Wire(f"http://{NAME}:{server.port}", timeout_s=5, guard=guarded(server, "127.0.0.0/8"))
    assert wire.exchange("GET", "/a").status == 200


def test_a_redirect_is_an_answer_and_is_not_followed(server: Server) -> None:
    wire = Wire(f"http://127.0.0.1:{server.port}", timeout_s=5, guard=guarded(server, "127.0.0.0/8"))
    assert wire.exchange("GET", "/redirect").status == 302
    assert [path for path, _ in server.asked] == ["/redirect"]


@pytest.mark.parametrize("path", ["/slow-head", "/slow-body"])
def test_an_answer_that_drips_is_over_when_its_time_is(server: Server, path: str) -> None:
    wire = Wire(f"http://127.0.0.1:{server.port}", timeout_s=0.4, guard=guarded(server, "127.0.0.0/8"))
    began_s = time.monotonic()
    with pytest.raises(NoAnswer):
        wire.exchange("GET", path)
    assert time.monotonic() - began_s < 5, "the drip would have gone on for ten seconds"


def test_exact_bytes_are_sent_as_they_are(server: Server) -> None:
    wire = Wire(f"http://127.0.0.1:{server.port}", timeout_s=5, guard=guarded(server, "127.0.0.0/8"))
    raw = b'{"b": 1,  "a": 2}'
    assert wire.exchange("POST", "/", content=raw, headers={"content-type": "application/json"}).status == 204
    assert server.asked == [(raw.decode(), "application/json")]


def test_a_resolver_that_hangs_ends_with_the_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    hang = threading.Event()

    def ask(*args: Any, **options: Any) -> Any:
        hang.wait(20)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    with pytest.raises(TimeoutError):
        resolve(NAME, 443, within_s=0.05)
    with pytest.raises(NothingLeft):
        Wire(f"https://{NAME}", timeout_s=0.05, guard=Guard()).exchange("GET", "/")
    hang.set()


@pytest.mark.parametrize("host", ["no-such-name.invalid", "a" * 300, "a..b"])
def test_a_name_that_leads_nowhere_sends_nothing(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(*args: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    with pytest.raises(NothingLeft):
        Wire(f"https://{host}", timeout_s=1, guard=Guard()).exchange("GET", "/")
