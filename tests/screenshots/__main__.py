"""`make screenshots`: starts a demo of its own from nothing (or uses the one that runs: `--running`), walks it, and says where the
pictures are. `--guide` also renews those of docs/guide/images."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from console.embedded.processes import CHECKOUT
from tests.screenshots import camera, walks

HOME = Path(os.environ.get("COUNTERMAND_HOME") or CHECKOUT / ".countermand").absolute()
GUIDE = CHECKOUT / "docs" / "guide" / "images"
START_WITHIN_S = 180
Known = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make screenshots", description="Pictures of every page, from a running demo.")
    parser.add_argument("--running", action="store_true", help="use the demo that runs in this checkout instead of a new one")
    parser.add_argument("--guide", action="store_true", help="renew the pictures of docs/guide as well")
    parser.add_argument("--to", type=Path, default=HOME / "screenshots")
    parser.add_argument("walks", nargs="*", help=f"only these: {' '.join(walks.WALKS)}")
    chosen = parser.parse_args()
    with running_demo() if chosen.running else fresh_demo() as known:
        with camera.opened(known["url"], known["people"], chosen.to, GUIDE if chosen.guide else None) as eye:
            for name, walk in walks.WALKS.items():
                if not chosen.walks or name in chosen.walks:
                    sys.stdout.write(f"{name} …\n")
                    walk(eye)
    sys.stdout.write("".join(f"{line}\n" for line in [*eye.faults, f"{len(eye.taken)} pictures in {chosen.to}"]))
    return 1 if eye.faults else 0


@contextmanager
def running_demo() -> Iterator[Known]:
    """The demo of `make demo` in this checkout."""
    try:
        yield json.loads((HOME / "demo.json").read_text("utf-8"))
    except FileNotFoundError:
        raise SystemExit("No demo runs here: start `make demo`, or leave --running out.") from None


@contextmanager
def fresh_demo() -> Iterator[Known]:
    """A demo with nothing in it, which is gone afterwards."""
    home = HOME / "screenshots-demo"
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    with open(home / "demo.log", "wb") as log:
        demo = subprocess.Popen(
            [sys.executable, "-m", "console.embedded.demo", "--port", "8400", "--supplier-port", "8490"],
            cwd=CHECKOUT,
            env=os.environ | {"COUNTERMAND_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield _told(demo, home)
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(60)
        shutil.rmtree(home, ignore_errors=True)


def _told(demo: subprocess.Popen[bytes], home: Path) -> Known:
    """What the demo says of itself once everything of it runs."""
    deadline = time.monotonic() + START_WITHIN_S
    while "Ctrl-C stops everything." not in (log := (home / "demo.log").read_text("utf-8")):
        if demo.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"The demo did not start:\n{log}")
        time.sleep(0.2)
    known: Known = json.loads((home / "demo.json").read_text("utf-8"))
    return known


if __name__ == "__main__":
    raise SystemExit(main())
