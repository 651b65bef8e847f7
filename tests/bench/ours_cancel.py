"""Races against ourselves: a real web process, worker processes on the SDK, effects at a supplier process; cancelled over the API.

Three witnesses: what the workers say, what the supplier received, and the order that the records keep.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from tests.bench import ground
from tests.bench.counting import count
from tests.bench.racing import Race, Races


@dataclass
class Raced:
    """`in_flight`: for each race the operations that its receipt lists as on the wire. `granted_after`: go-aheads whose place in the
    record is after the cancel's. `refused_after`: acts asked for after it and refused. `arrived`: the races as the supplier saw them."""

    races: list[Race]
    in_flight: dict[str, list[str]] = field(default_factory=dict)
    granted_after: int = 0
    refused_after: int = 0
    arrived: list[Race] = field(default_factory=list)


def race(how_many: int) -> Raced:
    """Run the races on the bench's own PostgreSQL."""
    from console.embedded import processes
    from console.embedded.processes import LOCALHOST, Processes, free_port
    from console.models import Credential
    from runs import actors

    _, token = Credential.issue("races", scopes=sorted(actors.MACHINE_SCOPES), agents=["*"])
    port, supplier_port = free_port(), free_port()
    url, supplier = f"http://{LOCALHOST}:{port}", f"http://{LOCALHOST}:{supplier_port}"
    store = ground.HOME / "races-supplier.sqlite3"
    store.unlink(missing_ok=True)
    known = {"COUNTERMAND_SPOOL": str(ground.HOME / "races-spool")}

    async def everything(running: Processes) -> Raced:
        async with Races(how_many) as races:
            running.start(processes.agent_worker(1, url, token, supplier, known, program="tests.bench.ours_worker"))
            raced = Raced([])
            await _run(races, f"{url}/api/v1", token, raced)
            await asyncio.to_thread(running.stop, "agent-1")
        raced.races = list(races.races.values())
        return raced

    with Processes(ground.HOME / "logs" / "bench") as running:
        running.start(processes.supplier(supplier_port, store, "", "", {}))
        running.start(processes.web(port, {}))
        running.wait_until_ready("supplier")
        running.wait_until_ready("web")
        raced = asyncio.run(everything(running))
        raced.arrived = _arrived(supplier, raced.races)
    raced.granted_after, raced.refused_after = _in_the_records()
    _remove(store)
    return raced


async def _run(races: Races, url: str, token: str, raced: Raced) -> None:
    headers = {"Authorization": f"Bearer {token}"}
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=40, limits=limits, trust_env=False) as client:
        ids: dict[str, str] = {}

        async def start(name: str) -> None:
            body = {"agent": "races", "title": "Race", "input": {"race": name}}
            ids[name] = (await client.post("/runs", json=body)).raise_for_status().json()["id"]

        async def cancel(name: str) -> None:
            answer = (await client.post(f"/runs/{ids[name]}/cancellation", json={"mode": "cancel"})).raise_for_status().json()
            raced.in_flight[name] = [line["operation_id"] for line in answer["in_flight"]]

        await races.run(start, cancel)


def _arrived(supplier: str, races: list[Race]) -> list[Race]:
    """The same races with the supplier's own arrivals as starts: its log has dates, which differ from CLOCK_MONOTONIC by a constant."""
    ahead_s = time.time() - time.monotonic()
    seen = {race.name: Race(race.name, race.asked, race.accepted, race.heard) for race in races}
    lines = httpx.get(f"{supplier}/log", params={"kind": "arrival"}, timeout=60, trust_env=False).raise_for_status().json()
    for line in lines["entries"]:
        at = datetime.fromisoformat(line["at"]).timestamp() - ahead_s
        seen[line["reference"].partition("/")[0]].starts.append((at, line["idempotency_key"]))
    return list(seen.values())


def _in_the_records() -> tuple[int, int]:
    """Go-aheads recorded after their run's cancel, and acts that were refused because of it."""
    from django.db.models import F, Sum

    from ledger.models import Attempt
    from runs.models import Run

    granted = Attempt.objects.filter(run__agent="races", position__gt=F("run__cancel_position")).count()
    return granted, Run.objects.filter(agent="races").aggregate(acts=Sum("refused_after_cancel"))["acts"] or 0


def _remove(store: Path) -> None:
    for left in store.parent.glob(f"{store.name}*"):
        left.unlink(missing_ok=True)


def told(raced: Raced) -> dict[str, Any]:
    """The lines of the bench's table."""
    found, arrived = count(raced.races, raced.in_flight), count(raced.arrived, raced.in_flight)
    on_the_wire = sum(len(names) for names in raced.in_flight.values())
    return {
        "ours, heard p50 / p95 / p99 ms": ground.percentiles(found.heard_ms),
        "ours, worker's process knew, the same": ground.percentiles(found.knew_ms),
        "ours, started after / of these not listed": f"{found.after} / {found.not_listed}",
        "ours, arrived after / of these not listed": f"{arrived.after} / {arrived.not_listed}",
        "ours, granted after / asked for and refused": f"{raced.granted_after} / {raced.refused_after}",
        "ours, on the wire at the cancel, all listed": on_the_wire,
        "ours, actions / races / never heard": f"{found.actions} / {found.races} / {found.unheard}",
    }
