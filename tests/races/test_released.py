"""Cancel races of two real processes, released together and decided by chance: at every boundary of the send path, both orders,
nothing started after the cancel, and the checker finds nothing. `make races` runs a thousand at each, `make test` a few."""

from __future__ import annotations

import os
import uuid
from collections import defaultdict

import pytest

from runs.models import Event, Run
from tests import checker
from tests.races import report
from tests.races.boundaries import ALWAYS_KEPT, BOUNDARIES
from tests.races.contenders import Contest, Race, race
from tests.races.report import Tally

pytestmark = [pytest.mark.timeout(3600), pytest.mark.usefixtures("database")]
TIMES = int(os.environ.get("COUNTERMAND_RACES", "20"))
SEED = int(os.environ.get("SEED", "1"))
UNLOCKED_TIMES = 60
ENOUGH = 100
"""So many races at one boundary show both orders, whatever the machine does."""


def judged(boundary: str, races: list[Race]) -> Tally:
    """Read from the history who was first in each race, and what the checker finds in all of them."""
    ids = [uuid.UUID(one.run) for one in races]
    seqs: dict[str, dict[str, int]] = defaultdict(dict)
    kind, never = BOUNDARIES[boundary].kind, 2**31
    for run, what, seq in Event.objects.filter(run__in=ids, kind__in=[kind, "cancel.accepted"]).values_list("run", "kind", "seq"):
        seqs[str(run)][what] = seq
    act_first = sum(at.get(kind, never) < at.get("cancel.accepted", never) for at in seqs.values())
    children = Run.objects.filter(parent__in=ids).values_list("pk", flat=True)
    history = checker.export([*ids, *children], received=[line for one in races for line in one.received])
    return Tally(
        boundary=boundary,
        races=len(races),
        act_first=act_first,
        cancel_first=len(races) - act_first,
        refused=sum(one.act == "cancelled" for one in races),
        recorded_after_cancel=sum(kind in at and at[kind] > at.get("cancel.accepted", never) for at in seqs.values()),
        executed=sum(len(one.received) for one in races),
        violations=checker.violations(history),
    )


def test_whoever_is_first_nothing_starts_after_the_cancel() -> None:
    for boundary, races in zip(BOUNDARIES, race(Contest(tuple(BOUNDARIES), TIMES, SEED)), strict=True):
        tally = judged(boundary, races)
        report.keep(tally)
        assert tally.violations == []
        assert tally.races == TIMES
        assert TIMES < ENOUGH or (tally.act_first and tally.cancel_first), f"only one order was seen: {tally}"
        assert {one.act for one in races} <= {"done", "cancelled"}
        assert {one.cancel for one in races} <= {"accepted", "already_closed"}
        if boundary not in ALWAYS_KEPT:
            assert tally.recorded_after_cancel == 0
            assert tally.refused == tally.cancel_first


def test_without_the_run_row_lock_they_are_caught() -> None:
    """The same races with the lock removed from the fence: the checker finds what was sent after its cancel."""
    boundary = "declare and begin"
    (races,) = race(Contest((boundary,), UNLOCKED_TIMES, SEED, sabotage="no_row_lock"))
    tally = judged(boundary, races)
    assert any(line.startswith("I1 ") for line in tally.violations), tally
