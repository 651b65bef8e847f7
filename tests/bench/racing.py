"""Acting against being cancelled: one run after another acts without pause and is cancelled at a random moment, many at a time.

The same for ours and for every peer. Standard library only, because it also runs in the peers' virtualenvs. Moments are seconds of
CLOCK_MONOTONIC, which the processes of one machine share.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Self

HOST = "127.0.0.1"
PORT = "RACES_PORT"
SEED = 20
AT_A_TIME = 10
ACTION_S = 0.005
MOMENT_S = (0.0, 1.0)  # after the first action: as long as the longest of the periods in which a peer listens
BEGINS_WITHIN_S = 90.0
HEARD_WITHIN_S = 30.0
LATE_S = 1.0


@dataclass
class Race:
    """What happened to one run. `starts`: the moment of each action, and its name where it has one. `accepted`: when the canceller had
    its answer; `heard`: when the acting code was told, None if that was never seen; `knew`: when the process around it knew, where that can
    be told apart."""

    name: str
    asked: float = 0.0
    accepted: float = 0.0
    heard: float | None = None
    knew: float | None = None
    starts: list[tuple[float, str]] = field(default_factory=list)


class Reporter:
    """The worker's side: says at once when an action starts and when the cancel is heard. Safe in threads and after a fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[int, socket.socket] = {}

    def action(self, race: str, name: str = "-") -> None:
        """An action starts now."""
        self._say(race, "action", name)

    def heard(self, race: str) -> None:
        """The acting code has been told of the cancel."""
        self._say(race, "heard", "-")

    def knew(self, race: str) -> None:
        """The process knows of the cancel; the acting code has not been told yet."""
        self._say(race, "knew", "-")

    def close(self) -> None:
        """Hang up; what has been said is delivered."""
        with self._lock:
            for connection in self._connections.values():
                connection.close()

    def _say(self, race: str, what: str, name: str) -> None:
        at = time.monotonic()
        with self._lock:
            connection = self._connections.get(os.getpid())
            if connection is None:
                connection = self._connections[os.getpid()] = socket.create_connection((HOST, int(os.environ[PORT])))
            connection.sendall(f"{race} {what} {at!r} {name}\n".encode())


class Races:
    """The canceller's side. Entered before the workers start (they find it through the environment), left after they have ended."""

    def __init__(self, count: int, seed: int = SEED, at_a_time: int = AT_A_TIME) -> None:
        self.races = {f"race-{number}": Race(f"race-{number}") for number in range(count)}
        self._moments = random.Random(seed)
        self._room = asyncio.Semaphore(at_a_time)
        self._began = {name: asyncio.Event() for name in self.races}
        self._heard = {name: asyncio.Event() for name in self.races}
        self._listening: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._listen, HOST, 0)
        os.environ[PORT] = str(self._server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()
        if self._listening and error is None:
            await asyncio.wait(self._listening, timeout=10)

    async def run(
        self,
        start: Callable[[str], Awaitable[Any]],
        cancel: Callable[[str], Awaitable[Any]],
        over: Callable[[str], Awaitable[Any]] | None = None,
    ) -> None:
        """Race them all. `start` has a run begun by a worker, `cancel` returns when the cancel is accepted, `over` when the run has
        ended (without it a run is over once it has heard). Raises TimeoutError when a run does not begin."""
        moments = {name: self._moments.uniform(*MOMENT_S) for name in self.races}

        async def one(race: Race) -> None:
            async with self._room:
                await start(race.name)
                await asyncio.wait_for(self._began[race.name].wait(), BEGINS_WITHIN_S)
                await asyncio.sleep(moments[race.name])
                race.asked = time.monotonic()
                await cancel(race.name)
                race.accepted = time.monotonic()
                with suppress(TimeoutError):
                    await asyncio.wait_for(over(race.name) if over else self._heard[race.name].wait(), HEARD_WITHIN_S)

        await asyncio.gather(*(one(race) for race in self.races.values()))
        await asyncio.sleep(LATE_S)  # what starts after all that still counts

    def as_json(self) -> str:
        """All races, as `read` reads them."""
        return json.dumps([asdict(race) for race in self.races.values()])

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._listening.add(task)
        try:
            while line := (await reader.readline()).decode().split():
                name, what, at, action = line
                race = self.races[name]
                if what == "action":
                    race.starts.append((float(at), action))
                    self._began[name].set()
                elif what == "knew":
                    race.knew = race.knew or float(at)
                elif race.heard is None:
                    race.heard = float(at)
                    self._heard[name].set()
        finally:
            self._listening.discard(task)
            writer.close()


def read(told: str) -> list[Race]:
    """The races in what a script printed (the last line of it)."""
    found = json.loads(told.strip().splitlines()[-1])
    return [Race(**{**race, "starts": [(at, name) for at, name in race["starts"]]}) for race in found]


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*command: str, **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process while it is needed; ended with whatever it started."""
    started = subprocess.Popen(command, start_new_session=True, **options)  # noqa: S603
    try:
        yield started
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started.pid, signal.SIGTERM)
        try:
            started.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(started.pid, signal.SIGKILL)
            started.wait()
