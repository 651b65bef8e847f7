"""The processes of a whole Countermand on one machine, and a supervisor for them. The demo and the tests start the same
ones. It only ever ends processes that it started itself."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx

UNPOOLED = {"DATABASE_POOL_MAX": "0"}  # whatever the supervisor itself has imported: only the web process pools
CHECKOUT = Path(__file__).resolve().parent.parent.parent
LOCALHOST = "127.0.0.1"
PR_SET_PDEATHSIG = 1


class ProcessFailed(Exception):
    """A process ended or did not become ready; the message holds the end of its log."""


@dataclass(frozen=True)
class Spec:
    """How to start one process. `ready_url` answers 200 once it works; `stop_seconds_max` is its grace after SIGTERM."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    ready_url: str | None = None
    ready_seconds_max: float = 60
    stop_seconds_max: float = 10


def web(port: int, environment: Mapping[str, str]) -> Spec:
    command = (sys.executable, "-m", "uvicorn", "console.asgi:application", "--host", LOCALHOST, "--port", str(port))
    options = ("--no-access-log", "--no-server-header", "--log-level", "warning", "--timeout-graceful-shutdown", "3")
    # Compressing the same small frame anew for each of two hundred pages takes longer than rendering it.
    options += ("--ws-per-message-deflate", "false", "--ws-max-size", str(64 * 1024))
    return Spec("web", command + options, environment, ready_url=f"http://{LOCALHOST}:{port}/readyz")


def celery_worker(environment: Mapping[str, str], pool: str = "threads") -> Spec:
    # Threads start sooner and need a quarter of the memory; under load a pool of processes does more (docs/operations.md).
    options = ("--pool", pool, "--concurrency", "4", "--without-gossip", "--without-mingle", "--loglevel", "WARNING")
    return Spec("celery", (sys.executable, "-m", "celery", "-A", "console.celery", "worker", *options), {**environment, **UNPOOLED})


def celery_agents(environment: Mapping[str, str]) -> Spec:
    """The worker for agents that run inside Celery: one run at a time, on a queue of its own."""
    queue = {**os.environ, **environment}.get("CELERY_QUEUE", "countermand")
    options = ("--pool", "solo", "--queues", f"{queue}-agents")
    quiet = ("--without-gossip", "--without-mingle", "--loglevel", "WARNING")
    command = (sys.executable, "-m", "celery", "-A", "console.celery", "worker", *options, *quiet)
    return Spec("celery-agents", command, {**environment, **UNPOOLED})


def celery_beat(environment: Mapping[str, str]) -> Spec:
    # The scheduler that keeps no file: every task is safe to run again, and a file could be left damaged by kill -9.
    options = ("--scheduler", "celery.beat.Scheduler", "--pidfile", "", "--loglevel", "WARNING")
    return Spec("beat", (sys.executable, "-m", "celery", "-A", "console.celery", "beat", *options), {**environment, **UNPOOLED})


def supplier(port: int, store: Path, webhook_url: str, webhook_secret: str, environment: Mapping[str, str]) -> Spec:
    command = (sys.executable, "-m", "examples.supplier", "--port", str(port), "--store", str(store))
    return Spec(
        "supplier",
        (*command, "--webhook-url", webhook_url),
        {**environment, "SUPPLIER_WEBHOOK_SECRET": webhook_secret},
        ready_url=f"http://{LOCALHOST}:{port}/healthz",
    )


def agent_worker(
    number: int,
    url: str,
    token: str,
    supplier_url: str,
    environment: Mapping[str, str],
    options: tuple[str, ...] = (),
    program: str = "examples.purchase_orders",
) -> Spec:
    known = {"COUNTERMAND_URL": url, "COUNTERMAND_TOKEN": token, "SUPPLIER_URL": supplier_url}
    command = (sys.executable, "-m", program, *options)
    return Spec(f"agent-{number}", command, {**known, **environment})


class Processes:
    """Processes by name. Each leads a process group of its own, so that Ctrl-C reaches only the supervisor, which then
    stops them in order, and so that killing one kills what it forked."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self._running: dict[str, tuple[Spec, subprocess.Popen[bytes]]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop_all()

    def __contains__(self, name: str) -> bool:
        return name in self._running

    def start(self, spec: Spec) -> None:
        """Starts a process; `wait_until_ready` waits for it. Raises ValueError when one of that name runs."""
        if spec.name in self._running:
            raise ValueError(f"{spec.name} runs already.")
        with open(self.log(spec.name), "ab") as log:
            process = subprocess.Popen(  # noqa: S603
                spec.command,
                cwd=CHECKOUT,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **spec.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                preexec_fn=_end_with_the_supervisor(os.getpid()),
            )
        self._running[spec.name] = (spec, process)

    def wait_until_ready(self, name: str) -> None:
        """Waits until the process answers. Raises ProcessFailed when it ends before, or takes too long."""
        spec, process = self._running[name]
        deadline = time.monotonic() + spec.ready_seconds_max
        while spec.ready_url and not _answers(spec.ready_url):
            if process.poll() is not None:
                raise ProcessFailed(f"{name} ended with {process.returncode}. Its log ends:\n{self.end_of_log(name)}")
            if time.monotonic() > deadline:
                raise ProcessFailed(f"{name} is not ready. Its log ends:\n{self.end_of_log(name)}")
            time.sleep(0.05)

    def pid(self, name: str) -> int:
        return self._running[name][1].pid

    def names(self) -> list[str]:
        return list(self._running)

    def pids(self) -> list[int]:
        return [process.pid for _, process in self._running.values()]

    def signal(self, name: str, number: int) -> None:
        """Sends a signal to the process and everything it forked."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid(name), number)

    def kill(self, name: str) -> None:
        """SIGKILL, and waits until it is gone."""
        self.signal(name, signal.SIGKILL)
        self._running.pop(name)[1].wait()

    def stop(self, name: str) -> int:
        """SIGTERM, and SIGKILL after its grace. Returns how it ended: its exit code, or minus the signal."""
        spec, process = self._running[name]
        process.terminate()
        # A stopped process cannot hear SIGTERM.
        self.signal(name, signal.SIGCONT)
        try:
            process.wait(spec.stop_seconds_max)
        except subprocess.TimeoutExpired:
            pass
        finally:
            self.kill(name)
        return process.returncode

    def stop_all(self) -> None:
        """Stops everything, the last started first."""
        for name in reversed(list(self._running)):
            self.stop(name)

    def ended(self, name: str) -> int | None:
        """How this process ended by itself; None while it runs, or when it was never started or has been killed."""
        return self._running[name][1].poll() if name in self._running else None

    def reap(self) -> list[tuple[Spec, int]]:
        """Processes that ended by themselves since the last call, and how."""
        ended = [(spec, process.poll()) for spec, process in list(self._running.values()) if process.poll() is not None]
        for spec, _ in ended:
            self.kill(spec.name)  # what it forked and left behind
        return [(spec, code) for spec, code in ended if code is not None]

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def end_of_log(self, name: str, lines: int = 25) -> str:
        return "\n".join(self.log(name).read_text("utf-8", "replace").splitlines()[-lines:])


def free_port(preferred: int = 0) -> int:
    """`preferred`, or the next free one above it; 0 takes any that is free."""
    candidates = range(preferred, preferred + 100) if preferred else (0,)
    for port in candidates:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((LOCALHOST, port))
                return int(probe.getsockname()[1])
    raise ProcessFailed(f"No port from {preferred} to {preferred + 99} is free on {LOCALHOST}.")


def make_broker_folder(folder: Path) -> None:
    """The folders of Celery's filesystem broker. What a killed demo left in them are only hints."""
    for name in ("queue", "control"):
        (folder / name).mkdir(parents=True, exist_ok=True)


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=2, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def _end_with_the_supervisor(supervisor_pid: int) -> Callable[[], None] | None:
    """Runs in the child: on Linux the kernel ends it when the supervisor is gone, even by kill -9."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)

    def ask_the_kernel() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != supervisor_pid:
            os._exit(1)  # it was gone before the kernel was asked

    return ask_the_kernel
