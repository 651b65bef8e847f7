"""Run the supplier simulator: `python -m examples.supplier --port 8800 --store .countermand/supplier.sqlite3`.

Prints one line once it listens. SIGTERM and SIGINT let go of held requests without executing them and end with 0.
"""

import argparse
import asyncio
import os
import signal
import socket
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from examples.supplier.app import World, build
from examples.supplier.store import Store


class _Server(uvicorn.Server):
    """Uvicorn that says where it listens, lets held requests go when told to stop, and can cut one client off."""

    def __init__(self, config: uvicorn.Config, world: World) -> None:
        super().__init__(config)
        self._world = world

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host, port = self.servers[0].sockets[0].getsockname()[:2]
        print(f"supplier simulator listening on http://{host}:{port}", flush=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._world.controls.reset()
        await super().shutdown(sockets)

    def cut(self, client: Any) -> None:
        """Close the connection of `client` without an answer."""
        for connection in list(self.server_state.connections):
            if getattr(connection, "client", None) == client:
                connection.transport.abort()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.supplier", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True, help="0 takes a free one and prints it")
    parser.add_argument("--store", type=Path, required=True, help="the SQLite file that it keeps")
    parser.add_argument("--webhook-url", help="where signed events go")
    parser.add_argument("--webhook-secret", help="whsec_…; or SUPPLIER_WEBHOOK_SECRET, which ps does not show")
    given = parser.parse_args()
    given.webhook_secret = given.webhook_secret or os.environ.get("SUPPLIER_WEBHOOK_SECRET")
    if given.webhook_url and not given.webhook_secret:
        parser.error("--webhook-url needs --webhook-secret or SUPPLIER_WEBHOOK_SECRET: events are always signed")
    return given


def _ignore(signum: int, frame: FrameType | None) -> None:
    """Uvicorn raises the signal again after its clean end; by then there is nothing left to do."""


async def _serve(given: argparse.Namespace) -> None:
    world = World(Store(given.store), given.webhook_url, given.webhook_secret)
    config = uvicorn.Config(
        build(world),
        host=given.host,
        port=given.port,  # bound by asyncio, which sets TCP_NODELAY then: without it a look takes 45 ms
        http="h11",
        ws="none",
        lifespan="on",
        log_level="warning",
        timeout_graceful_shutdown=2,
    )
    server = _Server(config, world)
    world.cut = server.cut
    await server.serve()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _ignore)
    signal.signal(signal.SIGINT, _ignore)
    asyncio.run(_serve(_arguments()))
