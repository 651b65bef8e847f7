"""The listening side of the SDK's fault points: a test waits until a process has reached a place, and lets it go on when it likes."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self


class Reached:
    """A process that stands at a fault point. `facts`: what it said (point, pid, …)."""

    def __init__(self, facts: dict[str, Any], connection: socket.socket) -> None:
        self.facts = facts
        self.point: str = facts["point"]
        self.pid: int = facts["pid"]
        self._connection = connection

    def release(self) -> None:
        """Let the process go on."""
        try:
            self._connection.sendall(b"go\n")
        except OSError:
            return
        finally:
            self._connection.close()


class Listener:
    """`with Listener("sending") as points:` holds processes at the named points and lets them pass all others.

    Give `env` to the process: `{**os.environ, **points.env}`.
    """

    def __init__(self, *hold: str) -> None:
        self._hold = set(hold)
        self._server = socket.create_server(("127.0.0.1", 0))
        self._changed = threading.Condition()
        self._standing: list[Reached] = []
        self.seen: list[dict[str, Any]] = []
        host, port = self._server.getsockname()
        self.env = {"COUNTERMAND_FAULTPOINTS": f"{host}:{port}"}

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)  # closing alone would leave the accepting thread waiting for ever
        self._server.close()
        with self._changed:
            self._hold.clear()
            standing, self._standing = self._standing, []
        for reached in standing:
            reached.release()

    def wait_for(self, point: str, timeout_s: float = 20.0, where: Callable[[dict[str, Any]], bool] = lambda _: True) -> Reached:
        """The next process standing at a point; it is no longer listed afterwards. Raises TimeoutError."""

        def found() -> Reached | None:
            return next((r for r in self._standing if r.point == point and where(r.facts)), None)

        with self._changed:
            if not self._changed.wait_for(found, timeout_s):
                raise TimeoutError(f"nothing reached {point!r} within {timeout_s} s; seen: {[s['point'] for s in self.seen]}")
            reached = found()
            assert reached is not None
            self._standing.remove(reached)
            return reached

    def hold(self, *points: str) -> None:
        """Hold processes at these points too, from now on."""
        with self._changed:
            self._hold.update(points)

    def pass_all(self) -> None:
        """Hold nothing any more, and let everybody go on."""
        with self._changed:
            self._hold.clear()
            standing, self._standing = self._standing, []
        for reached in standing:
            reached.release()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(connection,), daemon=True).start()

    def _read(self, connection: socket.socket) -> None:
        line = connection.makefile("rb").readline()
        if not line:
            connection.close()
            return
        reached = Reached(json.loads(line), connection)
        with self._changed:
            self.seen.append(reached.facts)
            held = reached.point in self._hold
            if held:
                self._standing.append(reached)
            self._changed.notify_all()
        if not held:
            reached.release()
