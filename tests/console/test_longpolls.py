"""The two calls that wait, through the real ASGI application: woken by commits, holding nothing, known to nobody without a token."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest
from channels.db import database_sync_to_async

from console.asgi import application
from runs import cancellation, leases
from runs.models import Run
from runs.tail import tail
from tests import makers
from tests.makers import SUPPORT, new_run
from tests.wire import check, token
from tests.world import World

pytestmark = pytest.mark.usefixtures("database")
in_a_thread = partial(database_sync_to_async, thread_sensitive=False)
RUNS = 50


@contextlib.asynccontextmanager
async def serving(bearer: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """The web process's application, with its tail."""
    bearer = bearer or await in_a_thread(token)()
    await tail.start()
    await tail.ready()
    headers = {"Authorization": f"Bearer {bearer}"}
    transport = httpx.ASGITransport(application, raise_app_exceptions=False)
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver/api/v1", headers=headers, timeout=30) as client:
            yield client
    finally:
        await tail.stop()


def described(answer: httpx.Response) -> httpx.Response:
    media = answer.headers.get("Content-Type", "").partition(";")[0]
    check(answer.request.method, answer.request.url.path, answer.status_code, media, answer.json() if answer.content else None)
    return answer


async def ask(client: httpx.AsyncClient, run: Run, epoch: int = 1, **query: object) -> httpx.Response:
    return described(await client.get("/directives", params={"runs": f"{run.pk}:{epoch}", **query}))


async def test_a_run_that_goes_on_has_no_directive():
    run, _ = await in_a_thread(new_run)()
    async with serving() as client:
        assert (await ask(client, run)).json() == {"directives": []}


async def test_a_cancel_is_heard_at_once_by_fifty_waiting_polls():
    runs = [(await in_a_thread(new_run)())[0] for _ in range(RUNS)]
    async with serving() as client:
        heard_s: dict[uuid.UUID, float] = {}

        async def listen(run: Run) -> None:
            answer = await ask(client, run, wait_s=20)
            heard_s[run.pk] = time.perf_counter()
            (line,) = answer.json()["directives"]
            assert (line["run"], line["directive"], line["why"]) == (str(run.pk), "cancel", "cancelled")
            assert line["cancel"]["by"]["name"] == SUPPORT.name

        polls = [asyncio.ensure_future(listen(run)) for run in runs]
        async with asyncio.timeout(20):
            while len(tail._watches) < RUNS:  # noqa: ASYNC110 - what is waited for is inside the code under test
                await asyncio.sleep(0.05)
        took_s = []
        for run in runs:
            await in_a_thread(cancellation.request_cancel)(SUPPORT, run.pk)
            took_s.append((run.pk, time.perf_counter()))
        await asyncio.gather(*polls)
    late_s = sorted(heard_s[pk] - accepted for pk, accepted in took_s)
    # The bench measures 150 ms; here it is enough that the tail woke them, not the look that comes every few seconds.
    assert late_s[int(RUNS * 0.95)] < 1, [round(x, 3) for x in late_s]


async def test_more_waiting_polls_than_connections_leave_the_web_process_free(world: World):
    polls_count = 24  # the pool of the web process has 20
    made = [world.api.post("/runs", json={"agent": "a", "title": "x", "claim": {"holder": f"w-{n}"}}).json() for n in range(polls_count)]
    headers = {"Authorization": f"Bearer {world.token}"}
    limits = httpx.Limits(max_connections=200)
    async with httpx.AsyncClient(base_url=f"{world.url}/api/v1", headers=headers, timeout=30, limits=limits, trust_env=False) as client:
        ask = [{"runs": f"{one['run']['id']}:1", "wait_s": 20} for one in made]
        polls = [asyncio.ensure_future(client.get("/directives", params=query)) for query in ask]
        await asyncio.sleep(1)
        assert (await client.get("/runs")).status_code == 200
        assert not any(poll.done() for poll in polls), "it was answered only when a poll had let go"
        for one in made:
            assert (await client.post(f"/runs/{one['run']['id']}/cancellation", json={"mode": "cancel"})).status_code == 202
        answers = await asyncio.gather(*polls)
    assert [len(answer.json()["directives"]) for answer in answers] == [1] * polls_count


async def test_what_was_heard_is_not_told_again_and_a_lost_lease_is():
    run, _ = await in_a_thread(new_run)()
    async with serving() as client:
        await in_a_thread(cancellation.request_cancel)(SUPPORT, run.pk)
        assert (await ask(client, run, heard=str(run.pk))).json() == {"directives": []}
        (stale,) = (await ask(client, run, epoch=7)).json()["directives"]
        assert (stale["directive"], stale["epoch"]) == ("stop", 7)
        unknown = described(await client.get("/directives", params={"runs": f"{uuid.uuid4()}:1"})).json()["directives"]
        assert [line["why"] for line in unknown] == ["not_found"]


async def test_a_waiting_claim_gets_the_run_that_is_created_meanwhile():
    async with serving() as client:
        body = {"holder": "w-1", "agents": ["purchase-order"], "wait_s": 20}
        waiting = asyncio.ensure_future(client.post("/runs/claim", json=body))
        await asyncio.sleep(0.3)
        began = time.perf_counter()
        run, _ = await in_a_thread(new_run)(holder="", input={"order": 1})
        answer = described(await waiting)
        assert time.perf_counter() - began < 2
        assert (answer.status_code, answer.json()["run"]["id"], answer.json()["run"]["input"]) == (200, str(run.pk), {"order": 1})


async def test_a_claim_without_work_is_answered_204():
    async with serving() as client:
        began = time.perf_counter()
        answer = described(await client.post("/runs/claim", json={"holder": "w-1", "agents": ["purchase-order"], "wait_s": 0.4}))
        assert answer.status_code == 204 and 0.3 < time.perf_counter() - began < 3


async def test_two_waiting_claims_never_get_the_same_run():
    async with serving() as client:
        claims = [
            asyncio.ensure_future(client.post("/runs/claim", json={"holder": f"w-{n}", "agents": ["purchase-order"], "wait_s": 3}))
            for n in range(6)
        ]
        await asyncio.sleep(0.3)
        for _ in range(4):
            await in_a_thread(new_run)(holder="")
        answers = await asyncio.gather(*claims)
        taken = [answer.json()["run"]["id"] for answer in answers if answer.status_code == 200]
        assert len(taken) == len(set(taken)) == 4


async def test_a_claim_whose_asker_has_gone_is_given_back(monkeypatch: pytest.MonkeyPatch):
    run, _ = await in_a_thread(new_run)(holder="")
    bearer = await in_a_thread(token)()
    claimed, gone, go_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    loop, real = asyncio.get_running_loop(), leases.claim

    def claim_and_dawdle(*args: object) -> object:
        taken = real(*args)  # type: ignore[arg-type]
        loop.call_soon_threadsafe(claimed.set)
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(10)
        return taken

    monkeypatch.setattr(leases, "claim", claim_and_dawdle)
    body = [{"type": "http.request", "body": b'{"holder": "w-1", "agents": ["purchase-order"]}'}]

    async def receive() -> dict[str, object]:
        if body:
            return body.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, object]) -> None:
        raise AssertionError("nobody is there to be answered")

    headers = [(b"authorization", f"Bearer {bearer}".encode()), (b"content-type", b"application/json"), (b"host", b"testserver")]
    path = "/api/v1/runs/claim"
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b"", "headers": headers}
    asking = asyncio.ensure_future(application(scope, receive, send))
    await claimed.wait()
    gone.set()
    await asking
    assert (await in_a_thread(makers.fresh)(run)).state == "running"
    go_on.set()
    async with asyncio.timeout(5):
        while (await in_a_thread(makers.fresh)(run)).state != "scheduled":  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_waiting_goes_on_without_a_tail():
    run, _ = await in_a_thread(new_run)()
    async with serving() as client:
        await tail.stop()
        waiting = asyncio.ensure_future(ask(client, run, wait_s=10))
        await asyncio.sleep(0.2)
        await in_a_thread(cancellation.request_cancel)(SUPPORT, run.pk)
        async with asyncio.timeout(3):
            assert len((await waiting).json()["directives"]) == 1


async def test_strangers_and_odd_questions_are_refused():
    run, _ = await in_a_thread(new_run)()
    async with serving("cm_nobody_knows") as stranger:
        for answer in (await stranger.post("/runs/claim", json={"holder": "w", "agents": ["a"]}), await ask(stranger, run)):
            assert (answer.status_code, answer.json()["code"]) == (401, "not_allowed")
            assert "Bearer" in answer.headers["WWW-Authenticate"]
    others = await in_a_thread(token)("others", agents=["refunds"])
    async with serving(others) as other:
        assert [line["why"] for line in (await ask(other, run)).json()["directives"]] == ["not_found"]
        claim = await other.post("/runs/claim", json={"holder": "w", "agents": ["purchase-order"]})
        assert (claim.status_code, claim.json()["code"]) == (403, "not_allowed")
        assert (await other.get("/runs/claim")).status_code == 405
        assert (await other.post("/directives")).status_code == 405
        assert (await other.get("/directives", params={"runs": "x"})).json()["field"] == "runs"
