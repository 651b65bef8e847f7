"""How long from a commit to the frame at a socket. Bounded in time, sockets and events; only this machine.

    python -m tests.live.measure --sockets 200 --rate 100 --seconds 10

Runs a web process, a process with the sockets and, here, the events. Every page shows the
same fifty runs; `--pages` of them show one run each instead. A tenth of the sockets is timed, the others only read.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import os
import re
import subprocess
import sys
import time
from typing import Any

from websockets.asyncio.client import connect
from websockets.frames import Frame, Opcode

from tests import platform  # noqa: I001 - sets the environment before Django's settings are read

RUNS = 50
TIMED_EVERY = 10
SYNCED = '{"type":"synced"}'
VERSIONS = re.compile(r'"id":"(?:row-([0-9a-f-]{36})","version":|tl-)(\d+)')
KINDS = ("step.started", "step.finished", "effect.sending", "effect.landed")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sockets", type=int, default=200)
    arguments.add_argument("--pages", type=int, default=0, help="how many of the sockets show a run's page")
    arguments.add_argument("--rate", type=float, default=100, help="events a second")
    arguments.add_argument("--seconds", type=float, default=10)
    given = arguments.parse_args()
    given.sockets, given.seconds = min(given.sockets, 500), min(given.seconds, 60)
    os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings"
    import django

    django.setup()
    with platform.database():
        print(json.dumps(measure(given)))


def measure(given: argparse.Namespace) -> dict[str, Any]:
    from django.core.management import call_command
    from django.db import connection, connections

    from console.embedded import processes
    from console.embedded.processes import LOCALHOST, Processes, free_port
    from console.roles import grant_app_role
    from tests import conftest
    from tests.live.conftest import Site
    from tests.world import make_people

    with conftest._as_owner():
        call_command("migrate", verbosity=0, interactive=False)
        grant_app_role(connection)
    make_people()
    with Processes(platform.SCRATCH / "logs") as running:
        port = free_port()
        running.start(processes.web(port, {}))
        running.wait_until_ready("web")
        site = Site(f"http://{LOCALHOST}:{port}", running)
        result = _with_sockets(site, given)
        log = running.log("web").read_text("utf-8", "replace")
        if "Traceback" in log:
            print(log[-3000:], file=sys.stderr)
    connections.close_all()
    return result


def _with_sockets(site: Any, given: argparse.Namespace) -> dict[str, Any]:
    from tests import makers
    from tests.live.browser import list_of

    runs = [makers.new_run(title=f"Order {n}", ttl_s=600) for n in range(RUNS)]
    plan = {
        "url": site.url,
        "session": site.sign_in(),
        "sockets": given.sockets,
        "pages": given.pages,
        "rows": list_of(run for run, _ in runs),
    }
    client = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", "from tests.live.measure import client; client()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert client.stdin and client.stdout
    client.stdin.write(json.dumps(plan) + "\n")
    client.stdin.flush()
    opened_s = json.loads(client.stdout.readline())["opened_s"]
    cpu_before = _cpu_s(site)
    committed = _events(runs, given)
    time.sleep(1.0)
    cpu = (_cpu_s(site) - cpu_before) / (given.seconds + 1)
    client.stdin.write("\n")
    client.stdin.flush()
    told = json.loads(client.stdout.readline())
    client.wait(10)
    delays = sorted(_delays(committed, told["seen"]))
    return {
        "sockets": given.sockets,
        "pages": given.pages,
        "rate": round(len(committed) / given.seconds),
        "samples": len(delays),
        "lost": told["timed"] * len(committed) - len(delays) if not given.pages else None,
        "p50_ms": _at(delays, 0.5),
        "p95_ms": _at(delays, 0.95),
        "max_ms": _at(delays, 1),
        "frames_per_socket_s": round(told["frames"] / told["timed"] / given.seconds, 1),
        "mib_s": round(told["bytes"] / given.seconds / 2**20, 1),
        "web_cpu": round(cpu, 2),
        "all_synced_after_s": round(opened_s, 2),
    }


def _cpu_s(site: Any) -> float:
    import psutil

    times = psutil.Process(site.running.pid("web")).cpu_times()
    return times.user + times.system


ONE_EVENT = """
WITH moved AS (UPDATE runs_run SET version = version + 1, changed_at = clock_timestamp() WHERE id = %s RETURNING id, version)
INSERT INTO runs_event (run_id, seq, kind, subject, actor_type, actor_id, actor_name, channel, data)
SELECT id, version, %s, %s, 'machine', 'm', 'm', 'api', '{}' FROM moved RETURNING seq
"""


def _events(runs: list[Any], given: argparse.Namespace) -> list[tuple[str, int, float]]:
    """A change and its event in one commit, as bare SQL: the domain's verb would take the processor that is measured."""
    import psycopg

    committed, began = [], time.monotonic()
    with psycopg.connect(platform.APP_URL, autocommit=True) as connection:
        for number in range(int(given.rate * given.seconds)):
            if time.monotonic() - began > given.seconds:
                break
            time.sleep(max(0.0, began + number / given.rate - time.monotonic()))
            run, _ = runs[number % RUNS]
            seq = connection.execute(ONE_EVENT, (run.pk, KINDS[number // RUNS % len(KINDS)], f"s{number}")).fetchone()
            assert seq is not None
            committed.append((str(run.pk), seq[0], time.time()))
    return committed


def _delays(committed: list[tuple[str, int, float]], seen: list[dict[str, list[list[float]]]]) -> list[float]:
    """For each event and timed socket: until the first frame with that version of the row or a later one."""
    delays = []
    for socket in seen:
        for run, version, at in committed:
            arrived = next((when for shown, when in socket.get(run, ()) if shown >= version), None)
            if arrived is not None:
                delays.append(max(0.0, arrived - at))
    return delays


def _at(delays: list[float], share: float) -> float | None:
    return round(delays[min(len(delays) - 1, int(len(delays) * share))] * 1000, 1) if delays else None


# The process with the sockets


def client() -> None:
    asyncio.run(_client(json.loads(sys.stdin.readline())))


async def _client(plan: dict[str, Any]) -> None:
    counted = {"bytes": 0}
    seen: list[dict[str, list[tuple[int, float]]]] = []
    ids = list(plan["rows"])
    synced = [asyncio.Event() for _ in range(plan["sockets"])]
    timed_frames = [0]

    async def page(number: int) -> None:
        run = ids[number % len(ids)] if number < plan["pages"] else None
        watch = {"type": "watch", "list": None if run else "runs", "rows": {} if run else plan["rows"], "run": run, "version": 1, "seq": 1}
        if number % TIMED_EVERY:
            await _only_read(plan, json.dumps(watch), synced[number], counted)
            return
        mine: dict[str, list[tuple[int, float]]] = {}
        seen.append(mine)
        async with connect(plan["url"].replace("http", "ws") + "/ws/ui/", additional_headers=_headers(plan), max_size=None) as socket:
            await socket.send(json.dumps(watch))
            async for text in socket:
                now = time.time()
                timed_frames[0] += 1
                counted["bytes"] += len(text)
                for row, version in VERSIONS.findall(text):
                    mine.setdefault(row or run or "", []).append((int(version), now))
                if text == SYNCED:
                    synced[number].set()

    began = time.monotonic()
    tasks = [asyncio.create_task(page(number)) for number in range(plan["sockets"])]
    async with asyncio.timeout(30):
        for one in synced:
            await one.wait()
    print(json.dumps({"opened_s": time.monotonic() - began}), flush=True)
    counted["bytes"] = timed_frames[0] = 0
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    print(json.dumps({"seen": seen, "timed": len(seen), "frames": timed_frames[0], **counted}), flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _headers(plan: dict[str, Any]) -> dict[str, str]:
    return {"Origin": plan["url"], "Cookie": f"sessionid={plan['session']}"}


async def _only_read(plan: dict[str, Any], watch: str, synced: asyncio.Event, counted: dict[str, int]) -> None:
    """A socket whose frames are not looked at: on two processors a client that parses them all would be what is measured."""
    host, port = plan["url"].removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    key = base64.b64encode(os.urandom(16)).decode()
    upgrade = {
        "Host": f"{host}:{port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13",
    }
    lines = [f"{name}: {value}" for name, value in (upgrade | _headers(plan)).items()]
    writer.write("\r\n".join(["GET /ws/ui/ HTTP/1.1", *lines, "", ""]).encode())
    answer = await reader.readuntil(b"\r\n\r\n")
    assert b" 101 " in answer, answer
    writer.write(Frame(Opcode.TEXT, watch.encode()).serialize(mask=True))
    while data := await reader.read(2**18):
        counted["bytes"] += len(data)
        if not synced.is_set() and SYNCED.encode() in data:
            synced.set()


if __name__ == "__main__":
    main()
