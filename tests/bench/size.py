"""Cost against size: effects and cancels over HTTP with 1 to 1,000 runs under way, and with 100 to 10,000 runs of history.

`BENCH_UNDER_WAY` and `BENCH_HISTORY` take other sizes; a history of 1,000,000 runs takes half an hour to make, once."""

from __future__ import annotations

import asyncio
import os
import random
import statistics
import time
import uuid
from collections.abc import Awaitable, Iterable
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.bench import ground

UNDER_WAY = [int(size) for size in os.environ.get("BENCH_UNDER_WAY", "1 10 100 1000").split()]
HISTORY = [int(runs) for runs in os.environ.get("BENCH_HISTORY", "100 10000").split()]
HISTORY_BLOCKS = 2
SENDERS = 10
SENDING_S = 4.0
CANCELS = 20
APART_S = 0.022
POLLS_OF_A_CLIENT = 25


@dataclass
class Met:
    """What one or more meetings gave: effects a second, and milliseconds of each cancel."""

    a_second: list[float] = field(default_factory=list)
    receipts: list[float] = field(default_factory=list)
    heard: list[float] = field(default_factory=list)

    def add(self, other: Met) -> None:
        self.a_second += other.a_second
        self.receipts += other.receipts
        self.heard += other.heard

    def told(self, size: str) -> dict[str, Any]:
        return {
            f"effects a second, {size}": round(statistics.mean(self.a_second), 1),
            f"cancel → receipt p50 / p95 ms, {size}": _two(self.receipts),
            f"accepted → heard p50 / p95 ms, {size}": _two(self.heard),
        }


def measure() -> dict[str, Any]:
    """Effects a second and milliseconds of a cancel, for each number of runs under way, and for each length of history in turns."""
    told: dict[str, Any] = {}
    with _web() as (url, token):
        for size in UNDER_WAY:
            told |= asyncio.run(_meet(url, token, size)).told(f"{size:,} under way")
    met = {runs: Met() for runs in HISTORY}
    for _ in range(HISTORY_BLOCKS):
        for runs, so_far in met.items():
            with ground.seeded(runs), _web() as (url, token):
                so_far.add(asyncio.run(_meet(url, token, SENDERS)))
    for runs, so_far in met.items():
        told |= so_far.told(f"{runs:,} runs of history")
    return told | {"load of this machine meanwhile": " ".join(f"{load:.1f}" for load in os.getloadavg())}


@contextmanager
def _web() -> Any:
    from console.embedded import processes
    from console.embedded.processes import LOCALHOST, Processes, free_port
    from console.models import Credential
    from runs import actors

    _, token = Credential.issue("size", scopes=sorted(actors.MACHINE_SCOPES), agents=["*"])
    port = free_port()
    with Processes(ground.HOME / "logs" / "bench") as running:
        running.start(processes.web(port, {}))
        running.wait_until_ready("web")
        yield f"http://{LOCALHOST}:{port}/api/v1", token


async def _meet(url: str, token: str, size: int) -> Met:
    """Start the runs, each with a long poll of its own, send from ten at a time, and cancel some of them meanwhile."""
    headers = {"Authorization": f"Bearer {token}"}

    def new_client() -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=url, headers=headers, timeout=60, trust_env=False)

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(new_client())
        # A client goes through all of its connections for every request: a thousand in one would measure the client.
        waiting = [await stack.enter_async_context(new_client()) for _ in range(0, size, POLLS_OF_A_CLIENT)]
        runs = await _all((_begin(client) for _ in range(size)), SENDERS)
        # They come one after the other, as if they had long been there; all at once is another question.
        polls = {
            run["run"]["id"]: asyncio.create_task(_hear(waiting[place // POLLS_OF_A_CLIENT], run, place * APART_S))
            for place, run in enumerate(runs)
        }
        await asyncio.sleep(1 + size * APART_S)
        cancelled = random.Random(size).sample(runs, min(CANCELS, size))
        sending, since = runs[:SENDERS], time.perf_counter()
        sent = sum(await asyncio.gather(*(_send(client, run, since + SENDING_S) for run in sending)))
        a_second = sent / (time.perf_counter() - since)
        receipts, heard = [], []
        busy = [asyncio.create_task(_send(client, run, time.perf_counter() + 60)) for run in sending]
        for run in cancelled:
            began = time.perf_counter()
            (await client.post(f"/runs/{run['run']['id']}/cancellation", json={"mode": "cancel"})).raise_for_status()
            accepted = time.perf_counter()
            receipts.append((accepted - began) * 1000)
            heard.append(max(0.0, (await polls[run["run"]["id"]] - accepted) * 1000))
        await _end(busy + list(polls.values()))
    return Met([a_second], receipts, heard)


async def _begin(client: httpx.AsyncClient) -> dict[str, Any]:
    body = {"agent": "size", "title": "Size", "claim": {"holder": f"w-{uuid.uuid4().hex[:8]}", "ttl_s": 300}}
    run: dict[str, Any] = (await client.post("/runs", json=body)).raise_for_status().json()
    step = {"lease": run["lease"]["token"], "key": "send", "kind": "tool"}
    (await client.post(f"/runs/{run['run']['id']}/steps", json=step)).raise_for_status()
    run["sent"] = 0
    return run


async def _send(client: httpx.AsyncClient, run: dict[str, Any], until: float) -> int:
    """Effects of one run, one after another: go-ahead and outcome. Returns how many, also when the run is cancelled meanwhile."""
    done = 0
    while time.perf_counter() < until:
        run["sent"] += 1
        body = {"lease": run["lease"]["token"], "step": "send", "ordinal": run["sent"], "nonce": uuid.uuid4().hex, "begin": True}
        body |= {"provider": "supplier", "action": "create_order", "business_ref": f"S-{uuid.uuid4().hex[:12]}", "request": {}}
        answer = await client.post(f"/runs/{run['run']['id']}/effects", json=body | {"amount": 1, "currency": "EUR"})
        if answer.status_code == httpx.codes.CONFLICT:
            return done
        asked = answer.raise_for_status().json()
        outcome = {"attempt": asked["attempt"], "verdict": "landed", "external_id": "S", "observed_at": "2026-01-01T00:00:00Z"}
        (await client.post(f"/effects/{asked['operation_id']}/outcome", json=outcome)).raise_for_status()
        done += 1
    return done


async def _hear(client: httpx.AsyncClient, run: dict[str, Any], after_s: float) -> float:
    """When the run's long poll, which begins after so long, said that it is cancelled."""
    await asyncio.sleep(after_s)
    query = {"runs": f"{run['run']['id']}:{run['lease']['epoch']}", "wait_s": 25}
    while not (await client.get("/directives", params=query)).raise_for_status().json()["directives"]:
        pass
    return time.perf_counter()


async def _all(works: Iterable[Awaitable[Any]], at_a_time: int) -> list[Any]:
    room = asyncio.Semaphore(at_a_time)

    async def one(work: Awaitable[Any]) -> Any:
        async with room:
            return await work

    return await asyncio.gather(*(one(work) for work in works))


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _two(values: list[float]) -> str:
    return f"{ground.percentile(values, 0.5):.0f} / {ground.percentile(values, 0.95):.0f}"
