"""Every call of the description, as everybody: no answer is a fault of ours, each is as described, and each call succeeds for somebody.

`make test` throws the same small number at every call each time; `make fuzz` (COUNTERMAND_FUZZ=long) many more, other ones each time.
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Any
from zlib import crc32

import pytest
import schemathesis
from django.core.wsgi import get_wsgi_application
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy
from schemathesis.core.failures import FailureGroup
from schemathesis.schemas import APIOperation

from console.permissions import door_of
from tests.fakes import FakeProvider
from tests.fuzz import judging, shots
from tests.fuzz.callers import Caller, everybody
from tests.fuzz.ground import things
from tests.fuzz.shots import RIGHT, Shot
from tests.wire import schema

LONG = os.environ.get("COUNTERMAND_FUZZ") == "long"
SEED = int(os.environ.get("COUNTERMAND_FUZZ_SEED") or (random.randrange(10**6) if LONG else 1))
EACH, HITS = (12, 200) if LONG else (1, 8)
"""How many shots of every sort each caller has, and how many right ones those who are allowed have together."""

SUMMARY = "{:6} {:46} {}"


def operations() -> list[APIOperation[Any, Any, Any]]:
    described = schemathesis.openapi.from_dict(schema())
    described.app = get_wsgi_application()
    return [found.ok() for found in described.get_all_operations()]


OPERATIONS = {operation.label: operation for operation in operations()}


@pytest.mark.parametrize("label", OPERATIONS)
def test_every_answer_is_as_described(label: str, fake: FakeProvider, counters: None, settings: Any, tmp_path: Any):
    settings.EVIDENCE_FOLDER = tmp_path
    operation, callers, wrong = OPERATIONS[label], everybody(), list[str]()
    needs, got, refused = needed(operation), Counter[str](), Counter[str]()
    there, allowed = things(*named(operation)), [caller for caller in callers if caller.may(needs)]

    def shoot(caller: Caller) -> Callable[[Shot], None]:
        def one(shot: Shot) -> None:
            sent = {"data": shot.raw} if shot.raw is not None else {}
            response = shot.case.call(headers={**caller.headers, **shot.headers}, cookies=caller.cookies, **sent)
            got[f"{response.status_code // 100}xx"] += 1
            if caller in allowed and shot.how == RIGHT:
                refused[response.content[:200].decode("utf-8", "replace")] += 1
            try:
                judging.judge(shot, response, caller, needs)
            except (AssertionError, FailureGroup) as error:
                wrong.append(f"As {caller.name}, {shot.how}:\n{error}")

        return one

    for number, caller in enumerate(callers):
        if caller in allowed:
            throw(shots.right(operation, there), -(-HITS // len(allowed)), f"{label} {number} right", shoot(caller))
        throw(shots.mixed(operation, there), EACH, f"{label} {number}", shoot(caller))
    print(SUMMARY.format(operation.method.upper(), operation.path, " ".join(f"{name} {got[name]}" for name in ("2xx", "4xx", "5xx"))))
    assert not wrong, f"{len(wrong)} answers are wrong (COUNTERMAND_FUZZ_SEED={SEED}):\n" + "\n\n".join(wrong[:5])
    assert got["2xx"], f"nobody got it to succeed: {refused.most_common(3)}"


def named(operation: APIOperation[Any, Any, Any]) -> list[str]:
    """What its path names, in order."""
    return re.findall(r"\{(\w+)\}", operation.path)


def needed(operation: APIOperation[Any, Any, Any]) -> str:
    """What the table of permissions asks for at this call."""
    door = door_of(operation.method.upper(), re.sub(r"\{(\w+)\}", r"<\1>", operation.path))
    assert door is not None, operation.path
    return door.needs


def throw(strategy: SearchStrategy[Shot], number: int, what: str, shoot: Callable[[Shot], None]) -> None:
    """So many shots, the same ones for the same seed; not the first, which is always the simplest that there is. Nothing is made smaller
    afterwards: what one shot did, the next one meets."""
    drawn = count()

    @seed(crc32(f"{SEED} {what}".encode()))
    @settings(max_examples=number + 1, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(strategy)
    def go(shot: Shot) -> None:
        if next(drawn):
            shoot(shot)

    go()
