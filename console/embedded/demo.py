"""`make demo`: a whole Countermand on this machine, from nothing. Starts everything, says where it is, starts again what
dies, and stops it all in order, the database last. For trying out only: 127.0.0.1, and never beside real settings."""

import argparse
import base64
import contextlib
import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Never

from console.embedded import leftovers, postgres, processes
from console.embedded.processes import LOCALHOST, Processes, ProcessFailed, Spec

REAL_SETTINGS = (
    "DATABASE_URL",
    "DATABASE_OWNER_URL",
    "SECRET_KEY",
    "ALLOWED_HOSTS",
    "CELERY_BROKER_URL",
    "COUNTERMAND_PROVIDERS",
)
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGENT_WORKERS = 2
LOOK_EVERY_SECONDS = 0.5
PAUSE_BEFORE_RESTART_SECONDS_MAX = 15


class DemoRefused(Exception):
    """The demo does not start; the message says why."""


@dataclass(frozen=True)
class Demo:
    """Where one demo keeps its state and where it answers."""

    home: Path
    port: int
    supplier_port: int

    @property
    def url(self) -> str:
        return f"http://{LOCALHOST}:{self.port}"

    @property
    def supplier_url(self) -> str:
        return f"http://{LOCALHOST}:{self.supplier_port}"

    @property
    def description(self) -> Path:
        return self.home / "demo.json"

    def environment(self, kept: dict[str, str]) -> dict[str, str]:
        """What every process of the demo is told. Its database is the embedded one, by COUNTERMAND_DEMO alone."""
        provider = {
            "kind": "supplier",
            "url": self.supplier_url,
            "webhook_secrets": [kept["webhook_secret"]],
            "capability": {"lookup_url": f"{self.supplier_url}/log?reference={{reference}}"},  # whatever we may not ask, a person can read
        }
        return {
            "COUNTERMAND_DEMO": "1",
            "COUNTERMAND_HOME": str(self.home),
            "COUNTERMAND_SPOOL": str(self.home / "spool"),
            "COUNTERMAND_PROVIDERS": json.dumps({"supplier": provider}),
            "SECRET_KEY": kept["secret_key"],
        }


def main() -> int:
    parser = argparse.ArgumentParser(prog="make demo", description="Countermand on this machine, to try it out.")
    parser.add_argument("--port", type=int, default=8000, help="where to answer; taken: the next free one")
    parser.add_argument("--supplier-port", type=int, default=8800)
    arguments = parser.parse_args()
    try:
        run(arguments.port, arguments.supplier_port)
    except KeyboardInterrupt:
        say("Stopped. `make demo` goes on from here.")
    except (DemoRefused, ProcessFailed, postgres.EmbeddedPostgresError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def run(port: int, supplier_port: int) -> None:
    """Runs the demo until a signal ends it with KeyboardInterrupt."""
    refuse_real_settings()
    home = Path(os.environ.get("COUNTERMAND_HOME") or processes.CHECKOUT / ".countermand").absolute()
    home.mkdir(parents=True, exist_ok=True)
    _stop_on_signals()
    with _only_one(home), leftovers.forgotten_after(home / "demo.pids") as pids:
        leftovers.end(pids)
        demo = Demo(home, _port(port, "web"), _port(supplier_port, "supplier"))
        environment = demo.environment(_kept_secrets(home))
        processes.make_broker_folder(home / "broker")
        say("Starting the database …")
        with postgres.running(postgres.server("demo", home)) as database, Processes(home / "logs") as running:
            _prepare(environment)
            known = json.loads(demo.description.read_text("utf-8"))
            _describe(demo, known)
            for group in _specs(demo, known["agent_token"], environment):
                for spec in group:
                    running.start(spec)
                for spec in group:
                    running.wait_until_ready(spec.name)
            say(_welcome(demo, known))
            _watch(running, database, pids)


def refuse_real_settings() -> None:
    """Raises DemoRefused when this environment belongs to a real deployment."""
    present = [name for name in REAL_SETTINGS if os.environ.get(name)]
    if present:
        raise DemoRefused(
            f"This environment holds real settings ({', '.join(present)}), and the demo would stand beside them. "
            "Unset them, or deploy as docs/operations.md says."
        )


def _specs(demo: Demo, token: str, environment: dict[str, str]) -> Iterator[list[Spec]]:
    """Everything there is, in the order in which it starts; it stops the other way round."""
    webhooks = f"{demo.url}/api/v1/webhooks/supplier"
    store = demo.home / "supplier.sqlite3"
    yield [
        processes.supplier(demo.supplier_port, store, webhooks, _kept_secrets(demo.home)["webhook_secret"], environment),
        processes.web(demo.port, environment),
    ]
    yield [processes.celery_worker(environment), processes.celery_beat(environment)]
    yield [processes.agent_worker(number, demo.url, token, demo.supplier_url, environment) for number in range(1, AGENT_WORKERS + 1)]


def _prepare(environment: dict[str, str]) -> None:
    """Brings the database up to date as its owner, then makes people and the agents' token as the application."""
    owner = {**environment, "COUNTERMAND_AS_OWNER": "1"}
    for command, told in (("migrate", owner), ("setup_roles", owner), ("demo_people", environment)):
        say(f"  manage.py {command} …")
        done = subprocess.run(  # noqa: S603
            [sys.executable, "manage.py", command, "--verbosity", "0"],
            cwd=processes.CHECKOUT,
            env={**os.environ, **processes.UNPOOLED, **told},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise ProcessFailed(f"manage.py {command} failed:\n{done.stderr[-3000:]}")


def _watch(running: Processes, database: postgres.Server, pids: Path) -> Never:
    """Starts again whatever ended, after a pause that grows with every time it does."""
    waiting: list[tuple[float, Spec]] = []
    pauses: dict[str, float] = {}
    leftovers.remember(pids, running.pids())
    while True:
        time.sleep(LOOK_EVERY_SECONDS)
        if database.postmaster_pid() is None:
            say("The database ended. Starting it again …")
            postgres.start(database)
        for spec, code in running.reap():
            pause = pauses[spec.name] = min(pauses.get(spec.name, 0.5) * 2, PAUSE_BEFORE_RESTART_SECONDS_MAX)
            say(f"{spec.name} ended ({_how(code)}). Starting it again in {pause:.0f} s; see {running.log(spec.name)}")
            waiting.append((time.monotonic() + pause, spec))
        due = [entry for entry in waiting if entry[0] <= time.monotonic()]
        for entry in due:
            waiting.remove(entry)
            running.start(entry[1])
        if due:
            leftovers.remember(pids, running.pids())


def _describe(demo: Demo, known: dict[str, Any]) -> None:
    known |= {"url": demo.url, "supplier_url": demo.supplier_url}
    write_private(demo.description, json.dumps(known, indent=2))


def _welcome(demo: Demo, known: dict[str, Any]) -> str:
    people = "\n".join(f"    {who['username']:<12} {who['password']}" for who in known["people"].values())
    return (
        f"\n  Countermand answers at  {demo.url}\n\n  Log in as\n{people}\n\n"
        f"  Start a run at          {demo.url}/demo/\n"
        f"  The supplier is at      {demo.supplier_url}  (its log: /log)\n"
        f"  All of this again in    {demo.description}\n"
        f"  Logs in                 {demo.home / 'logs'}\n\n  Ctrl-C stops everything.\n"
    )


def _kept_secrets(home: Path) -> dict[str, str]:
    """The demo's own secrets: made once, so that sessions and webhooks survive a restart."""
    path = home / "demo.secrets.json"
    if not path.exists():
        webhook_secret = "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()
        write_private(path, json.dumps({"secret_key": secrets.token_urlsafe(50), "webhook_secret": webhook_secret}))
    return dict(json.loads(path.read_text("utf-8")))


def write_private(path: Path, content: str) -> None:
    """Replaces a file at once, readable by its owner alone."""
    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(content)
    unfinished.replace(path)


@contextlib.contextmanager
def _only_one(home: Path) -> Iterator[None]:
    with open(home / "demo.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoRefused(f"A demo runs here already; {home / 'demo.json'} says where.") from None
        yield


def _port(preferred: int, what: str) -> int:
    port = processes.free_port(preferred)
    if port != preferred:
        say(f"Port {preferred} is taken; the {what} is at {port} instead.")
    return port


def _stop_on_signals() -> None:
    """The first SIGINT, SIGTERM or SIGHUP begins an orderly end, also in the middle of the start; the others are
    ignored, because that end is bounded and must not be cut short."""

    def begin_to_stop(*_: object) -> Never:
        for number in STOP_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        say("\nStopping …")
        raise KeyboardInterrupt

    for number in STOP_SIGNALS:
        signal.signal(number, begin_to_stop)


def _how(code: int) -> str:
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def say(sentence: str) -> None:
    sys.stdout.write(f"{sentence}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
