"""Makes the virtualenv that everything else runs in: `python3 console/embedded/bootstrap.py base|dev [--browser] [--spin]`.

Standard library only, because it runs before anything is installed. It does nothing when the pinned requirements have
not changed since it last succeeded."""

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
HOME = Path(os.environ.get("COUNTERMAND_HOME") or CHECKOUT / ".countermand")
VENV = HOME / "venv"
PYTHON = VENV / "bin" / "python"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHECKERS = ("spin", "gcc")


def say(sentence: str) -> None:
    sys.stderr.write(f"{sentence}\n")


def run(command: Sequence[str | Path], problem: str) -> None:
    """Runs a command and ends the program with `problem` when it fails."""
    if subprocess.run([str(word) for word in command], cwd=CHECKOUT).returncode:  # noqa: S603
        raise SystemExit(problem)


def make_venv() -> None:
    if subprocess.run([PYTHON, "-c", ""], capture_output=True).returncode if PYTHON.exists() else True:  # noqa: S603
        say(f"Making a virtualenv in {VENV} …")
        try:
            venv.EnvBuilder(with_pip=True, clear=True).create(VENV)
        except (subprocess.CalledProcessError, OSError) as error:
            raise SystemExit(f"No virtualenv could be made ({error}). On Debian: apt-get install python3-venv") from None


def install(kind: str) -> None:
    """Installs requirements/<kind>.txt unless exactly that, or more, is installed. `dev` includes `base`."""
    wanted = {name: digest_of(CHECKOUT / "requirements" / f"{name}.txt") for name in ("base", "dev")}
    stamp = VENV / "installed"
    installed = stamp.read_text() if stamp.exists() else ""
    if wanted["dev"] in installed or wanted[kind] in installed:
        return
    say(f"Installing the pinned packages of requirements/{kind}.txt (a few minutes the first time) …")
    stamp.unlink(missing_ok=True)
    requirements = CHECKOUT / "requirements" / f"{kind}.txt"
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes", "-r"]
    run(
        [*pip, requirements],
        "The packages could not be installed. Without a network, point pip at a folder or an index that has them "
        f"(PIP_FIND_LINKS, PIP_INDEX_URL) and try again; they are listed in {requirements}.",
    )
    stamp.write_text(wanted[kind])


def digest_of(requirements: Path) -> str:
    return hashlib.sha256(requirements.read_bytes()).hexdigest()


def name_the_checkout() -> None:
    """Puts the checkout and sdk/ on the virtualenv's path, so that any process in it finds both."""
    for packages in (VENV / "lib").glob("python3*/site-packages"):
        (packages / "countermand.pth").write_text(f"{CHECKOUT}\n{CHECKOUT / 'sdk'}\n")


def find_browser() -> str | None:
    return next(filter(None, (shutil.which(name) for name in BROWSERS)), None)


def install_browser() -> None:
    """The browser tests drive an installed Chromium. Installs Debian's when that is possible without asking anybody."""
    if not find_browser():
        install_debian("Chromium for the browser tests", "chromium")
    if not find_browser():
        say("No Chromium was found: the browser tests will fail. On Debian: apt-get install chromium")


def install_spin() -> None:
    """The model is checked with Spin, which compiles its searches with gcc."""
    if lacking := [name for name in CHECKERS if not shutil.which(name)]:
        install_debian(f"{' and '.join(lacking)} for the model", *lacking)
    if not all(map(shutil.which, CHECKERS)):
        say("Spin or gcc was not found: the tests of the model will fail. On Debian: apt-get install spin gcc")


def install_debian(what: str, *packages: str) -> None:
    """Installs Debian packages where this process may do so without asking anybody, and does nothing elsewhere."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        say(f"Installing {what} …")
        quiet = {"env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}, "stdout": subprocess.DEVNULL}
        subprocess.run(["apt-get", "update", "-qq"], **quiet)  # noqa: S603, S607
        subprocess.run(["apt-get", "install", "-y", "-qq", *packages], **quiet)  # noqa: S603, S607


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the virtualenv of Countermand.")
    parser.add_argument("kind", choices=["base", "dev"])
    parser.add_argument("--browser", action="store_true", help="see to it that there is a Chromium")
    parser.add_argument("--spin", action="store_true", help="see to it that there is Spin, and gcc")
    arguments = parser.parse_args()
    if sys.version_info < (3, 11):  # noqa: UP036 - this file runs before anything has checked
        raise SystemExit(f"Countermand needs Python 3.11 or newer; this is {sys.version.split()[0]} ({sys.executable}).")
    HOME.mkdir(parents=True, exist_ok=True)
    with open(HOME / "bootstrap.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two make commands at once: the second waits and finds it done
        make_venv()
        install(arguments.kind)
        name_the_checkout()
        if arguments.browser:
            install_browser()
        if arguments.spin:
            install_spin()


if __name__ == "__main__":
    main()
