"""`make mutation`: put small faults into the laws and see which the tests notice.

make mutation ARGS="--files ledger/intents.py runs/leases.py --number 20"
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation import laws, tools


def main() -> int:
    asked = _asked()
    tools.install()
    from tests.mutation.playing import KILLED, TIMED_OUT, Player

    place = tools.HOME / "mutation"
    place.mkdir(parents=True, exist_ok=True)
    (place / "verdicts.jsonl").unlink(missing_ok=True)
    player = Player([Path(name) for name in asked.files], asked.number, asked.budget_s, place, tuple(asked.only))
    tests = [*asked.tests, *(f"--ignore={folder}" for folder in laws.SLOW)]
    ended = pytest.main(["-q", "-s", "-p", "no:cacheprovider", *tests], plugins=[player])
    noticed = Counter(verdict.mutant.path for verdict in player.verdicts if verdict.became in (KILLED, TIMED_OUT))
    tried = Counter(verdict.mutant.path for verdict in player.verdicts)
    print(f"\n{'file':36} noticed of tried")
    for path in tried:
        print(f"{path:36} {noticed[path]:4} {tried[path]:4}  {noticed[path] / tried[path]:.0%}")
    if tried:
        print(f"{'all':36} {noticed.total():4} {tried.total():4}  {noticed.total() / tried.total():.1%}")
    for verdict in player.verdicts:
        if verdict.became not in (KILLED, TIMED_OUT):
            print(f"\n{verdict.became}: {verdict.mutant.name} in {verdict.mutant.function} ({verdict.tests} tests)\n{verdict.mutant.diff}")
    return int(ended)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make mutation", description=__doc__)
    parser.add_argument("--files", nargs="+", default=list(laws.FILES), help="the files to mutate")
    parser.add_argument("--number", type=int, default=40, help="mutants of each file, always the same ones; 0: all")
    parser.add_argument("--budget-s", type=float, default=20, help="seconds of tests for each mutant")
    parser.add_argument("--only", nargs="+", default=[], help="only the mutants whose names end in one of these")
    parser.add_argument("--tests", nargs="+", default=list(laws.TESTS), help="the tests that may notice")
    return parser.parse_args()


sys.exit(main())
