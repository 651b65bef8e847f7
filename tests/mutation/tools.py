"""Cosmic Ray and coverage.py, installed only by `make mutation` into a virtualenv of their own: never a dependency."""

from __future__ import annotations

import subprocess
import sys

from tests.platform import HOME

PINNED = ("cosmic-ray==8.7.0", "coverage==7.17.5")


def install() -> None:
    """Puts them behind everything else on the path of this process, so that what the tests use stays what it is."""
    place = HOME / "peers" / "mutation"
    interpreter = place / "bin" / "python"
    done = place / "installed"
    if not done.exists() or done.read_text() != str(PINNED):
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        subprocess.run([str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check", *PINNED], check=True)
        done.write_text(str(PINNED))
    sys.path.extend(str(packages) for packages in (place / "lib").glob("python3*/site-packages"))
