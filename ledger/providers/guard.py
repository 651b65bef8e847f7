"""Where a configured URL may lead: scheme and port, every address its name resolves to, and the connection pinned to a checked one.

Without it a URL that somebody else wrote could reach what only this machine can: its own services, its neighbours, a cloud's metadata.
Redirects are nobody's here: `httpx.Client(follow_redirects=False)` is the default and the transport never follows one.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpcore
import httpx

from ledger.providers.base import ProviderConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

# IANA's special-purpose address registries, written out: what `ipaddress.is_global` says differs between Python versions.
_NOT_PUBLIC_4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
        "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
    )
)  # fmt: skip
_PUBLIC_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
_NAT64 = IPv6Network("64:ff9b::/96")
_DEFAULT_PORTS = {"https": 443, "http": 80}
_SCHEMES = tuple(_DEFAULT_PORTS)
_CONNECT_S = 3.0
_SETTINGS = {"schemes", "ports", "private_networks"}


class Forbidden(Exception):
    """The guard does not let a request go there; the message says why, and what to set if it should."""


def is_public(address: Address) -> bool:
    """Whether the address belongs to the open Internet: not private, loopback, link-local, multicast, reserved or a tunnel to such."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address.ipv4_mapped is not None:
        return is_public(address.ipv4_mapped)
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFFFFFF))
    return address in _PUBLIC_6 and not any(address in network for network in _NOT_PUBLIC_6)


@dataclass(frozen=True)
class Guard:
    """What may be reached. By default https on 443 at public addresses; `private_networks` are allowed on purpose, besides."""

    schemes: frozenset[str] = frozenset({"https"})
    ports: frozenset[int] = frozenset({443})
    private_networks: tuple[Network, ...] = ()

    @classmethod
    def from_settings(cls, settings: object) -> Guard:
        """`{"schemes": ["https"], "ports": [443], "private_networks": ["10.2.0.0/16"]}`, each optional. ProviderConfigError."""
        if not isinstance(settings, Mapping):
            raise ProviderConfigError("guard: an object with schemes, ports and private_networks is needed.")
        if unknown := sorted(set(settings) - _SETTINGS):
            raise ProviderConfigError(f"guard.{unknown[0]} is not a setting. Known: {', '.join(sorted(_SETTINGS))}.")
        schemes = settings.get("schemes", ["https"])
        if not isinstance(schemes, list | tuple) or not schemes or any(scheme not in _SCHEMES for scheme in schemes):
            raise ProviderConfigError('guard.schemes: a list of "https" and "http".')
        ports = settings.get("ports", [_DEFAULT_PORTS[scheme] for scheme in schemes])
        whole = isinstance(ports, list | tuple) and all(isinstance(p, int) and not isinstance(p, bool) and 0 < p < 65536 for p in ports)
        if not whole or not ports:
            raise ProviderConfigError("guard.ports: a list of port numbers, 1 to 65535.")
        return cls(frozenset(schemes), frozenset(ports), _networks(settings.get("private_networks", [])))

    def check_url(self, url: str) -> SplitResult:
        """The parsed URL, when its scheme, host and port are allowed. It resolves nothing. Raises Forbidden."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise Forbidden(f"{url!r} is no URL: {error}.") from None
        if parts.scheme not in self.schemes:
            raise Forbidden(f"{parts.scheme or 'no scheme'}: only {' and '.join(sorted(self.schemes))} may be reached (guard.schemes).")
        if not parts.hostname or parts.username is not None or parts.password is not None:
            raise Forbidden("The URL needs a host, and no user name or password before it.")
        self.check_port(_DEFAULT_PORTS[parts.scheme] if port is None else port)
        return parts

    def check_port(self, port: int) -> None:
        """Raises Forbidden for a port that is not on the list."""
        if port not in self.ports:
            raise Forbidden(f"Port {port} is not one of {', '.join(map(str, sorted(self.ports)))} (guard.ports).")

    def check_address(self, address: Address) -> Address:
        """The address to connect to (a mapped IPv4 address as such), when it may be reached. Raises Forbidden."""
        plain = (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address
        if is_public(plain) or any(plain in network for network in self.private_networks):
            return plain
        raise Forbidden(f"{plain} is no public address. If it is meant, add its network to guard.private_networks.")

    def addresses(self, host: str, port: int, within_s: float) -> list[Address]:
        """Every address of `host`, all of them checked: one that is forbidden forbids the name. Raises Forbidden, OSError."""
        return list(dict.fromkeys(self.check_address(address) for address in resolve(host, port, within_s)))

    def transport(self, timeout_s: float, tls: ssl.SSLContext | None = None) -> httpx.BaseTransport:
        """A transport whose every connection is checked and pinned, and whose every exchange ends within `timeout_s`."""
        return _Transport(self, timeout_s, tls or httpx.create_ssl_context(trust_env=False))


def _networks(given: object) -> tuple[Network, ...]:
    try:
        if not isinstance(given, list | tuple):
            raise ValueError("not a list")
        return tuple(ipaddress.ip_network(text) for text in map(_text, given))
    except ValueError as error:
        raise ProviderConfigError(f'guard.private_networks: a list of networks such as "10.2.0.0/16" ({error}).') from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no text")
    return value


def resolve(host: str, port: int, within_s: float) -> list[Address]:
    """The addresses of a host name, or of an address written out, within a time. Raises OSError (TimeoutError)."""
    answers: list[Address] = []
    failed: list[OSError] = []

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.extend(ipaddress.ip_address(str(sockaddr[0])) for *_, sockaddr in found)
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that is none
            failed.append(error if isinstance(error, OSError) else OSError(f"{host!r} is no host name"))

    # The resolver has no time limit of its own, and a thread that is stuck in it must not keep the process.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(within_s)
    if failed:
        raise failed[0]
    if asking.is_alive() or not answers:
        raise TimeoutError(f"{host} was not resolved within {within_s:g} s")
    return list(answers)


class _Transport(httpx.BaseTransport):
    """httpx over httpcore with our own backend. No connection is kept: each exchange is checked anew, and has its own time."""

    def __init__(self, guard: Guard, timeout_s: float, tls: ssl.SSLContext) -> None:
        self._guard = guard
        self._pool = httpcore.ConnectionPool(
            ssl_context=tls,
            max_keepalive_connections=0,
            retries=0,
            network_backend=_Backend(guard, timeout_s),
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        with _errors_of_httpx():
            try:
                self._guard.check_url(str(request.url))
            except Forbidden as error:
                raise httpcore.ConnectError(str(error)) from error
            url = request.url
            target = httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path)
            assert isinstance(request.stream, httpx.SyncByteStream)
            headers, extensions = request.headers.raw, request.extensions
            answer = self._pool.handle_request(
                httpcore.Request(request.method, target, headers=headers, content=request.stream, extensions=extensions)
            )
        return httpx.Response(answer.status, headers=answer.headers, stream=_Body(answer), extensions=answer.extensions)

    def close(self) -> None:
        self._pool.close()


class _Body(httpx.SyncByteStream):
    def __init__(self, answer: httpcore.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with _errors_of_httpx():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


@contextlib.contextmanager
def _errors_of_httpx() -> Iterator[None]:
    """The two libraries name their errors alike."""
    try:
        yield
    except (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
        named: type[httpx.TransportError] = getattr(httpx, type(error).__name__, httpx.TransportError)
        raise named(str(error)) from error


class _Backend(httpcore.NetworkBackend):
    """Connects to a checked address only; the name stays what TLS is checked against."""

    def __init__(self, guard: Guard, timeout_s: float) -> None:
        self._guard, self._timeout_s = guard, timeout_s
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.NetworkStream:
        until = time.monotonic() + self._timeout_s
        try:
            self._guard.check_port(port)
            addresses = self._guard.addresses(host, port, self._timeout_s)
        except (Forbidden, OSError) as error:
            raise httpcore.ConnectError(str(error)) from error
        failed: Exception = httpcore.ConnectTimeout(f"{host} could not be reached in time")
        for address in addresses:
            left = until - time.monotonic()
            if left <= 0:
                break
            try:
                stream = self._plain.connect_tcp(str(address), port, min(_CONNECT_S, left), local_address, socket_options)
                return _Bounded(stream, until)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise failed


class _Bounded(httpcore.NetworkStream):
    """A connection that is over at `until` (monotonic seconds), however slowly the other side goes on."""

    def __init__(self, stream: httpcore.NetworkStream, until: float) -> None:
        self._stream, self._until = stream, until

    def _left(self, timeout: float | None, over: type[Exception]) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise over("the exchange did not end in time")
        return left if timeout is None else min(timeout, left)

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._left(timeout, httpcore.ConnectTimeout)
        return _Bounded(self._stream.start_tls(ssl_context, server_hostname, left), self._until)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
