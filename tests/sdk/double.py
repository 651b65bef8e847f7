"""A scripted control plane on a real socket: it speaks the contract for one process's memory, and can lose answers, refuse and cancel.

It records every call in order. It is a double for the SDK's tests only; the flow tests use the real server.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

Json = dict[str, Any]
Reply = tuple[int, Json]


@dataclass
class Held:
    """A run as the double knows it."""

    id: str
    agent: str
    input: Json
    state: str = "scheduled"
    epoch: int = 0
    token: str = ""
    holder: str = ""
    steps: dict[str, Json] = field(default_factory=dict)
    effects: dict[str, Json] = field(default_factory=dict)
    waits: Json | None = None
    result: Any = None
    error: str = ""
    cancelled: bool = False

    def shape(self) -> Json:
        return {
            "id": self.id, "ref": "R-" + self.id[:10].upper(), "agent": self.agent, "input": self.input, "state": self.state,
            "result": self.result, "error": self.error,
        }  # fmt: skip


class Double:
    """`calls`: every (verb, path, body) in the order of arrival. `on(path_end, …)`: what to answer instead, once."""

    def __init__(self) -> None:
        self.url = ""
        self.calls: list[tuple[str, str, Json]] = []
        self.runs: dict[str, Held] = {}
        self.changed = threading.Condition(threading.RLock())
        self.instead: list[tuple[str, Callable[[Json], Reply | None]]] = []
        self.send_within_s = 10.0
        self.ttl_s = 30.0
        self.approvals: dict[str, Json] = {}
        self.cleanups: list[Json] = []
        self.down = False
        self.outcome_state: Callable[[Json], str] = lambda body: {"not_sent": "declared"}.get(body["verdict"], body["verdict"])

    # Scripting

    def add(self, agent: str = "agent", **input: Any) -> Held:
        """A run that waits for a worker."""
        run = Held(str(uuid.uuid4()), agent, input)
        with self.changed:
            self.runs[run.id] = run
            self.changed.notify_all()
        return run

    def once(self, path_end: str, reply: Callable[[Json], Reply | None] | Reply) -> None:
        """Answer the next call whose path ends so with `reply`; a callable may return None to lose the answer (after acting)."""
        self.instead.append((path_end, reply if callable(reply) else lambda _: reply))

    def lose_answer(self, path_end: str) -> None:
        """Carry out the next such call, and drop the connection instead of answering."""
        self.instead.append((path_end, lambda _: None))

    def cancel(self, run: Held) -> None:
        """Cancel: nothing new may start, and whoever waits on directives hears it."""
        with self.changed:
            run.cancelled = True
            run.state = "cancelling"
            self.changed.notify_all()

    def bodies(self, path_end: str) -> list[Json]:
        """The bodies of all calls whose path ends so."""
        with self.changed:
            return [body for _, path, body in self.calls if path.endswith(path_end)]

    def wait_for(self, seen: Callable[[], Any], timeout_s: float = 10.0) -> Any:
        """Wait until a call makes `seen()` true; returns what it returned."""
        with self.changed:
            assert self.changed.wait_for(seen, timeout_s), f"not seen within {timeout_s} s; calls: {self.calls[-12:]}"
            return seen()

    # The contract

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Json) -> Reply | None:
        with self.changed:
            self.calls.append((method, path, body))
            self.changed.notify_all()
            if self.down:
                return 503, {}
            scripted = next((entry for entry in self.instead if path.endswith(entry[0])), None)
            if scripted:
                self.instead.remove(scripted)
                reply = scripted[1](body)
                if reply is None:
                    self._route(path, query, body)
                return reply
        return self._route(path, query, body)

    def _route(self, path: str, query: dict[str, list[str]], body: Json) -> Reply:
        parts = [unquote(part) for part in path.split("/")[1:]]
        match parts:
            case ["runs"]:
                return self._create(body)
            case ["runs", "claim"]:
                return self._claim(body)
            case ["directives"]:
                return self._directives(query)
            case ["effects", op, verb]:
                return self._effect_verb(op, verb, body)
            case ["workers", _, "gone"]:
                return 200, {}
            case ["cleanups", "claim"]:
                return self._claim_cleanup()
            case ["cleanups", _, _]:
                return 200, {}
            case ["runs", run, *rest]:
                with self.changed:
                    return self._run_verb(self.runs[run], rest, body)
        return 404, {"code": "not_found", "detail": path}

    def _create(self, body: Json) -> Reply:
        with self.changed:
            run = self.add(body["agent"], **(body.get("input") or {}))
            if "claim" not in body:
                return 201, run.shape()
            return 201, self._lease(run, body["claim"]["holder"])

    def _lease(self, run: Held, holder: str) -> Json:
        run.epoch += 1
        run.state, run.token, run.holder = "running", uuid.uuid4().hex, holder
        ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=self.ttl_s)
        lease = {"token": run.token, "epoch": run.epoch, "expires_at": ends.isoformat(), "expires_in_s": self.ttl_s}
        done = [step for step in run.steps.values() if step["state"] != "running"]
        return {"run": run.shape(), "lease": lease, "steps": done, "effects": list(run.effects.values())}

    def _claim(self, body: Json) -> Reply:
        def due() -> Held | None:
            fitting = (r for r in self.runs.values() if r.agent in body["agents"] and r.state == "scheduled" and not r.waits)
            return next(fitting, None)

        with self.changed:
            self.changed.wait_for(due, min(body.get("wait_s", 0), 3))
            run = due()
            return (200, self._lease(run, body["holder"])) if run else (204, {})

    def _directives(self, query: dict[str, list[str]]) -> Reply:
        run_id, epoch = query["runs"][0].split(":")
        heard = query.get("heard", [""])[0]
        run = self.runs[run_id]

        def told() -> Json | None:
            if run.epoch != int(epoch) or not run.token:
                return {"run": run_id, "directive": "stop", "why": "lease_lost"}
            if run.cancelled and heard != run_id:
                return {"run": run_id, "directive": "cancel", "why": "cancelled", "position": 7}
            return None

        with self.changed:
            self.changed.wait_for(told, min(float(query["wait_s"][0]), 3))
            line = told()
        return 200, {"directives": [line] if line else []}

    def _run_verb(self, run: Held, rest: list[str], body: Json) -> Reply:
        match rest:
            case []:
                return 200, run.shape()
            case ["account"]:
                return 200, {"run": run.id, "stopped": []}
            case ["heard"] | ["cleanups"]:
                return 200, {}
            case ["steps", key, "finish"]:
                return self._finish_step(run, key, body)
            case ["stopped"]:
                return self._let_go(run, "cancelled" if run.cancelled else "scheduled")
        if body.get("lease") != run.token and body.get("role") != "cleanup":
            return 409, {"code": "lease_lost", "detail": "This lease is over."}
        if rest == ["heartbeat"]:
            return 200, {"directive": "cancel" if run.cancelled else "continue", "lease_expires_in_s": self.ttl_s}
        if rest == ["release"]:
            return self._let_go(run, "scheduled")
        if run.cancelled and body.get("role") != "cleanup":
            return 409, {"code": "cancelled", "detail": "The run was cancelled.", "position": 7}
        return self._act(run, rest[0], body)

    def _act(self, run: Held, verb: str, body: Json) -> Reply:
        if verb == "steps":
            step = run.steps.setdefault(body["key"], {"key": body["key"], "state": "running", "kind": body["kind"]})
            return (201 if step["state"] == "running" else 200), step
        if verb == "effects":
            return self._begin(run, body)
        if verb == "suspend":
            run.waits = {"until": body["until"]}
            return self._let_go(run, "awaiting_evidence")
        if verb == "approvals":
            if body["key"] in self.approvals:
                return 200, self.approvals[body["key"]]
            run.waits = {"until": "approval"}
            self._let_go(run, "awaiting_approval")
            return 201, {}
        assert verb == "finish"
        run.result, run.error = body.get("result"), body.get("error", "")
        return self._let_go(run, body["outcome"])

    def _let_go(self, run: Held, state: str) -> Reply:
        run.state, run.token = state, ""
        self.changed.notify_all()
        return 200, {"state": state}

    def _finish_step(self, run: Held, key: str, body: Json) -> Reply:
        step = run.steps[key]
        if run.cancelled:
            recorded = "discarded" if step["kind"] == "model_call" else "late"
            return 200, {"recorded": recorded, "directive": "cancel"}
        step.update(state=body["outcome"], result=body.get("result"), error=body.get("error"))
        return 200, {"recorded": body["outcome"], "directive": "continue"}

    def _begin(self, run: Held, body: Json) -> Reply:
        op = str(uuid.uuid5(uuid.UUID(run.id), f"{body['step']}/{body['ordinal']}"))
        effect = run.effects.setdefault(op, {"operation_id": op, "state": "declared", "attempt": 0, "nonce": "", "run": run.id})
        if effect["state"] == "declared" and body["begin"]:
            effect.update(state="sending", attempt=effect["attempt"] + 1, nonce=body["nonce"])
            return self._go(effect)
        if effect["state"] == "declared":
            return 201, {"operation_id": op, "state": "declared"}
        if effect["state"] == "sending" and effect["nonce"] == body["nonce"]:
            return self._go(effect)
        if effect["state"] in ("sending", "unknown", "pending"):
            return 409, {"code": "in_doubt", "detail": "wait", "operation_id": op, "run": run.id}
        return 200, effect

    def _go(self, effect: Json) -> Reply:
        return 201, {
            "operation_id": effect["operation_id"], "idempotency_key": effect["operation_id"], "state": "sending",
            "attempt": effect["attempt"], "send_within_s": self.send_within_s, "answer_within_s": 30.0,
        }  # fmt: skip

    def _effect_verb(self, op: str, verb: str, body: Json) -> Reply:
        with self.changed:
            effect = next(run.effects[op] for run in self.runs.values() if op in run.effects)
            if verb == "begin":
                effect.update(state="sending", attempt=effect["attempt"] + 1, nonce=body["nonce"])
                return self._go(effect)
            effect["state"] = self.outcome_state(body)
            effect["external_id"] = body.get("external_id")
            return 200, {"used_as": "applied", "effect": dict(effect)}

    def _claim_cleanup(self) -> Reply:
        with self.changed:
            return (200, self.cleanups.pop(0)) if self.cleanups else (204, {})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    double: Double

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        url = urlsplit(self.path)
        assert url.path.startswith("/api/v1/")
        reply = self.double.answer(self.command, url.path.removeprefix("/api/v1"), parse_qs(url.query), body)
        if reply is None:
            self.close_connection = True
            return
        status, answer = reply
        data = b"" if status == 204 else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = _serve

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that are killed or stop listening are what these tests are about."""


@contextlib.contextmanager
def serving(port: int = 0) -> Iterator[Double]:
    """A double on 127.0.0.1; yields it, with its address as `url`."""
    double = Double()
    handler = type("Handler", (_Handler,), {"double": double})
    server = _Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        double.url = f"http://127.0.0.1:{server.server_address[1]}"
        yield double
    finally:
        with double.changed:
            double.changed.notify_all()
        server.shutdown()
        server.server_close()
        thread.join()
