"""The judge can fail, judge by judge, and a seed decides the schedule."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.checker import History
from tests.nemesis.judging import JUDGES, Happened, Stop, received, violations
from tests.nemesis.schedule import FROZEN_S_MAX, HELD_S_MAX, schedule
from tests.nemesis.stage import PROMISES

RUN, CHILD, OPERATION = uuid.uuid4(), uuid.uuid4(), uuid.uuid4()
AT = datetime(2026, 3, 2, 14, 2, 7, tzinfo=UTC)


def line(kind: str, seconds: float, **values: Any) -> dict[str, Any]:
    at = (AT + timedelta(seconds=seconds)).isoformat()
    return {"kind": kind, "at": at, "reference": "PO-1", "idempotency_key": str(OPERATION), "attempt": "1", **values}


def attempt(number: int = 1, seconds: float = 0) -> dict[str, Any]:
    return {"effect": OPERATION, "run": RUN, "number": number, "position": 3, "sent_at": AT + timedelta(seconds=seconds)}


def effect(**values: Any) -> dict[str, Any]:
    return {"operation_id": OPERATION, "run": RUN, "ref": "E-1", "state": "unknown", "unknowable": False, **values}


def stopped(*reasons: str, below: tuple[str, ...] = ()) -> History:
    """A run with these stops on its record, and its child with those `below`."""
    runs = [{"id": RUN, "ref": "R-1", "state": "cancelled"}, {"id": CHILD, "ref": "R-2", "state": "cancelled"}]
    cancels = [{"run": RUN, "reason": reason} for reason in reasons] + [{"run": CHILD, "reason": reason} for reason in below]
    return History(runs=runs, cancels=cancels)


def happened(history: History | None = None, log: list[dict[str, Any]] | None = None, **values: Any) -> Happened:
    return Happened(history or History(), log or [], values.pop("stops", []), **values)


ARRIVED = [line("arrival", 1), line("execution", 1.1)]
RIGHT = {
    "one order a reference": happened(log=ARRIVED),
    "sending before arriving": happened(History(attempts=[attempt()]), ARRIVED),
    "settled or with a person": happened(History(effects=[effect()], cases=[{"effect": OPERATION, "run": RUN, "state": "open"}])),
    "answers were true": happened(stopped("a", "lost", below=("a",)), stops=[Stop("R-1", "a", 202), Stop("R-1", "lost", None)]),
}
WRONG = {
    "the checker": (happened(History(received=received([*ARRIVED, line("execution", 2)]))), "was executed 2 times"),
    "one order a reference": (happened(log=[*ARRIVED, line("execution", 2, idempotency_key="another")]), "PO-1: 2 times execution"),
    "sending before arriving": (happened(History(attempts=[attempt(seconds=1.05)]), ARRIVED), "before its sending"),
    "sending before arriving, of another attempt": (happened(History(attempts=[attempt(2)]), ARRIVED), "there is no sending of it"),
    "settled or with a person": (happened(History(effects=[effect()])), "L1 E-1 is still unknown"),
    "settled or with a person, a run": (happened(History(runs=[{"id": RUN, "ref": "R-1", "state": "running"}])), "L2 R-1 is still running"),
    "answers were true": (happened(stops=[Stop("R-1", "a", 202)]), "answered 202 , and recorded 0 times"),
    "answers were true, of a refusal": (
        happened(stopped("a"), stops=[Stop("R-1", "a", 503, "busy")]),
        "answered 503 busy, and recorded 1 times",
    ),
    "answers were true, of a lost one": (
        happened(stopped("a", "a"), stops=[Stop("R-1", "a", None)]),
        "recorded 2 times",
    ),
    "answers were true, of a run below": (
        happened(stopped("a", below=("a", "a")), stops=[Stop("R-1", "a", 202)]),
        "I13 R-2: the stop of R-1 reached it 2 times",
    ),
    "answers were true, only below": (
        happened(stopped(below=("a",)), stops=[Stop("R-1", "a", None)]),
        "I13 R-2: the stop of R-1 reached it 1 times, and is recorded there 0 times",
    ),
    "commands and logs": (happened(said=["web ended by itself with 1"]), "web ended by itself"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_let_pass(name: str) -> None:
    assert list(JUDGES[name](RIGHT[name])) == []


@pytest.mark.parametrize("name", WRONG)
def test_every_judge_finds_its_violation(name: str) -> None:
    seen, expected = WRONG[name]
    found = list(JUDGES[name.split(",")[0]](seen))
    assert len(found) == 1 and expected in found[0], found


def test_a_violation_names_its_judge() -> None:
    assert violations(WRONG["commands and logs"][0]) == ["commands and logs: web ended by itself with 1"]


def test_every_judge_was_shown_to_fail() -> None:
    assert {name.split(",")[0] for name in WRONG} == set(JUDGES)


def test_a_seed_decides_the_schedule_and_another_seed_another_one() -> None:
    assert schedule(7, 60) == schedule(7, 60)
    assert [(deed.at_s, deed.options) for deed in schedule(7, 60)] == [(deed.at_s, deed.options) for deed in schedule(7, 60)]
    assert schedule(7, 60) != schedule(8, 60)


def test_what_is_killed_is_started_and_what_is_frozen_goes_on() -> None:
    deeds = schedule(3, 600)
    for begins, ends in (("kill", "start"), ("freeze", "thaw")):
        names = {deed.target for deed in deeds if deed.what == begins}
        assert names
        for name in names:
            of_it = [deed.what for deed in deeds if deed.target == name and deed.what in (begins, ends)]
            assert of_it == [begins, ends] * (len(of_it) // 2)


def test_no_packet_lives_longer_than_the_supplier_promises() -> None:
    """A request held on the wire, by a frozen supplier, and before it is accepted: one after the other."""
    assert 3 * HELD_S_MAX < float(str(PROMISES["max_in_flight_s"]))
    assert FROZEN_S_MAX > 0
