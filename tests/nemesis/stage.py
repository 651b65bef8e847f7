"""Where the nemesis plays: the demo's processes with a proxy in every way between them, and what they are told about their supplier."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil

from console.embedded import processes
from console.embedded.processes import ProcessFailed
from tests import platform
from tests.nemesis.schedule import HOSTS, SERVERS
from tests.proxy import Proxy
from tests.world import TOKEN, World

LEASE_S = 3.0
READY_TRIES = 4
"""A minute each, for a machine that does much else."""
PROMISES = {
    "max_in_flight_s": 8,
    "look_spacing_s": 1,
    "look_schedule_s": [0.5, 2, 4, 6, 9, 12, 15, 20, 30, 60],
    "person_after_s": 20,
    "person_after_unreachable_s": 20,
}
"""What the supplier promises here: every held packet of the schedule lives shorter than `max_in_flight_s`."""


class Stage:
    """The running system: its processes by name, its wires by name, and what was done to them."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.tally: Counter[str] = Counter()
        self.dead: set[int] = set()
        """Worker processes that are known to be gone, by this machine's kernel."""
        self.frozen: dict[str, list[int]] = {}
        self.by_themselves: list[str] = []
        self.lock = threading.Lock()
        self._stack = ExitStack()
        enter = self._stack.enter_context
        self.wires = {
            "orders": enter(Proxy(world.supplier_url)),
            "looks": enter(Proxy(world.supplier_url)),
            "control plane": enter(Proxy(world.url)),
        }

    def open(self) -> None:
        """Celery with its way to the supplier, and the worker hosts."""
        self.world.kill("celery")
        self.start("celery")
        for name in HOSTS:
            self.start(name)

    def close(self) -> None:
        self._stack.close()

    def count(self, what: str, times: int = 1) -> None:
        with self.lock:
            self.tally[what] += times

    # Processes -------------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        """Start a process, as whoever keeps it running would, and wait until it answers."""
        if name in self.world.processes:
            return
        if name in HOSTS:
            return self.world.processes.start(self._host(name))
        supplier = platform.SUPPLIER | {"url": self.wires["looks"].url, "capability": PROMISES}
        told = {"COUNTERMAND_PROVIDERS": json.dumps({"supplier": supplier})} if name in ("celery", "web") else {}
        self.world.start(name, **told)
        if name == "supplier":
            self.careless()

    def careless(self) -> None:
        """The supplier forgets every idempotency key: whatever reaches it twice is carried out twice."""
        self.world.control("careless", on=["create"])

    def _host(self, name: str) -> processes.Spec:
        number = HOSTS.index(name) + 1
        spool = self.folder / f"spool-{number}"
        environment = {"COUNTERMAND_SPOOL": str(spool), "PURCHASE_ORDERS_OUTBOX": str(self.folder / "outbox")}
        options = ("--lease-s", f"{LEASE_S:g}", "--concurrency", "3")
        ways = (self.wires["control plane"].url, TOKEN, self.wires["orders"].url)
        spec = processes.agent_worker(number, *ways, environment, options, "tests.nemesis.agents")
        return processes.Spec(name, spec.command, spec.environment)

    def children(self, host: str) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess, KeyError):
            return psutil.Process(self.world.pid(host)).children(recursive=True)
        return []

    def kill(self, name: str) -> bool:
        """SIGKILL of a server; of a host with its workers, the supervisor first, so that it reaps nobody."""
        if name not in self.world.processes:
            return False
        workers = self.children(name) if name in HOSTS else []
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.world.pid(name), signal.SIGSTOP)
        self.end(workers)
        self.world.kill(name)
        return True

    def kill_worker(self, host: str) -> bool:
        """SIGKILL of one worker process of a host."""
        workers = self.children(host)
        self.end(workers[:1])
        return bool(workers)

    def end(self, workers: list[psutil.Process]) -> None:
        for worker in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
            self.dead.add(worker.pid)

    def freeze(self, name: str) -> bool:
        """SIGSTOP: of a host its workers; its supervisor goes on."""
        pids = [worker.pid for worker in self.children(name)] if name in HOSTS else self._group(name)
        self.frozen[name] = [pid for pid in pids if self._signal(pid, signal.SIGSTOP)]
        return bool(self.frozen[name])

    def thaw(self, name: str) -> bool:
        return any([self._signal(pid, signal.SIGCONT) for pid in self.frozen.pop(name, [])])

    def _group(self, name: str) -> list[int]:
        return [self.world.pid(name)] if name in self.world.processes else []

    @staticmethod
    def _signal(pid: int, number: int) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
            return True
        return False

    def tend(self, name: str) -> None:
        """Who keeps processes running starts one again that ended by itself, and remembers that it did."""
        ended = self.world.processes.ended(name)
        if ended is not None:
            self.by_themselves.append(f"{name} ended by itself with {ended}")
            self.world.kill(name)
            self.start(name)

    def end_all(self) -> None:
        """Everything is killed: what a lane started would end with its thread, in the middle of the next test."""
        for name in (*HOSTS, *SERVERS):
            self.kill(name)

    # Everything is mended --------------------------------------------------------------------------------------------

    def heal(self) -> None:
        """Whatever is frozen goes on, whatever is down is started, whatever was armed is disarmed."""
        for name in list(self.frozen):
            self.thaw(name)
        for wire in self.wires.values():
            wire.disarm()
        for name in (*SERVERS, *HOSTS):
            with contextlib.suppress(ProcessFailed):  # it is waited for below, as long as it takes
                self.start(name)
        for name in ("supplier", "web"):
            self._until_ready(name)
        self.world.supplier.post("/reset", json={}).raise_for_status()
        self.careless()

    def _until_ready(self, name: str) -> None:
        for _ in range(READY_TRIES - 1):
            with contextlib.suppress(ProcessFailed):
                return self.world.processes.wait_until_ready(name)
        self.world.processes.wait_until_ready(name)

    def answered_wrongly(self) -> dict[str, int]:
        """How often each way did what it was told to do to an exchange."""
        found: Counter[str] = Counter()
        for name, wire in self.wires.items():
            found.update(f"{name}: {seen.mode}" for seen in wire.seen if seen.mode != "pass")
        return dict(found)


@contextlib.contextmanager
def stage(world: World, folder: Path) -> Iterator[Stage]:
    """The demo's processes, ready to be struck."""
    made = Stage(world, folder)
    try:
        made.open()
        made.careless()
        yield made
    finally:
        made.end_all()
        made.close()
