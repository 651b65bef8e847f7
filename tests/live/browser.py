"""A page as the browser keeps it: what it shows by id and version, and the socket that brings what is new. Follows static/app.js."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
import uuid
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from runs.models import Run

WAIT_S = 5.0


class Page:
    """An open page. `rows`, `version` and `seq` are what it shows; `html` is the newest of each element, `frames` all that came."""

    def __init__(self, url: str, session: str, origin: str | None = None, **watch: Any) -> None:
        self._socket_url = url.replace("http", "ws", 1) + "/ws/ui/"
        self._headers = {"Origin": url if origin is None else origin, "Cookie": f"sessionid={session}"}
        self.list: str | None = watch.get("list")
        self.newest: str | None = watch.get("newest")
        self.run: str | None = watch.get("run")
        self.rows: dict[str, int] = dict(watch.get("rows", {}))
        self.version, self.seq = watch.get("version", 0), watch.get("seq", 0)
        self.html: dict[str, str] = {}
        self.matches: dict[str, bool] = {}
        self.frames: list[dict[str, Any]] = []
        self.at: dict[tuple[str, int], float] = {}
        self.socket: ClientConnection

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.socket.close()

    async def connect(self, watch: bool = True) -> None:
        self.socket = await connect(self._socket_url, additional_headers=self._headers, max_size=None, compression=None)
        if watch:
            with contextlib.suppress(ConnectionClosed):  # refused before it could say anything: `closed` tells
                await self.watch()

    async def watch(self) -> None:
        """Say what is shown."""
        shown = {"list": self.list, "newest": self.newest, "rows": self.rows, "run": self.run, "version": self.version, "seq": self.seq}
        await self.socket.send(json.dumps({"type": "watch", **shown}))

    async def read(self) -> dict[str, Any]:
        """The next frame, applied."""
        frame: dict[str, Any] = json.loads(await self.socket.recv())
        self.frames.append(frame)
        for item in frame.get("items", ()):
            self._apply(item)
        return frame

    def _apply(self, item: dict[str, Any]) -> None:
        now, name = time.monotonic(), item["id"]
        self.html[name] = item["html"]
        if name.startswith("row-"):
            assert item["version"] >= self.rows[name[4:]], "versions never go backwards"
            self.rows[name[4:]] = item["version"]
            self.at.setdefault((name, item["version"]), now)
            if "matches" in item:
                self.matches[name[4:]] = item["matches"]
        elif name.startswith("tl-"):
            seq = int(name[3:])
            assert seq > self.seq, "the timeline only grows"
            self.seq = seq
        else:
            assert item["version"] >= self.version or name.startswith("case-"), "versions never go backwards"
            self.version = item["version"]

    async def until(self, done: Callable[[], bool], within_s: float = WAIT_S) -> None:
        """Read until it is so."""
        async with asyncio.timeout(within_s):
            while not done():
                await self.read()

    async def synced(self, within_s: float = WAIT_S) -> None:
        """Read until the answer to a `watch` is complete."""
        count = self.count("synced")
        await self.until(lambda: self.count("synced") > count, within_s)

    def count(self, kind: str) -> int:
        return sum(frame["type"] == kind for frame in self.frames)

    async def closed(self, within_s: float = WAIT_S) -> int:
        """Read until the server closes; the code."""
        async with asyncio.timeout(within_s):
            try:
                while True:
                    await self.read()
            except ConnectionClosed as error:
                assert error.rcvd is not None
                return error.rcvd.code


def list_of(runs: Iterable[Run]) -> dict[str, int]:
    """The rows of a list that shows these runs as they are now."""
    ids = [run.pk for run in runs]
    return {str(pk): version for pk, version in Run.objects.filter(pk__in=ids).values_list("pk", "version")}


def row(run: Run) -> str:
    return str(run.pk)


def some_id() -> str:
    return str(uuid.uuid4())
