"""`make demo` as its user meets it: a real one, killed, started again, stopped. It keeps what it knew and leaves nothing
behind."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from console.embedded import postgres
from console.embedded.demo import REAL_SETTINGS
from console.embedded.processes import CHECKOUT, LOCALHOST, free_port

START_SECONDS_MAX = 90


class RunningDemo:
    def __init__(self, home: Path, port: int, supplier_port: int) -> None:
        self.home, self.said = home, home / "said.txt"
        ports = ("--port", str(port), "--supplier-port", str(supplier_port))
        with open(self.said, "wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "console.embedded.demo", *ports],
                cwd=CHECKOUT, env=plain_environment(home), stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip

    def wait_for(self, sentence: str) -> str:
        deadline = time.monotonic() + START_SECONDS_MAX
        while sentence not in (text := self.said.read_text()):
            assert self.process.poll() is None and time.monotonic() < deadline, text
            time.sleep(0.1)
        return text

    def description(self) -> dict[str, object]:
        return dict(json.loads((self.home / "demo.json").read_text()))

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def stop(self, how: int = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(60)


def plain_environment(home: Path) -> dict[str, str]:
    """This environment without what makes it a test's."""
    ours = {*REAL_SETTINGS, "COUNTERMAND_TEST", "COUNTERMAND_BROKER_FOLDER", "COUNTERMAND_SPOOL", "DJANGO_SETTINGS_MODULE"}
    return {**{name: value for name, value in os.environ.items() if name not in ours}, "COUNTERMAND_HOME": str(home)}


@pytest.fixture(scope="module")
def home(open_folder: Callable[[str], Path]) -> Iterator[Path]:
    made = open_folder("demo")
    yield made
    postgres.stop(postgres.server("demo", made))


@pytest.fixture(scope="module")
def ports() -> tuple[int, int]:
    return free_port(18000), free_port(18800)


@pytest.fixture
def demo(home: Path, ports: tuple[int, int]) -> Iterator[RunningDemo]:
    started = RunningDemo(home, *ports)
    yield started
    if started.process.poll() is None:
        started.stop()


@pytest.mark.timeout(240)
def test_a_killed_demo_comes_back_with_its_people_and_token(demo: RunningDemo, home: Path, ports: tuple[int, int]) -> None:
    demo.wait_for("Ctrl-C stops everything.")
    before = demo.description()
    assert set(before) == {"url", "people", "agent_token", "supplier_url"}
    assert before["url"] == f"http://{LOCALHOST}:{ports[0]}"
    assert (home / "demo.json").stat().st_mode & 0o077 == 0
    assert httpx.get(f"{before['url']}/readyz", trust_env=False).status_code == 200
    left = demo.children()
    demo.stop(signal.SIGKILL)

    again = RunningDemo(home, *ports)
    try:
        again.wait_for("Ctrl-C stops everything.")
        assert again.description() == before
        assert not [process for process in left if process.is_running() and "postgres" not in process.name()]
        schema = f"{before['url']}/api/schema/"
        known = httpx.get(schema, headers={"Authorization": f"Bearer {before['agent_token']}"}, trust_env=False)
        assert known.status_code == 200

        web = next(process for process in again.children() if "uvicorn" in process.cmdline())
        web.kill()
        assert "SIGKILL" in again.wait_for("web ended (killed by SIGKILL)")

        second = subprocess.run(
            [sys.executable, "-m", "console.embedded.demo"],
            cwd=CHECKOUT, env=plain_environment(home), capture_output=True, text=True,
        )  # fmt: skip
        assert second.returncode == 1 and "runs here already" in second.stderr
        ours = again.children()
    finally:
        assert again.stop(signal.SIGINT) == 0
    _, alive = psutil.wait_procs(ours, timeout=10)
    assert not alive
    assert postgres.server("demo", home).postmaster_pid() is None


@pytest.mark.timeout(120)
def test_a_taken_port_is_left_alone(home: Path, ports: tuple[int, int]) -> None:
    with socket.create_server((LOCALHOST, ports[0])):
        demo = RunningDemo(home, *ports)
        try:
            said = demo.wait_for("the web is at")
        finally:
            assert demo.stop() == 0
    assert f"Port {ports[0]} is taken" in said


@pytest.mark.parametrize("name", REAL_SETTINGS)
def test_it_refuses_to_stand_beside_real_settings(tmp_path: Path, name: str) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "console.embedded.demo"],
        cwd=CHECKOUT, env={**plain_environment(tmp_path), name: "real"}, capture_output=True, text=True,
    )  # fmt: skip
    assert refused.returncode == 1 and name in refused.stderr
    assert not list(tmp_path.iterdir())
