"""One bounded HTTP exchange: no retry, no redirect, a size and a time limit, and what was seen kept for evidence.

It knows no provider and judges nothing beyond "did bytes leave" and "is this a JSON object".
"""

import hashlib
import json
import os
import re
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from ledger.providers.base import BODY_EXCERPT_BYTES, Seen
from ledger.providers.guard import Guard

BODY_BYTES_MAX = 1024 * 1024
_SECRET = re.compile(r"secret|token|password|passwd|authorization|api_?key|card|iban|cvc|pan$|e?mail|phone", re.IGNORECASE)
_REQUEST_ID_HEADERS = ("request-id", "x-request-id", "x-amzn-requestid", "cf-ray")


class NothingLeft(Exception):
    """No connection was made: the request cannot have reached the provider."""


class NoAnswer(Exception):
    """The request may have reached the provider, and no usable answer came back."""


@dataclass(frozen=True)
class Exchange:
    """A complete answer. `json` is the parsed object, or None when the body is not a JSON object."""

    status: int
    json: dict[str, Any] | None
    seen: Seen


class Wire:
    """An HTTP client for one provider; `timeout_s` bounds a whole exchange, not only each read.

    With a `guard` only what it allows is reached. Without one the base URL must be trusted.
    """

    def __init__(self, base_url: str, *, timeout_s: float, guard: Guard | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._base_url, self._timeout_s = base_url, timeout_s
        self._guard, self._tls = guard, tls
        self._lock = threading.Lock()
        self._client: tuple[int, httpx.Client] | None = None

    def _connection(self) -> httpx.Client:
        """This process's own client: sockets shared over a fork would mix up answers."""
        with self._lock:
            if self._client is None or self._client[0] != os.getpid():
                timeout = httpx.Timeout(self._timeout_s, connect=min(3.0, self._timeout_s))
                guarded = self._guard and self._guard.transport(self._timeout_s, self._tls)
                transport = guarded or httpx.HTTPTransport(retries=0)
                client = httpx.Client(
                    base_url=self._base_url,
                    timeout=timeout,
                    transport=transport,
                    follow_redirects=False,
                    trust_env=False,
                )
                self._client = (os.getpid(), client)
            return self._client[1]

    def exchange(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: str | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Exchange:
        """Send one request (`body` as JSON, or `content` as it is) and read its whole answer. NothingLeft or NoAnswer otherwise."""
        until = time.monotonic() + self._timeout_s
        try:
            with self._connection().stream(method, path, params=params, json=body, content=content, headers=headers) as response:
                return _exchange(response, _read(response, until))
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
            raise NothingLeft(f"{type(error).__name__}: {error}") from error
        except httpx.HTTPError as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error


def _read(response: httpx.Response, until: float) -> bytes:
    chunks, size = [], 0
    for chunk in response.iter_bytes():
        chunks.append(chunk)
        size += len(chunk)
        if size > BODY_BYTES_MAX:
            raise NoAnswer(f"HTTP {response.status_code} with more than {BODY_BYTES_MAX} bytes")
        if time.monotonic() > until:
            raise NoAnswer(f"HTTP {response.status_code}, but its body did not end in time")
    return b"".join(chunks)


def _exchange(response: httpx.Response, raw: bytes) -> Exchange:
    parsed = _json_object(response.headers.get("content-type", ""), raw)
    request_id = next((response.headers[name] for name in _REQUEST_ID_HEADERS if name in response.headers), None)
    seen = Seen(response.status_code, excerpt(raw, parsed), hashlib.sha256(raw).hexdigest(), request_id)
    return Exchange(response.status_code, parsed, seen)


def _json_object(content_type: str, raw: bytes) -> dict[str, Any] | None:
    media = content_type.partition(";")[0].strip().lower()
    if media != "application/json" and not media.endswith("+json"):
        return None
    try:
        value = json.loads(raw, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def excerpt(raw: bytes, parsed: dict[str, Any] | None) -> str:
    """At most 4 KB of a body that may be kept for ever: values under secret or personal names are masked."""
    text = raw.decode("utf-8", "replace") if parsed is None else json.dumps(_masked(parsed), ensure_ascii=False)
    printable = "".join(c if c.isprintable() or c in "\n\t" else "\ufffd" for c in text[:BODY_EXCERPT_BYTES])
    return printable.encode()[:BODY_EXCERPT_BYTES].decode("utf-8", "ignore")


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: "[redacted]" if _SECRET.search(k) and v is not None else _masked(v) for k, v in value.items()}
    return [_masked(v) for v in value] if isinstance(value, list) else value
