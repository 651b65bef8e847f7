"""Spin on `send.pml`: compiles one variant, checks one claim, and reads what it found. Needs Debian's `spin` and a C compiler."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from console.embedded.bootstrap import CHECKERS
from tests.model.claims import Claim

MODEL = Path(__file__).with_name("send.pml")
MISSING = "No {} here, which the model is checked with. On Debian: apt-get install spin gcc"
DEPTH_MAX = 200_000


@dataclass(frozen=True)
class Found:
    """What one search found. `story` is the shortest way to a violation, line by line; it is empty when the claim holds."""

    holds: bool
    states: int
    transitions: int
    story: tuple[str, ...]


def missing() -> str:
    """What has to be installed, as a sentence; '' when nothing has to."""
    return next((MISSING.format(name) for name in CHECKERS if shutil.which(name) is None), "")


def check(claim: Claim, attempts: int, work: Path) -> Found:
    """Search every state of the model with at most `attempts` attempts; what must fail is searched breadth first, for the shortest story.

    `work`: a folder that keeps what was compiled, for the next claim about the same variant.
    """
    folder = work / f"{claim.variant}-{attempts}-{claim.holds}"
    if not folder.exists():
        _compile(claim, attempts, folder)
    said = _run(folder, "./pan", *(("-a",) if claim.holds else ()), f"-m{DEPTH_MAX}", "-N", claim.name)
    errors = _number(r"errors: (\d+)", said)
    complete = "Search not completed" not in said and "max search depth too small" not in said
    assert errors or complete, f"Spin did not search everything:\n{said}"
    return Found(
        holds=not errors,
        states=_number(r"(\d+) states, stored", said),
        transitions=_number(r"(\d+) transitions", said),
        story=_story(_run(folder, "./pan", "-r", "-n", "-N", claim.name)) if errors else (),
    )


def _compile(claim: Claim, attempts: int, folder: Path) -> None:
    folder.mkdir()
    shutil.copy(MODEL, folder)
    _run(folder, "spin", f"-DATTEMPTS={attempts}", f"-D{claim.variant}", "-a", MODEL.name)
    how = ("-O1",) if claim.holds else ("-O0", "-DBFS", "-DSAFETY")  # short searches are over before a compiler has thought about them
    _run(folder, "gcc", "-w", "-DVECTORSZ=2048", *how, "-o", "pan", "pan.c")


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 or command[1:2] == ("-r",), f"{' '.join(command)}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def _number(pattern: str, said: str) -> int:
    found = re.search(pattern, said)
    assert found, f"Spin did not say {pattern}:\n{said}"
    return int(found[1])


def _story(replayed: str) -> tuple[str, ...]:
    """What the model itself printed on the way, without Spin's own lines around it."""
    told, _, _ = replayed.partition("spin: trail ends")
    return tuple(line for line in told.splitlines() if line and not line.startswith(("pan:", "ltl ", "spin:", "MSC:")))
