"""Cancel accepted → its worker has heard: fifty running runs, each with a long poll at a real web process, cancelled one after another."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx

from tests.bench import ground

RUNS = 50


def measure() -> dict[str, Any]:
    """Milliseconds from sending the cancel to each of its two answers: the canceller's receipt and the worker's directive."""
    from console.embedded import processes
    from console.embedded.processes import LOCALHOST, Processes, free_port
    from console.models import Credential
    from runs import actors

    _, token = Credential.issue("bench", scopes=sorted(actors.MACHINE_SCOPES), agents=["*"])
    port = free_port()
    with Processes(ground.HOME / "logs" / "bench") as running:
        running.start(processes.web(port, {}))
        running.wait_until_ready("web")
        told = asyncio.run(_cancel_all(f"http://{LOCALHOST}:{port}/api/v1", token))
    return {
        f"cancel → receipt, p50 ms ({RUNS} running)": round(ground.percentile(told["receipt"], 0.5)),
        "cancel → receipt, p95 ms": round(ground.percentile(told["receipt"], 0.95)),
        "accepted → worker heard, p50 ms": round(ground.percentile(told["heard"], 0.5)),
        "accepted → worker heard, p95 ms": round(ground.percentile(told["heard"], 0.95)),
    }


async def _cancel_all(url: str, token: str) -> dict[str, list[float]]:
    limits = httpx.Limits(max_connections=RUNS * 2)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=40, limits=limits, trust_env=False) as client:
        runs = []
        for number in range(RUNS):
            body = {"agent": "bench", "title": "Bench", "claim": {"holder": f"w-{number}", "ttl_s": 300}}
            runs.append((await client.post("/runs", json=body)).raise_for_status().json())
        polls = [asyncio.create_task(_hear(client, run)) for run in runs]
        await asyncio.sleep(1)
        took: dict[str, list[float]] = {"receipt": [], "heard": []}
        for run, poll in zip(runs, polls, strict=True):
            began = time.perf_counter()
            (await client.post(f"/runs/{run['run']['id']}/cancellation", json={"mode": "cancel"})).raise_for_status()
            accepted = time.perf_counter()
            took["receipt"].append((accepted - began) * 1000)
            # The poll may answer before the receipt has come back: it was accepted, at the latest, when either did.
            took["heard"].append(max(0.0, (await poll - accepted) * 1000))
        return took


async def _hear(client: httpx.AsyncClient, run: dict[str, Any]) -> float:
    """When the worker's long poll said that its run is cancelled."""
    query = {"runs": f"{run['run']['id']}:{run['lease']['epoch']}", "wait_s": 25}
    while not (await client.get("/directives", params=query)).raise_for_status().json()["directives"]:
        pass
    return time.perf_counter()
