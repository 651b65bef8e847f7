"""One rendering for everybody, and never an older one after a newer one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import pytest

from console.live.shelf import ALWAYS, Shelf
from console.live.together import Together

ONE, TWO = uuid.uuid4(), uuid.uuid4()


@dataclass
class Thing:
    version: int


class Printer:
    def __init__(self) -> None:
        self.now = {ONE: 1, TWO: 1}
        self.calls: list[list[uuid.UUID]] = []
        self.gate = asyncio.Event()

    async def __call__(self, kind: str, ids: list[uuid.UUID]) -> dict[uuid.UUID, Thing]:
        self.calls.append(sorted(ids))
        read = {one: Thing(self.now[one]) for one in ids if one in self.now}
        await self.gate.wait()
        return read


async def test_those_who_ask_at_the_same_time_share_one_rendering():
    printer = Printer()
    shelf = Shelf(printer)
    asked = [asyncio.create_task(shelf.get("runs", {ONE: 1, TWO: 1})) for _ in range(10)]
    await asyncio.sleep(0)
    printer.gate.set()
    assert [found[ONE].version for found in await asyncio.gather(*asked)] == [1] * 10
    assert printer.calls == [sorted([ONE, TWO])]
    assert (await shelf.get("runs", {ONE: 1}))[ONE].version == 1
    assert len(printer.calls) == 1


async def test_a_rendering_that_began_too_early_is_not_taken_for_a_newer_one():
    printer = Printer()
    shelf = Shelf(printer)
    early = asyncio.create_task(shelf.get("runs", {ONE: 1}))
    await asyncio.sleep(0)
    printer.now[ONE] = 2
    late = asyncio.create_task(shelf.get("runs", {ONE: 2}))
    await asyncio.sleep(0)
    printer.gate.set()
    assert (await early)[ONE].version == 1
    assert (await late)[ONE].version == 2


async def test_an_old_rendering_never_replaces_a_newer_one():
    printer = Printer()
    printer.gate.set()
    shelf = Shelf(printer)
    printer.now[ONE] = 7
    await shelf.get("runs", {ONE: 7})
    printer.now[ONE] = 6  # read before, rendered later
    assert (await shelf.get("runs", {ONE: ALWAYS}))[ONE].version == 7


async def test_what_does_not_exist_is_left_out_and_what_is_long_unused_forgotten():
    printer = Printer()
    printer.gate.set()
    shelf = Shelf(printer, kept_max=1)
    assert set(await shelf.get("runs", {ONE: 1, uuid.uuid4(): 1})) == {ONE}
    await shelf.get("runs", {TWO: 1})
    assert shelf.peek("runs", ONE) is None and shelf.peek("runs", TWO) is not None


async def test_a_rendering_that_fails_fails_for_its_asker_and_the_next_one_tries_again():
    async def fails(kind: str, ids: list[uuid.UUID]) -> dict[uuid.UUID, Thing]:
        raise ConnectionError

    shelf = Shelf(fails)
    for _ in range(2):
        with pytest.raises(ConnectionError):
            await shelf.get("runs", {ONE: 1})
    assert not shelf._flights


async def test_questions_are_asked_together_and_never_answered_from_before():
    calls: list[set[str]] = []
    begun, gate = asyncio.Event(), asyncio.Event()

    async def read(keys: Collection[str]) -> Mapping[str, int]:
        calls.append(set(keys))
        begun.set()
        await gate.wait()
        return dict.fromkeys(keys, len(calls))

    together = Together(read)
    first = asyncio.create_task(together.get({"a"}))
    await begun.wait()
    later = [asyncio.create_task(together.get({key})) for key in ("a", "b", "c")]
    await asyncio.sleep(0)
    gate.set()
    assert await first == {"a": 1}
    assert await asyncio.gather(*later) == [{"a": 2}, {"b": 2}, {"c": 2}]
    assert calls == [{"a"}, {"a", "b", "c"}]
