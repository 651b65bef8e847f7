"""The bench counts what it says it counts."""

from __future__ import annotations

import asyncio

from tests.bench import racing
from tests.bench.counting import count
from tests.bench.racing import Race, Races, Reporter


def test_an_action_after_the_acceptance_is_counted() -> None:
    clean = Race("a", asked=9.0, accepted=10.0, heard=10.5, starts=[(8.0, "-"), (9.5, "-"), (10.0, "-")])
    late = Race("b", asked=9.0, accepted=10.0, heard=12.0, starts=[(9.0, "-"), (10.1, "-"), (11.0, "-")])
    found = count([clean, late])
    assert (found.races, found.actions, found.after, found.races_after, found.not_listed) == (2, 6, 2, 1, 2)
    assert found.heard_ms == [500.0, 2000.0]


def test_an_action_that_the_answer_listed_is_told_apart_and_still_counted() -> None:
    race = Race("a", accepted=10.0, heard=10.5, starts=[(10.1, "on-the-wire"), (10.2, "surprise")])
    found = count([race], {"a": ["on-the-wire"], "b": ["surprise"]})
    assert (found.after, found.listed, found.not_listed) == (2, 1, 1)


def test_heard_before_the_answer_is_no_negative_delay_and_never_heard_is_none() -> None:
    found = count([Race("a", accepted=10.0, heard=9.9), Race("b", accepted=10.0)])
    assert (found.heard_ms, found.unheard) == ([0.0], 1)


def test_a_peer_that_acts_on_after_a_cancel_is_found_out() -> None:
    reporter = Reporter()

    async def race() -> list[Race]:
        async with Races(3, at_a_time=2) as races:

            async def start(name: str) -> None:
                await asyncio.to_thread(reporter.action, name)

            async def cancel(name: str) -> None:
                asyncio.get_running_loop().call_later(0.01, after, name)

            def after(name: str) -> None:
                if name == "race-1":
                    reporter.action(name)
                reporter.heard(name)

            await races.run(start, cancel)
            told = races.as_json()
            reporter.close()
        return racing.read(told)

    found = count(asyncio.run(race()))
    assert (found.races, found.actions, found.after, found.races_after, found.unheard) == (3, 4, 1, 1, 0)
