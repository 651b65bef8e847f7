"""A proxy in the way to PostgreSQL, for what happens *during* a transaction: a statement that waits behind another one, a COMMIT that
never arrives, and a COMMIT whose answer is lost, so that its sender cannot know whether it happened.

It reads just enough of the wire protocol to know which statements a transaction has sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import struct
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlencode

from psycopg import conninfo

from tests.proxy import Serving

Mode = Literal["hold_after", "lose_commit", "lose_answer"]
COMMIT = b"COMMIT"


@dataclass
class Rule:
    mode: Mode
    pattern: re.Pattern[str]
    free: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Line:
    """One connection: its prepared statements by name, and what its transaction has sent so far."""

    named: dict[bytes, str] = field(default_factory=dict)
    sent: list[str] = field(default_factory=list)
    met: Rule | None = None
    """What follows the statement that is being sent now waits for this one to be let go."""
    behind: Rule | None = None
    """The next message waits for this one."""
    silent: bool = False
    """The answer to the COMMIT is not passed on."""


class DatabaseProxy(Serving):
    """`with DatabaseProxy(APP_URL) as proxy:`; give `proxy.url` as DATABASE_URL to whoever should be cut off.

    `hold_after`: whatever follows the first statement that matches waits until `release`. `lose_commit`: the COMMIT of a transaction with
    a statement that matches is not passed on, and its connection ends. `lose_answer`: it is passed on, and what it answers is not.
    """

    def __init__(self, target_url: str) -> None:
        super().__init__()
        self._target = conninfo.conninfo_to_dict(target_url)
        self._rules: list[Rule] = []
        self._met: list[Rule] = []
        self.struck: list[Mode] = []
        """What was done so far, in order."""

    @property
    def url(self) -> str:
        name = f"{self._target['user']}@127.0.0.1:{self.port}/{self._target['dbname']}"
        return f"postgresql://{name}?{urlencode({'sslmode': 'disable', 'gssencmode': 'disable'})}"

    def arm(self, mode: Mode, pattern: str) -> None:
        """Once, to the first transaction that it fits."""
        self._rules.append(Rule(mode, re.compile(pattern)))

    def release(self) -> None:
        """What waits goes on."""
        for rule in self._met:
            self._loop.call_soon_threadsafe(rule.free.set)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line()
        from_server, to_server = await self._connect()
        pumps = [asyncio.create_task(self._asked(line, reader, to_server)), asyncio.create_task(_answered(line, from_server, writer))]
        try:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            to_server.close()
            writer.close()
            await asyncio.gather(*pumps, return_exceptions=True)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = str(self._target.get("host", "127.0.0.1")), int(self._target.get("port") or 5432)
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async def _asked(self, line: Line, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        """What the client says, message by message; it returns when the connection is to end."""
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            (length,) = struct.unpack("!I", start := await reader.readexactly(4))
            server.write(start + await reader.readexactly(length - 4))
            while True:
                kind = await reader.readexactly(1)
                (length,) = struct.unpack("!I", size := await reader.readexactly(4))
                body = await reader.readexactly(length - 4)
                if line.behind is not None:
                    await line.behind.free.wait()
                    line.behind = None
                if not self._read(line, kind, body):
                    return
                server.write(kind + size + body)
                await server.drain()
                if kind in (b"Q", b"S"):  # the statement is complete
                    line.behind, line.met = line.met, None

    def _read(self, line: Line, kind: bytes, body: bytes) -> bool:
        """Learn which statement this is, and do what is armed. False: it is not passed on, and the connection ends."""
        statement = _statement(line, kind, body)
        if statement is None:
            return True
        if statement.strip().upper().encode() != COMMIT:
            line.sent = [statement] if statement.upper().startswith("BEGIN") else [*line.sent, statement]
            line.met = self._fits("hold_after", [statement]) or line.met
            return True
        sent, line.sent = line.sent, []
        if self._fits("lose_commit", sent):
            return False
        line.silent = self._fits("lose_answer", sent) is not None
        return True

    def _fits(self, mode: Mode, statements: list[str]) -> Rule | None:
        for rule in self._rules:
            if rule.mode == mode and any(rule.pattern.search(statement) for statement in statements):
                self._rules.remove(rule)
                self._met.append(rule)
                self.struck.append(mode)
                return rule
        return None


def _statement(line: Line, kind: bytes, body: bytes) -> str | None:
    """The SQL that this message executes, None for all other messages."""
    if kind == b"Q":
        return body[:-1].decode("utf-8", "replace")
    if kind == b"P":
        name, query, _ = body.split(b"\0", 2)
        line.named[name] = query.decode("utf-8", "replace")
    if kind == b"B":
        return line.named.get(body.split(b"\0", 2)[1], "")
    return None


async def _answered(line: Line, server: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """What the server says. It returns when the connection is to end: after a COMMIT whose answer is lost, that has happened."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            kind = await server.readexactly(1)
            (length,) = struct.unpack("!I", size := await server.readexactly(4))
            body = await server.readexactly(length - 4)
            if line.silent:
                if kind == b"C" and body.startswith(COMMIT):
                    return
                continue
            writer.write(kind + size + body)
            await writer.drain()
