"""A small proxy for transport faults: it passes HTTP on to one server, and cuts, loses, holds or answers what a test tells it to.

Every request has a connection of its own on both sides, so that what is cut is exactly one exchange."""

import asyncio
import contextlib
import re
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

Mode = Literal["pass", "drop_request", "lose_response", "hold_request", "http_502", "maintenance_200"]
_ANSWERS = {
    "http_502": b"HTTP/1.1 502 Bad Gateway\r\ncontent-type: text/html\r\ncontent-length: 3\r\nconnection: close\r\n\r\n502",
    "maintenance_200": b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 4\r\nconnection: close\r\n\r\nback",
}


@dataclass
class Rule:
    """What happens to the next `times` requests whose "METHOD /path" matches."""

    mode: Mode
    pattern: re.Pattern[str]
    times: int
    free: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Seen:
    """One exchange. `status` is what the server answered, None when it was not asked or has not answered."""

    what: str
    mode: Mode
    body: bytes
    status: int | None = None


class Proxy:
    """`with Proxy(target_url) as proxy:`; give `proxy.url` to whoever should be cut off.

    `drop_request` closes before the server is asked, `lose_response` after it has answered; `hold_request` waits for `release`
    and then passes the request on even when nobody waits for its answer any more, like a packet that was under way for too long.
    """

    def __init__(self, target_url: str) -> None:
        target = urlsplit(target_url)
        self._target = (target.hostname, target.port)
        self._rules: list[Rule] = []
        self.seen: list[Seen] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        starting = asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(5)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        async def end() -> None:
            self._server.close()
            await asyncio.sleep(0)  # what was accepted just now becomes a task first
            others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def arm(self, mode: Mode, what: str, times: int = 1) -> None:
        """From now on do this to the next `times` requests that match, e.g. `arm("lose_response", r"POST .*/effects$")`."""
        self._rules.append(Rule(mode, re.compile(what), times))

    def release(self) -> None:
        """What is held goes on its way."""
        for rule in list(self._rules):
            self._loop.call_soon_threadsafe(rule.free.set)

    def asked(self, what: str) -> list[Seen]:
        """The exchanges that match, oldest first."""
        return [one for one in self.seen if re.search(what, one.what)]

    def _rule(self, what: str) -> Rule | None:
        for rule in self._rules:
            if rule.times and rule.pattern.search(what):
                rule.times -= 1
                return rule
        return None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await self._exchange(reader, writer)
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?im)^content-length: *(\d+)", head)
        body = await reader.readexactly(int(length[1])) if length else b""
        what = b" ".join(head.split(b" ", 2)[:2]).decode()
        rule = self._rule(what.partition("?")[0])
        seen = Seen(what, rule.mode if rule else "pass", body)
        self.seen.append(seen)
        if seen.mode in _ANSWERS:
            writer.write(_ANSWERS[seen.mode])
            await writer.drain()
        elif seen.mode != "drop_request":
            if rule and seen.mode == "hold_request":
                await rule.free.wait()
            answer = await self._ask(head, body)
            seen.status = int(answer.split(b" ", 2)[1]) if answer else None
            if seen.mode != "lose_response":
                writer.write(answer)
                await writer.drain()

    async def _ask(self, head: bytes, body: bytes) -> bytes:
        lines = [line for line in head.rstrip().split(b"\r\n") if not line.lower().startswith((b"connection:", b"keep-alive:"))]
        reader, writer = await asyncio.open_connection(*self._target)
        try:
            writer.write(b"\r\n".join([*lines, b"Connection: close", b"", b""]) + body)
            return await reader.read()
        finally:
            writer.close()
