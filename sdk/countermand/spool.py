"""Facts that could not be delivered: one fsynced file each, in order, safe for several processes.

It must never drop a fact silently: what the control plane can never accept is moved to `dead/` and said loudly.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from countermand.errors import Json, Problem, SpoolFull, Unreachable

log = logging.getLogger("countermand")

_LATER = frozenset({401, 403, 408, 425, 429})  # a new token or more patience can still deliver these


def default_folder(url: str) -> Path:
    """COUNTERMAND_SPOOL or ~/.countermand/spool, with one folder per control plane."""
    base = os.environ.get("COUNTERMAND_SPOOL") or Path.home() / ".countermand" / "spool"
    return Path(base) / hashlib.sha256(url.encode()).hexdigest()[:12]


class Spool:
    """A folder of undelivered facts. `folder` is made when the first fact is written."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)

    def append(self, fact: Json) -> Path:
        """Write one fact durably behind all others; returns its file. Raises SpoolFull when the disk does not take
        it.
        """
        part = self.folder / f".{os.getpid()}-{os.urandom(4).hex()}.part"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with self._locked("append.lock"):
                _write_durably(part, json.dumps(fact).encode())
                # A delivered file frees its number; the random part keeps its deliverer from unlinking a successor.
                path = self.folder / f"{self._next():012d}-{os.urandom(4).hex()}.json"
                part.rename(path)
                _sync_folder(self.folder)
                return path
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            message = (
                f"cannot write to the spool {self.folder}: {error.strerror or error}. Free some space there; until then"
                f" this fact is only in the memory of process {os.getpid()}: {json.dumps(fact)[:500]}"
            )
            log.critical(message)
            raise SpoolFull(message) from error

    def waiting(self) -> list[Path]:
        """Undelivered facts, oldest first."""
        return sorted(self.folder.glob("[0-9]*.json"))

    def deliver(self, send: Callable[[Json], object]) -> int:
        """Deliver in order with `send(fact)`; stop at the first that is unreachable. Returns how many left the spool.

        Two processes never deliver at once: the second returns 0 at once.
        """
        if not self.waiting():
            return 0
        done = 0
        with self._locked("deliver.lock", wait=False) as mine:
            for path in self.waiting() if mine else []:
                if not self._deliver_one(path, send):
                    break
                done += 1
        return done

    def _deliver_one(self, path: Path, send: Callable[[Json], object]) -> bool:
        try:
            fact = json.loads(path.read_text())
        except FileNotFoundError:
            return True
        except ValueError:
            self.bury(path, "not readable as JSON")
            return True
        try:
            send(fact)
        except Unreachable:
            return False
        except Problem as problem:
            if problem.status in _LATER:
                log.error("a spooled fact is refused for now (%s); it stays in %s", problem, path)
                return False
            self.bury(path, str(problem))
            return True
        path.unlink(missing_ok=True)
        return True

    def bury(self, path: Path, why: str) -> None:
        """Move a fact that can never be delivered to `dead/`, and say so."""
        dead = self.folder / "dead"
        dead.mkdir(exist_ok=True)
        grave = dead / f"{path.stem}-{os.urandom(3).hex()}.json"
        path.rename(grave)
        _sync_folder(dead)
        _sync_folder(self.folder)
        log.critical(
            "the control plane can never accept a spooled fact: %s. It is kept in %s; show it to an administrator.",
            why,
            grave,
        )

    def _next(self) -> int:
        last = self.waiting()
        return int(last[-1].stem.split("-")[0]) + 1 if last else 1

    @contextlib.contextmanager
    def _locked(self, name: str, *, wait: bool = True) -> Iterator[bool]:
        handle = os.open(self.folder / name, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True
        finally:
            os.close(handle)


def _write_durably(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        while data:
            data = data[os.write(handle, data) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
