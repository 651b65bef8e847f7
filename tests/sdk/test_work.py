"""cm.work() with real processes: killed, told to stop, cut off; what the control plane is told, and what happens once only."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.sdk.double import Double
from tests.sdk.faultpoints import Listener

ROOT = Path(__file__).resolve().parents[2]


class Program:
    """A running worker program. `sent`, `notes`: what its supplier got and what its steps wrote."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self._file = folder / "supplier"

    @property
    def sent(self) -> list[str]:
        return self._file.read_text().splitlines() if self._file.exists() else []

    @property
    def notes(self) -> list[str]:
        notes = Path(f"{self._file}.notes")
        return notes.read_text().splitlines() if notes.exists() else []

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


Start = Callable[..., Program]


@pytest.fixture
def start(plane: Double, tmp_path: Path) -> Iterator[Start]:
    with contextlib.ExitStack() as stack:

        def starting(**env: Any) -> Program:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.sdk.worker_program"],
                cwd=ROOT,
                env={
                    "PATH": os.environ["PATH"],
                    "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'sdk'}",
                    "COUNTERMAND_URL": plane.url,
                    "COUNTERMAND_TOKEN": "cm_test_secret",
                    "COUNTERMAND_SPOOL": str(tmp_path / "spool"),
                    "SUPPLIER_FILE": str(tmp_path / "supplier"),
                    **{name: str(value) for name, value in env.items()},
                },
            )
            stack.callback(process.wait, 10)
            stack.callback(process.kill)
            return Program(process, tmp_path)

        yield starting


def _gone(plane: Double) -> list[tuple[str, str]]:
    return [(path.split("/")[2], body["how"]) for _, path, body in plane.calls if path.endswith("/gone")]


def test_a_killed_child_is_reaped_reported_and_replaced_and_the_run_finishes_with_one_send(plane: Double, start: Start) -> None:
    run = plane.add("order")
    with Listener("recorded") as points:
        program = start(**points.env)
        standing = points.wait_for("recorded")
        os.kill(standing.pid, signal.SIGKILL)
        plane.wait_for(lambda: _gone(plane))
        (holder, how) = _gone(plane)[0]
        assert f"%3A{standing.pid}%3A" in holder and how == "killed by SIGKILL"
        points.pass_all()
        with plane.changed:
            run.state, run.token = "scheduled", ""
            plane.changed.notify_all()
        plane.wait_for(lambda: run.state == "completed")
    assert run.result == {"order": "S-1"}
    assert len(program.sent) == 1
    assert program.notes == ["validated", "notified"]
    assert program.stop() == 0


def test_gone_is_said_later_when_the_control_plane_is_away(plane: Double, start: Start) -> None:
    plane.add("loop")
    program = start()
    plane.wait_for(lambda: plane.bodies("/runs/claim") and program.notes)
    plane.down = True
    program.children()[0].kill()
    plane.wait_for(lambda: _gone(plane))
    plane.down = False
    before = len(_gone(plane))
    plane.wait_for(lambda: len(_gone(plane)) > before, 15)
    assert program.stop() == 0


def test_sigterm_gives_the_lease_back(plane: Double, start: Start) -> None:
    run = plane.add("loop")
    program = start()
    plane.wait_for(lambda: program.notes)
    assert program.stop() == 0
    assert run.state == "scheduled" and len(plane.bodies("/release")) == 1
    assert [how for _, how in _gone(plane)] == ["exit 0"]


def test_sigterm_waits_for_the_send_in_progress_and_tells_its_outcome(plane: Double, start: Start) -> None:
    run = plane.add("order")
    with Listener("response_returned") as points:
        program = start(**points.env)
        standing = points.wait_for("response_returned")
        program.process.send_signal(signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            program.process.wait(0.5)
        assert plane.bodies("/release") == []
        standing.release()
        assert program.process.wait(10) == 0
    paths = [path.rsplit("/", 1)[-1] for _, path, _ in plane.calls]
    assert paths.index("outcome") < paths.index("release")
    assert run.state == "scheduled" and len(program.sent) == 1


def test_a_second_signal_kills_what_does_not_listen_and_says_so(plane: Double, start: Start) -> None:
    plane.add("deaf")
    program = start()
    plane.wait_for(lambda: program.notes)
    program.process.send_signal(signal.SIGINT)  # another kind: two alike that meet are one
    assert program.stop() == 0
    assert [how for _, how in _gone(plane)] == ["killed by SIGKILL"]


def test_children_do_not_outlive_a_killed_supervisor_and_nobody_says_gone(plane: Double, start: Start) -> None:
    plane.add("loop")
    program = start(PROCESSES=2)
    plane.wait_for(lambda: program.notes and len(program.children()) == 2)
    children = program.children()
    program.process.kill()
    program.process.wait(5)
    gone, alive = psutil.wait_procs(children, timeout=5)
    assert alive == [] and _gone(plane) == []


def test_cleanup_is_claimed_run_and_finished(plane: Double, start: Start) -> None:
    item = {"id": "c-1", "run": "r-1", "key": "k", "handler": "tidy", "arguments": {"name": "draft"}}
    lease = {"token": "t", "epoch": 1, "expires_at": "2026-01-01T00:00:00+00:00", "expires_in_s": 30}
    plane.cleanups.append({"cleanup": item, "lease": lease, "budget": {"seconds": 60, "calls": 3}})
    program = start()
    (finished,) = plane.wait_for(lambda: plane.bodies("/cleanups/c-1/finish"))
    assert finished == {"lease": "t", "outcome": "done"} and program.notes == ["tidied draft"]
    assert program.stop() == 0
