"""A mutant is in the running process and nowhere else; `make mutation` itself takes too long for every day."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutation.swapping import code_of, live_functions, swap

SOURCE = """\
import contextlib

class Till:
    def takes(self, amount):
        return amount > 0

@contextlib.contextmanager
def opened():
    yield "open"
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "till.py"
    made.write_text(SOURCE)
    return made


def test_a_fault_takes_hold_in_what_is_already_in_use_and_leaves_the_file_alone(path: Path):
    running: dict = {}
    exec(compile(SOURCE, str(path.resolve()), "exec"), running)  # noqa: S102
    takes, opened = running["Till"]().takes, running["opened"]
    live = live_functions([path])
    assert set(live) == {(str(path), "Till.takes"), (str(path), "opened")}
    faulty = SOURCE.replace("> 0", "< 0").replace('"open"', '"shut"')
    assert takes(1)
    for (where, name), functions in live.items():
        swap(functions, code_of(faulty, where, name))
    assert not takes(1)
    with opened() as said:
        assert said == "shut", "the function behind its decorator"
    assert path.read_text() == SOURCE


def test_a_function_that_is_not_there_is_said(path: Path):
    with pytest.raises(LookupError):
        code_of(SOURCE, str(path), "Till.gives")
