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
    record is after the cancel's. `refused_after`: acts asked for after it and refused. `open_at_cancel`: the operations whose go-ahead is
    recorded before and whose outcome after it. `arrived`: the races as the supplier saw them."""

    races: list[Race]
    in_flight: dict[str, list[str]] = field(default_factory=dict)
    granted_after: int = 0
    refused_after: int = 0
    open_at_cancel: set[str] = field(default_factory=set)
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
    _read_the_records(raced)
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


def _read_the_records(raced: Raced) -> None:
    from django.db.models import Exists, F, OuterRef, Sum

    from ledger.models import Attempt
    from runs.models import Event, Run

    ours = Attempt.objects.filter(run__agent="races")
    raced.granted_after = ours.filter(position__gt=F("run__cancel_position")).count()
    raced.refused_after = Run.objects.filter(agent="races").aggregate(acts=Sum("refused_after_cancel"))["acts"] or 0
    told = Event.objects.filter(run=OuterRef("run"), subject=OuterRef("effect__ref"), kind="effect.landed")
    before = ours.filter(position__lt=F("run__cancel_position"))
    still_open = before.exclude(Exists(told.filter(seq__lt=OuterRef("run__cancel_position"))))
    raced.open_at_cancel = {str(attempt.effect_id) for attempt in still_open}


def _remove(store: Path) -> None:
    for left in store.parent.glob(f"{store.name}*"):
        left.unlink(missing_ok=True)


def told(raced: Raced) -> dict[str, Any]:
    """The lines of the bench's table."""
    found, arrived = count(raced.races, raced.in_flight), count(raced.arrived, raced.in_flight)
    listed = {name for names in raced.in_flight.values() for name in names}
    return {
        "ours, heard p50 / p95 / p99 ms": ground.percentiles(found.heard_ms),
        "ours, worker's process knew, the same": ground.percentiles(found.knew_ms),
        "ours, started after / of these not listed": f"{found.after} / {found.not_listed}",
        "ours, arrived after / of these not listed": f"{arrived.after} / {arrived.not_listed}",
        "ours, granted after / asked for and refused": f"{raced.granted_after} / {raced.refused_after}",
        "ours, on the wire at the cancel / not listed": f"{len(raced.open_at_cancel)} / {len(raced.open_at_cancel - listed)}",
        "ours, listed in receipts": len(listed),
        "ours, actions / races / never heard": f"{found.actions} / {found.races} / {found.unheard}",
    }
