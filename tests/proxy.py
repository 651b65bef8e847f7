"""A small proxy for transport faults: it passes HTTP or SMTP on to one server, and cuts, loses, holds or answers what a test tells it to.

Every HTTP request has a connection of its own on both sides, so that what is cut is exactly one exchange. Of SMTP the unit is a command
with its reply, and the mail itself with the line that ends it, which is called END."""

import asyncio
import contextlib
import re
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self
from urllib.parse import urlsplit

_UNIT_BYTES_MAX = 1024 * 1024
Mode = Literal["pass", "drop_request", "lose_response", "hold_request", "hold_response", "http_502", "maintenance_200"]


def _page(status: str, text: str) -> bytes:
    body = f"<!doctype html><title>{status}</title><h1>{text}</h1>".encode()
    head = f"HTTP/1.1 {status}\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return head.encode() + body


_ANSWERS = {"http_502": _page("502 Bad Gateway", "502"), "maintenance_200": _page("200 OK", "We will be back soon")}


@dataclass
class Rule:
    """What happens to the next `times` requests whose "METHOD /path" (or SMTP command) matches."""

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


class Serving:
    """A server on 127.0.0.1 in a thread of its own, for as long as a `with` block; `port` is where it listens."""

    port: int

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._open: set[asyncio.Task[None] | None] = set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(task := asyncio.current_task())  # the loop itself would let a connection that waits be collected
        try:
            await self._serve(reader, writer)
        finally:
            self._open.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        self._thread.start()
        starting = asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_UNIT_BYTES_MAX)
        self._server = asyncio.run_coroutine_threadsafe(starting, self._loop).result(5)
        self.port = int(self._server.sockets[0].getsockname()[1])
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        async def end() -> None:
            self._server.close()
            await asyncio.sleep(0)  # what was accepted just now becomes a task first
            while others := [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]:
                for task in others:
                    task.cancel()
                await asyncio.gather(*others, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()


class Proxy(Serving):
    """`with Proxy("http://…") as proxy:` (or `smtp://…`); give `proxy.url` or `proxy.port` to whoever should be cut off.

    `drop_request` closes before the server is asked, `lose_response` after it has answered; `hold_request` waits for `release`
    and then passes the request on even when nobody waits for its answer any more, like a packet that was under way for too long;
    `hold_response` keeps back what the server has answered already.
    """

    def __init__(self, target_url: str) -> None:
        super().__init__()
        target = urlsplit(target_url)
        self._scheme, self._target = target.scheme, (target.hostname, target.port)
        self._rules: list[Rule] = []
        self.seen: list[Seen] = []

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def arm(self, mode: Mode, what: str, times: int = 1) -> None:
        """From now on do this to the next `times` requests that match, e.g. `arm("lose_response", r"POST .*/effects$")`."""
        self._rules.append(Rule(mode, re.compile(what), times))

    def release(self) -> None:
        """What is held goes on its way."""
        for rule in list(self._rules):
            self._loop.call_soon_threadsafe(rule.free.set)

    def let_go(self) -> None:
        """As `release`, and nothing is held any more that comes later."""
        for rule in self._rules:
            if rule.mode.startswith("hold_"):
                rule.times = 0
        self.release()

    def disarm(self) -> None:
        """Whatever was armed is over, and what is held goes on its way."""
        for rule in self._rules:
            rule.times = 0
        self.release()

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
            await (self._mail if self._scheme == "smtp" else self._exchange)(reader, writer)
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
            if rule and seen.mode == "hold_response":
                await rule.free.wait()
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

    async def _mail(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(*self._target)
        try:
            reply, mail_follows = await _reply(from_server), False
            while reply:
                writer.write(reply)
                await writer.drain()
                unit = await (reader.readuntil(b"\r\n.\r\n") if mail_follows else reader.readline())
                if not unit:
                    break
                what = "END" if mail_follows else unit.split()[0].decode("ascii", "replace").upper()
                reply = await self._command(what, unit, from_server, to_server)
                mail_follows = what == "DATA" and reply.startswith(b"354")
        finally:
            to_server.close()

    async def _command(self, what: str, unit: bytes, from_server: asyncio.StreamReader, to_server: asyncio.StreamWriter) -> bytes:
        """Pass one command (or the mail) on; the reply to give, nothing when the connection ends here."""
        rule = self._rule(what)
        seen = Seen(what, rule.mode if rule else "pass", unit)
        self.seen.append(seen)
        assert seen.mode not in _ANSWERS, f"{seen.mode} is HTTP"
        if seen.mode == "drop_request":
            return b""
        if rule and seen.mode == "hold_request":
            await rule.free.wait()
        to_server.write(unit)
        await to_server.drain()
        reply = await _reply(from_server)
        seen.status = int(reply[:3]) if reply[:3].isdigit() else None
        if rule and seen.mode == "hold_response":
            await rule.free.wait()
        return b"" if seen.mode == "lose_response" else reply


async def _reply(server: asyncio.StreamReader) -> bytes:
    """One SMTP reply with all its lines; nothing when the server has hung up."""
    lines = [await server.readline()]
    while lines[-1][3:4] == b"-":
        lines.append(await server.readline())
    return b"".join(lines)
