"""The protocol a worker speaks, and its HTTP form. A door carries calls; it knows no rule and never repeats an act by
itself.

The server's in-process door implements the same `Door` with the same dicts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from countermand.errors import Json, Problem, Unreachable

# Connections are let go before a server with the usual 5 s lets go of them: a race there looks like a lost answer.
_LIMITS = httpx.Limits(max_connections=200, keepalive_expiry=3.0)


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer: HTTP status (200, 201, 204 tell different things) and its JSON body ({} when empty)."""

    status: int
    body: Json = field(default_factory=dict)


class Door(Protocol):
    """One method per API call, JSON-able dict in, Answer out.

    Every method raises `Problem` for a 4xx answer, and `Unreachable` when it cannot be known what the control plane
    recorded (no connection, timeout, 5xx, 429). Waits (`wait_s`) may block that long. Methods are called from several
    threads.
    """

    def create_run(self, body: Json, idempotency_key: str | None = None) -> Answer: ...
    def claim(self, body: Json) -> Answer: ...
    def heartbeat(self, run: str, body: Json) -> Answer: ...
    def directives(self, runs: list[tuple[str, int]], heard: list[str], wait_s: float) -> Answer: ...
    def heard(self, run: str, body: Json) -> Answer: ...
    def start_step(self, run: str, body: Json) -> Answer: ...
    def finish_step(self, run: str, key: str, body: Json) -> Answer: ...
    def begin_effect(self, run: str, body: Json) -> Answer: ...
    def begin_declared(self, operation_id: str, body: Json) -> Answer: ...
    def outcome(self, operation_id: str, body: Json) -> Answer: ...
    def request_approval(self, run: str, body: Json) -> Answer: ...
    def suspend(self, run: str, body: Json) -> Answer: ...
    def register_cleanup(self, run: str, body: Json) -> Answer: ...
    def claim_cleanup(self, body: Json) -> Answer: ...
    def heartbeat_cleanup(self, cleanup: str, body: Json) -> Answer: ...
    def finish_cleanup(self, cleanup: str, body: Json) -> Answer: ...
    def stopped(self, run: str, body: Json) -> Answer: ...
    def release(self, run: str, body: Json) -> Answer: ...
    def gone(self, holder: str, body: Json) -> Answer: ...
    def finish_run(self, run: str, body: Json) -> Answer: ...
    def get_run(self, run: str) -> Answer: ...
    def get_account(self, run: str) -> Answer: ...

    def after_fork(self) -> None:
        """Called once in each child process: drop connections inherited from the parent without closing them."""

    def close(self) -> None:
        """Give connections back. Safe to call twice."""


class HttpDoor:
    """The door over HTTP. `url`: the control plane's address; `token`: `cm_<id>_<secret>`; `timeout_s`: for one
    answer.
    """

    def __init__(self, url: str, token: str, *, timeout_s: float = 5.0, transport: httpx.BaseTransport | None = None) -> None:
        self.url = url.rstrip("/")
        self._token = token
        self._timeout_s = timeout_s
        self._transport = transport
        self._client: httpx.Client | None = None
        self._pid = 0

    def create_run(self, body: Json, idempotency_key: str | None = None) -> Answer:
        return self._post("/runs", body, idempotency_key=idempotency_key)

    def claim(self, body: Json) -> Answer:
        return self._post("/runs/claim", body, wait_s=float(body.get("wait_s", 0)))

    def heartbeat(self, run: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/heartbeat", body)

    def directives(self, runs: list[tuple[str, int]], heard: list[str], wait_s: float) -> Answer:
        query = {"runs": ",".join(f"{run}:{epoch}" for run, epoch in runs), "wait_s": f"{wait_s:g}"}
        if heard:
            query["heard"] = ",".join(heard)
        return self._ask("GET", "/directives", query=query, wait_s=wait_s)

    def heard(self, run: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/heard", body)

    def start_step(self, run: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/steps", body)

    def finish_step(self, run: str, key: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/steps/{_q(key)}/finish", body)

    def begin_effect(self, run: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/effects", body)

    def begin_declared(self, operation_id: str, body: Json) -> Answer:
        return self._post(f"/effects/{_q(operation_id)}/begin", body)

    def outcome(self, operation_id: str, body: Json) -> Answer:
        return self._post(f"/effects/{_q(operation_id)}/outcome", body)

    def request_approval(self, run: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/approvals", body)

    def suspend(self, run: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/suspend", body)

    def register_cleanup(self, run: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/cleanups", body)

    def claim_cleanup(self, body: Json) -> Answer:
        return self._post("/cleanups/claim", body)

    def heartbeat_cleanup(self, cleanup: str, body: Json) -> Answer:
        return self._post(f"/cleanups/{_q(cleanup)}/heartbeat", body)

    def finish_cleanup(self, cleanup: str, body: Json) -> Answer:
        return self._post(f"/cleanups/{_q(cleanup)}/finish", body)

    def stopped(self, run: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/stopped", body)

    def release(self, run: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/release", body)

    def gone(self, holder: str, body: Json) -> Answer:
        return self._post(f"/workers/{_q(holder)}/gone", body)

    def finish_run(self, run: str, body: Json) -> Answer:
        return self._post(f"/runs/{_q(run)}/finish", body)

    def get_run(self, run: str) -> Answer:
        return self._ask("GET", f"/runs/{_q(run)}")

    def get_account(self, run: str) -> Answer:
        return self._ask("GET", f"/runs/{_q(run)}/account")

    def after_fork(self) -> None:
        self._client = None

    def close(self) -> None:
        if self._client and self._pid == os.getpid():
            self._client.close()
        self._client = None

    def _post(self, path: str, body: Json, *, wait_s: float = 0, idempotency_key: str | None = None) -> Answer:
        return self._ask("POST", path, body=body, wait_s=wait_s, idempotency_key=idempotency_key)

    def _ask(
        self,
        method: str,
        path: str,
        *,
        body: Json | None = None,
        query: dict[str, str] | None = None,
        wait_s: float = 0,
        idempotency_key: str | None = None,
    ) -> Answer:
        headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        timeout = httpx.Timeout(self._timeout_s, read=self._timeout_s + wait_s)
        try:
            response = self._http().request(method, f"/api/v1{path}", json=body, params=query, headers=headers, timeout=timeout)
        except httpx.HTTPError as error:
            raise Unreachable(f"{method} {path}: {type(error).__name__}: {error}") from error
        return _read(method, path, response)

    def _http(self) -> httpx.Client:
        if self._client is None or self._pid != os.getpid():
            # A client inherited over a fork shares sockets with the parent: never used, never closed here.
            self._pid = os.getpid()
            self._client = httpx.Client(
                base_url=self.url,
                headers={
                    "Authorization": f"Bearer {self._token}",
                    "Accept": "application/json, application/problem+json",
                },
                transport=self._transport or httpx.HTTPTransport(retries=0, limits=_LIMITS),
                follow_redirects=False,
                trust_env=False,
            )
        return self._client


def _read(method: str, path: str, response: httpx.Response) -> Answer:
    status = response.status_code
    if status >= 500 or status == 429:
        raise Unreachable(f"{method} {path}: the control plane answered {status}")
    try:
        body: Any = response.json() if response.content else {}
    except ValueError:
        body = None
    if 400 <= status < 500:
        facts = body if isinstance(body, dict) else {}
        detail = facts.get("detail") or facts.get("title") or f"{method} {path} was answered {status}"
        raise Problem(status, str(facts.get("code") or "invalid"), str(detail), facts)
    if not 200 <= status < 300 or not isinstance(body, dict):
        # A proxy's login page or a redirect is not the control plane: it confirms nothing.
        raise Unreachable(f"{method} {path}: answered {status} without a JSON object; is COUNTERMAND_URL right?")
    return Answer(status, body)


def _q(part: str) -> str:
    return quote(part, safe="")
