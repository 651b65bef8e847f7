"""What a killed demo left running. Remembers the processes of a demo in a file, and ends exactly those before the next
one starts: a process counts only while both its pid and its time of birth are the remembered ones."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import psutil

GONE_BY_THEMSELVES_SECONDS = 6  # the kernel has told them to end when their supervisor was killed


@contextlib.contextmanager
def forgotten_after(path: Path) -> Iterator[Path]:
    """The file, removed when the block ends in order: then nothing was left behind."""
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def remember(path: Path, pids: list[int]) -> None:
    born = {}
    for pid in pids:
        try:
            born[pid] = psutil.Process(pid).create_time()
        except psutil.NoSuchProcess:
            continue
    path.write_text(json.dumps(born))


def end(path: Path) -> int:
    """Waits for the remembered processes, then kills those that stay. Returns how many had to be killed."""
    try:
        born = json.loads(path.read_text())
    except (OSError, ValueError):
        return 0
    left = []
    for pid, time_of_birth in born.items():
        try:
            process = psutil.Process(int(pid))
            if process.create_time() == time_of_birth:
                left.append(process)
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(left, timeout=GONE_BY_THEMSELVES_SECONDS)
    for process in alive:
        process.kill()
    psutil.wait_procs(alive, timeout=GONE_BY_THEMSELVES_SECONDS)
    path.unlink(missing_ok=True)
    return len(alive)
