"""Plays mutants inside one pytest session: everything is set up once, and each mutant is a fork in which only the tests run that reach it.

First every test runs once under coverage.py, each with a context of its own, which says how long it takes and which lines it reaches. Then,
for each mutant, a child process gets the mutated function and runs the tests that reach its lines until one fails: first the file's own,
then those that have found most, then the fastest. A child that hangs is ended, and counts as noticed.
"""

from __future__ import annotations

import hashlib
import json
import os
import select
import signal
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType
from typing import Any

import psycopg
import pytest
from _pytest.runner import runtestprotocol
from django.db import connections

from tests import platform
from tests.mutation.laws import is_own
from tests.mutation.mutants import Mutant, sample
from tests.mutation.swapping import code_of, live_functions, swap

KILLED, TIMED_OUT, SURVIVED, UNREACHED, CONTROL = "killed", "timed out", "survived", "reached by no test", "control"
SLACK_S, SLOWER = 20.0, 10.0
CONTROL_TESTS, FAILURES_MAX = 15, 4


@dataclass
class Verdict:
    """What became of a mutant: which test noticed, after how many."""

    mutant: Mutant
    became: str
    by: str = ""
    tests: int = 0
    seconds: float = 0.0


class Player:
    """The pytest plugin. `number` mutants of each path (0: all), at most `budget_s` seconds of tests for each.

    `only` picks those of them whose names end in one of these words.
    """

    def __init__(self, paths: list[Path], number: int, budget_s: float, place: Path, only: tuple[str, ...] = ()) -> None:
        self.paths, self.number, self.budget_s, self.place, self.only = paths, number, budget_s, place, only
        self.verdicts: list[Verdict] = []
        self._finds: Counter[str] = Counter()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        reach = self._reach(session.items)
        live = live_functions(self.paths)
        for path in self.paths:
            self._control(path, items, reach)
            for mutant in sample(path, self.number):
                if self.only and not mutant.name.endswith(self.only):
                    continue
                self._note(self._play(mutant, items, reach, live.get((mutant.path, mutant.function), [])))
        return True

    # Which test reaches what

    def _reach(self, items: list[pytest.Item]) -> dict[str, Any]:
        """{"seconds": {test: s}, "lines": {path: {line: [tests]}}}, kept for the same tests of the same files."""
        said = "\n".join([*(item.nodeid for item in items), *(path.read_text() for path in self.paths)])
        kept = self.place / f"reach-{hashlib.sha256(said.encode()).hexdigest()[:16]}.json"
        if kept.exists():
            _failing(next(item for item in items if "database" in item.fixturenames))
        else:
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(self._measure(items)))
        found: dict[str, Any] = json.loads(kept.read_text())
        return found

    def _measure(self, items: list[pytest.Item]) -> dict[str, Any]:
        from coverage import Coverage

        seconds: dict[str, float] = {}
        failures: list[str] = []
        measuring = Coverage(data_file=None, include=[str(path.resolve()) for path in self.paths], concurrency=["thread"])
        measuring.start()
        for number, item in enumerate(items):
            measuring.switch_context(item.nodeid)
            begun = time.monotonic()
            if failed := _failing(item):
                failures.append(f"{item.nodeid}: {failed}")
                assert len(failures) < FAILURES_MAX, "without any fault:\n" + "\n".join(failures)
            else:
                seconds[item.nodeid] = round(time.monotonic() - begun, 4)
            if number % 100 == 0:
                print(f"{number} of {len(items)} tests measured", flush=True)
        measuring.stop()
        data = measuring.get_data()
        lines = {
            str(path): {
                line: [test for test in tests if test in seconds] for line, tests in data.contexts_by_lineno(str(path.resolve())).items()
            }
            for path in self.paths
        }
        return {"seconds": seconds, "lines": lines}

    # One mutant

    def _play(self, mutant: Mutant, items: dict[str, pytest.Item], reach: dict[str, Any], live: list[Any]) -> Verdict:
        chosen = self._chosen(mutant.path, range(mutant.lines[0], mutant.lines[1] + 1), reach)
        if not chosen or not live:
            return Verdict(mutant, UNREACHED)
        code = code_of(mutant.source, mutant.path, mutant.function)
        expected_s = sum(reach["seconds"][test] for test in chosen)
        return self._in_a_child(mutant, [items[test] for test in chosen], live, code, SLACK_S + SLOWER * expected_s)

    def _chosen(self, path: str, lines: Iterable[int], reach: dict[str, Any]) -> list[str]:
        """The tests that reach a line, in the order in which they run, as many as the budget allows."""
        tests = {test for line in lines for test in reach["lines"][path].get(str(line), [])}
        chosen, left_s = [], self.budget_s
        for test in sorted(tests, key=lambda test: (not is_own(test, path), -self._finds[test], reach["seconds"][test], test)):
            left_s -= reach["seconds"][test]
            if left_s > 0 or not chosen:
                chosen.append(test)
        return chosen

    def _in_a_child(self, mutant: Mutant, tests: list[pytest.Item], live: list[Any], code: CodeType | None, limit_s: float) -> Verdict:
        connections.close_all()
        reader, writer = os.pipe()
        begun = time.monotonic()
        child = os.fork()
        if not child:
            os.close(reader)
            _child(tests, live, code, writer)
        os.close(writer)
        told = _hear(reader, limit_s)
        os.close(reader)
        if told is None:
            os.kill(child, signal.SIGKILL)
            _clear_up()
        os.waitpid(child, 0)
        took = round(time.monotonic() - begun, 2)
        if told is None:
            return Verdict(mutant, TIMED_OUT, seconds=took)
        failed, _, number = told.rpartition(" ")
        if failed:
            self._finds[failed] += 1
        return Verdict(mutant, KILLED if failed or not number else SURVIVED, failed or "the process ended", int(number or 0), took)

    def _control(self, path: Path, items: dict[str, pytest.Item], reach: dict[str, Any]) -> None:
        """Without any fault the same tests, in a child as well, must pass: otherwise nothing here means anything."""
        tests = self._chosen(str(path), map(int, reach["lines"][str(path)]), reach)[:CONTROL_TESTS]
        if not tests:
            return
        nothing = Mutant(str(path), "", "nothing", (0, 0), "", "")
        found = self._in_a_child(nothing, [items[test] for test in tests], [], None, 10 * SLACK_S)
        assert found.became == SURVIVED, f"without any fault {path} {found.became}: {found.by}"

    def _note(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        print(f"{verdict.became:20} {verdict.seconds:6.1f} s  {verdict.mutant.name}  {verdict.by}", flush=True)
        with (self.place / "verdicts.jsonl").open("a") as kept:
            kept.write(json.dumps(asdict(verdict) | {"mutant": {**asdict(verdict.mutant), "source": ""}}) + "\n")


def _failing(item: pytest.Item) -> str:
    """Runs a test and says how it failed, if it did. Only what belongs to the session outlives it."""
    before = item.session.testsfailed  # a failing subtest is counted there and nowhere in its test's own reports
    reports = runtestprotocol(item, log=False, nextitem=item.session)  # type: ignore[arg-type]
    said = "\n".join(report.longreprtext for report in reports if report.failed)
    return said or ("a subtest failed" if item.session.testsfailed > before else "")


def _child(tests: list[pytest.Item], live: list[Any], code: CodeType | None, writer: int) -> None:
    """Runs in the child and never returns: tells the first test that fails and how many ran."""
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1), os.dup2(quiet, 2)
    if code is not None:
        swap(live, code)
    told = ""
    try:
        for number, test in enumerate(tests):
            if _failing(test):
                told = f"{test.nodeid} {number + 1}"
                break
        else:
            told = f" {len(tests)}"
    except BaseException as error:
        told = f"{type(error).__name__} 0"
    finally:
        os.write(writer, told.encode()[:4000])
        os._exit(0)


def _hear(reader: int, limit_s: float) -> str | None:
    """What the child told; None when it said nothing for so long. Time in which this process was stopped does not count."""
    waited, before = 0.0, time.monotonic()
    while waited < limit_s:
        if select.select([reader], [], [], 0.2)[0]:
            return os.read(reader, 4096).decode()
        now = time.monotonic()
        waited, before = waited + min(now - before, 1.0), now
    return None


def _clear_up() -> None:
    """What a child that was ended has left in the database."""
    from tests.conftest import empty_tables  # needs the settings, which pytest has made by now

    with psycopg.connect(platform.MAINTENANCE_URL, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [platform.NAME])
    empty_tables()
