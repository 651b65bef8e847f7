"""What the hub does with many changes, many pages and slow ones: against a tail and a database of the test's own making."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from typing import Any

import pytest

from console.live.changes import COALESCE_S, RUN
from console.live.hub import Hub
from console.live.page import OUTBOX_MAX, Viewer
from console.live.source import Parts, Slice
from console.live.who import Who
from console.live.wire import Fragment, Watch, fragment, timeline_item
from runs import actors
from runs.actors import Actor
from runs.tail import GAP, Seen

SUPPORT = Actor("person", "1", "Sam", "web", frozenset({actors.RUN_READ, actors.CASE_READ}))


class FakeTail:
    """Says what the test tells it to say."""

    position = (7, 1)
    lag_s: float | None = 0.0

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Seen] = asyncio.Queue()

    @contextlib.asynccontextmanager
    async def subscribe(self) -> AsyncIterator[asyncio.Queue[Seen]]:
        yield self.queue

    def say(self, run: uuid.UUID | None, seq: int | None, kind: str = "step.started") -> None:
        self.queue.put_nowait(Seen(1, 1, run, seq, kind, ""))


class FakeSource:
    """A database of versions. `gate` holds renderings back while it is clear; `rendered` counts them."""

    def __init__(self) -> None:
        self.now: dict[uuid.UUID, int] = {}
        self.signed_in = {"s": Who("s", SUPPORT)}
        self.rendered: Counter[tuple[str, uuid.UUID, int]] = Counter()
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.fails = 0

    async def who(self, sessions: Collection[str]) -> dict[str, Who]:
        return {key: self.signed_in[key] for key in sessions if key in self.signed_in}

    async def versions(self, kind: str, ids: Collection[uuid.UUID]) -> dict[uuid.UUID, int]:
        return {one: self.now[one] for one in ids if one in self.now}

    async def render(self, kind: str, ids: list[uuid.UUID]) -> Mapping[uuid.UUID, Any]:
        if self.fails:
            self.fails -= 1
            raise ConnectionError("no database")
        found = {one: self.now[one] for one in ids if one in self.now}
        self.begun.set()
        await self.gate.wait()
        self.rendered.update((kind, one, version) for one, version in found.items())
        rows = {one: fragment(f"row-{one}", version, f"v{version}") for one, version in found.items()}
        if kind in ("runs", "approvals"):
            return rows
        return {one: Parts(version, (fragment("run-head", version, f"v{version}"),)) for one, version in found.items()}

    async def timeline(self, run: uuid.UUID, after: int) -> Slice:
        through = min(self.now[run], after + 100)
        items = tuple(timeline_item(seq, "x") for seq in range(after + 1, through + 1))
        return Slice(items, through, through < self.now[run])

    async def matching(self, actor: Actor, watch: Watch, ids: Collection[uuid.UUID]) -> set[uuid.UUID] | None:
        return {one for one in ids if self.now[one] < 3} if "narrow" in watch.query else None

    async def newer(self, actor: Actor, watch: Watch, marks: Collection[str]) -> dict[str, int]:
        return dict.fromkeys(marks, len(self.now))

    async def listed(self, actor: Actor, watch: Watch) -> set[uuid.UUID]:
        return {one for one, version in self.now.items() if version < 3}

    async def counts(self) -> dict[str, dict[str, Any]]:
        return {"runs": {"running": len(self.now)}}


class World:
    def __init__(self) -> None:
        self.tail, self.source = FakeTail(), FakeSource()
        self.hub = Hub(self.tail, self.source)  # type: ignore[arg-type]
        self.viewers: list[Viewer] = []

    def run(self) -> uuid.UUID:
        made = uuid.uuid4()
        self.source.now[made] = 1
        return made

    def change(self, run: uuid.UUID, kind: str = "step.started") -> None:
        self.source.now[run] += 1
        self.tail.say(run, self.source.now[run], kind)

    async def open(self, watch: Watch) -> tuple[Viewer, list[dict[str, Any]]]:
        viewer = Viewer(Who("s", SUPPORT))
        await self.hub.enter(viewer)
        self.viewers.append(viewer)
        return viewer, [json.loads(text) async for text in self.hub.show(viewer, watch)]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    for viewer in made.viewers:
        made.hub.leave(viewer)


async def frames(viewer: Viewer, within_s: float = 2.0) -> list[dict[str, Any]]:
    """The next frames for a viewer, as its socket would take them."""
    async with asyncio.timeout(within_s):
        while True:
            await viewer.woken.wait()
            viewer.woken.clear()
            if taken := viewer.take():
                return [json.loads(text) for text in taken]


def items(told: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [item for frame in told for item in frame.get("items", ())]


async def settle() -> None:
    """Everything that is due has been sent."""
    await asyncio.sleep(3 * COALESCE_S[RUN])


async def test_a_change_is_rendered_once_however_many_show_it(world: World):
    run = world.run()
    viewers = [(await world.open(Watch("runs", rows={run: 1})))[0] for _ in range(20)]
    world.change(run)
    for viewer in viewers:
        assert [item["version"] for item in items(await frames(viewer))] == [2]
    assert world.source.rendered == {("runs", run, 2): 1}


async def test_the_first_change_goes_at_once_and_a_storm_in_few_frames(world: World):
    run = world.run()
    viewer, _ = await world.open(Watch("runs", rows={run: 1}))
    began = asyncio.get_running_loop().time()
    world.change(run)
    assert [item["version"] for item in items(await frames(viewer))] == [2]
    assert asyncio.get_running_loop().time() - began < COALESCE_S[RUN]
    for _ in range(50):
        world.change(run)
    assert [item["version"] for item in items(await frames(viewer))] == [52]
    assert COALESCE_S[RUN] * 0.9 < asyncio.get_running_loop().time() - began < COALESCE_S[RUN] * 5
    assert sum(world.source.rendered.values()) == 2


async def test_what_happens_between_comparing_and_following_is_not_lost(world: World):
    run = world.run()
    world.source.now[run] = 2
    world.source.gate.clear()
    opening = asyncio.create_task(world.open(Watch("runs", rows={run: 1})))
    await world.source.begun.wait()
    world.change(run)
    await asyncio.sleep(0)
    world.source.gate.set()
    viewer, told = await opening
    assert [item["version"] for item in items(told)] == [2], "what the comparison had read"
    assert [item["version"] for item in items(await frames(viewer))] == [3]


async def test_an_older_version_is_never_sent_after_a_newer_one(world: World):
    run = world.run()
    viewer, _ = await world.open(Watch("runs", rows={run: 5}))
    world.change(run)
    await settle()
    assert items([json.loads(text) for text in viewer.take()]) == [], "the page shows version 5 already"


async def test_only_the_newest_waits_for_a_slow_page(world: World):
    run = world.run()
    viewer, _ = await world.open(Watch("runs", rows={run: 1}))
    for _ in range(3):
        world.change(run)
        await settle()
    assert [item["version"] for item in items(await frames(viewer))] == [4]


async def test_a_page_that_cannot_keep_up_is_told_to_ask_again(world: World):
    run = world.run()
    viewer, _ = await world.open(Watch(run=run, version=1, seq=1))
    world.source.now[run] += OUTBOX_MAX + 50
    world.tail.say(run, world.source.now[run])
    await asyncio.sleep(10 * COALESCE_S[RUN])
    assert [json.loads(text)["type"] for text in viewer.take()][0] == "stale"
    told = [json.loads(text) async for text in world.hub.show(viewer, Watch(run=run, version=1, seq=1))]
    seqs = [int(item["id"][3:]) for item in items(told) if item["id"].startswith("tl-")]
    assert seqs == list(range(2, world.source.now[run] + 1))


async def test_a_gap_in_the_tail_makes_every_page_ask_again(world: World):
    run = world.run()
    viewer, _ = await world.open(Watch("runs", rows={run: 1}))
    world.tail.queue.put_nowait(GAP)
    assert (await frames(viewer))[0] == {"type": "stale"}


async def test_more_changed_rows_than_a_hundred_are_fetched_by_the_page(world: World):
    runs = [world.run() for _ in range(120)]
    rows = dict.fromkeys(runs, 1)
    viewer, _ = await world.open(Watch("runs", rows=rows))
    for run in runs:
        world.change(run)
    await settle()
    assert {"type": "refetch"} in [json.loads(text) for text in viewer.take()]
    _, told = await world.open(Watch("runs", rows=rows))
    assert told[0] == {"type": "refetch"} and told[-1] == {"type": "synced"}


async def test_each_list_is_told_whether_the_row_still_belongs(world: World):
    run = world.run()
    narrow, _ = await world.open(Watch("runs", "narrow=1", rows={run: 1}))
    wide, _ = await world.open(Watch("runs", rows={run: 1}))
    world.change(run)
    assert [item.get("matches") for item in items(await frames(narrow))] == [True]
    assert [item.get("matches") for item in items(await frames(wide))] == [None]
    world.change(run)
    assert [item.get("matches") for item in items(await frames(narrow))] == [False]


async def test_an_inbox_is_told_what_was_decided_and_how_many_it_does_not_show(world: World):
    card = world.run()
    viewer, told = await world.open(Watch("approvals", "tab=to_decide", rows={card: 1}))
    assert {"type": "new", "count": 0} in told
    other = world.run()
    world.tail.say(other, 1, "approval.requested")
    assert {"type": "new", "count": 1} in await frames(viewer)
    world.source.now[card] = 3
    world.tail.say(uuid.uuid4(), 9, "approval.approved")  # the run's id, which the page does not name
    (item,) = items(await frames(viewer))
    assert (item["id"], item["version"]) == (f"row-{card}", 3)
    world.source.rendered.clear()
    world.tail.say(other, 2, "step.started")
    await settle()
    assert not world.source.rendered and viewer.take() == [], "steps change no inbox"


async def test_a_step_appends_to_the_timeline_and_renders_no_part_anew(world: World):
    run = world.run()
    viewer, _ = await world.open(Watch(run=run, version=1, seq=1))
    world.source.rendered.clear()
    world.change(run, "step.started")
    assert [item["id"] for item in items(await frames(viewer))] == ["tl-2"]
    assert not world.source.rendered
    world.change(run, "effect.landed")
    assert [item["id"] for item in items(await frames(viewer))] == ["run-head", "tl-3"]


async def test_a_database_that_fails_for_a_moment_loses_nothing(world: World, caplog: pytest.LogCaptureFixture):
    run = world.run()
    viewer, _ = await world.open(Watch("runs", rows={run: 1}))
    world.source.fails = 2
    world.change(run)
    assert [item["version"] for item in items(await frames(viewer, 5))] == [2]
    assert "tried again" in caplog.text


async def test_counts_and_new_runs_are_told_at_most_once_a_second(world: World):
    run = world.run()
    viewer, told = await world.open(Watch("runs", newest="mark", rows={run: 1}))
    assert {"type": "new", "count": 1} in told
    for _ in range(5):
        world.tail.say(world.run(), 1, "run.created")
    told = await frames(viewer)
    assert {"type": "new", "count": 6} in told and {"type": "counts", "runs": {"running": 6}} in told
    assert viewer.take() == []


@pytest.mark.parametrize(("left", "code"), [({}, 4401), ({"s": Who("s", Actor("person", "1", "Sam", "web"))}, 4403)])
async def test_an_event_about_people_ends_who_may_not_look(world: World, left: dict[str, Who], code: int):
    viewer, _ = await world.open(Watch("runs"))
    world.source.signed_in = left
    world.tail.say(None, None, "people.signed_in")
    await settle()
    assert viewer.code is None
    world.tail.say(None, None, "people.groups_changed")
    await asyncio.sleep(0.05)
    assert viewer.code == code


async def test_another_person_in_the_same_session_ends_the_first(world: World):
    viewer, _ = await world.open(Watch("runs"))
    world.source.signed_in = {"s": Who("s", Actor("person", "2", "Ode", "web", SUPPORT.scopes))}
    world.tail.say(None, None, "people.signed_out")
    await asyncio.sleep(0.05)
    assert viewer.code == 4401


async def test_a_lagging_tail_is_said_within_a_second_or_so(world: World):
    viewer, _ = await world.open(Watch("runs"))
    world.tail.lag_s = 6.5
    assert any(frame["type"] == "beat" and frame["lag_s"] == 6.5 for frame in await frames(viewer, 3))
    world.tail.lag_s = 0.1
    assert any(frame["type"] == "beat" and frame["lag_s"] == 0.1 for frame in await frames(viewer, 3))


async def test_nothing_is_left_running_when_the_last_page_goes(world: World):
    viewer, _ = await world.open(Watch("runs", rows={world.run(): 1}))
    tasks = world.hub._tasks
    world.hub.leave(viewer)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert all(task.cancelled() for task in tasks)
    again, told = await world.open(Watch("runs"))
    assert told[-1] == {"type": "synced"}


def test_a_fragment_says_whether_it_matches():
    plain = Fragment("row-x", 1, '{"id":"row-x","version":1,"html":"<tr>"}')
    assert json.loads(plain.matching(True).item) == {"id": "row-x", "version": 1, "html": "<tr>", "matches": True}
    assert json.loads(plain.matching(False).item)["matches"] is False
