"""The line between a browser and the server, of real connections: it can be cut, refuse, and lose everything without telling anybody."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from urllib.parse import urlsplit

from tests.proxy import Serving

_REFUSED = b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Line(Serving):
    """`with Line(world.url) as line:`, and open pages at `line.url`. It troubles live sockets only; `tried` counts them."""

    def __init__(self, server_url: str) -> None:
        super().__init__()
        at = urlsplit(server_url)
        self._server_at = (at.hostname, at.port)
        self._browsers: set[asyncio.StreamWriter] = set()
        self._dead: set[asyncio.StreamWriter] = set()
        self._flows = asyncio.Event()
        self._flows.set()
        self.tried = 0
        self.refuses = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open(self) -> int:
        """Live sockets that the browser holds open, dead ones too."""
        return len(self._browsers)

    def cut(self) -> None:
        """What is open ends, for both sides."""
        self._now(lambda: [browser.transport.abort() for browser in self._browsers])

    def hold(self) -> None:
        """Nothing arrives until `flow`, and nobody is told."""
        self._now(self._flows.clear)

    def flow(self) -> None:
        self._now(self._flows.set)

    def die(self) -> None:
        """What is open is dead for ever, and neither side knows; what is opened from now on is alive."""
        self._now(lambda: self._dead.update(self._browsers))

    def _now(self, act: Callable[[], object]) -> None:
        async def acting() -> None:
            act()

        asyncio.run_coroutine_threadsafe(acting(), self._loop).result(5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            live = head.startswith(b"GET /ws/ui/")
            self.tried += live
            if live and self.refuses:
                writer.write(_REFUSED)
                await writer.drain()
            else:
                await self._join(head, reader, writer, live)
        writer.close()

    async def _join(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, live: bool) -> None:
        from_server, to_server = await asyncio.open_connection(*self._server_at)
        to_server.write(head)
        if live:
            self._browsers.add(writer)
        ways = [asyncio.create_task(self._pump(*way, writer)) for way in ((reader, to_server), (from_server, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            to_server.close()
            self._browsers.discard(writer)

    async def _pump(self, source: asyncio.StreamReader, to: asyncio.StreamWriter, browser: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                if browser in self._browsers:
                    await self._flows.wait()
                if browser not in self._dead:
                    to.write(data)
                    await to.drain()
