"""Races against LangGraph's development server (in memory): a graph that loops through supersteps, cancelled by its SDK.

usage: python -m tests.bench.langgraph_cancel FOLDER RACES — prints the races as JSON. Runs in a virtualenv of its own; the server keeps
its things in FOLDER.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from langgraph_sdk import get_client

from tests.bench.racing import AT_A_TIME, HOST, Races, free_port, running

GRAPH = Path(__file__).with_name("langgraph_graph.py")


async def main(folder: Path, count: int) -> None:
    port = free_port()
    url = f"http://{HOST}:{port}"
    async with Races(count) as races:
        with server(folder, port) as theirs:
            await ready(url, theirs)
            await race(races, get_client(url=url))
    print(races.as_json())  # noqa: T201


@contextmanager
def server(folder: Path, port: int) -> Iterator[subprocess.Popen[Any]]:
    """The development server while it is needed; its log is FOLDER/server.log."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "langgraph.json").write_text(json.dumps({"dependencies": ["."], "graphs": {"races": f"{GRAPH}:graph"}}))
    # Its watch for blocking calls is off: a report is one, of microseconds. One job for each race that is under way.
    options = ["--no-browser", "--no-reload", "--allow-blocking", "--host", HOST, "--port", str(port)]
    command = [str(Path(sys.executable).with_name("langgraph")), "dev", *options, "--n-jobs-per-worker", str(AT_A_TIME)]
    quiet = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1", "LOG_LEVEL": "warning"}
    with open(folder / "server.log", "wb") as log, running(*command, cwd=folder, env={**os.environ, **quiet}, stdout=log, stderr=log) as it:
        yield it


async def ready(url: str, theirs: subprocess.Popen[Any]) -> None:
    async with httpx.AsyncClient(trust_env=False) as client:
        for _ in range(600):
            if theirs.poll() is not None:
                raise RuntimeError("the server ended by itself; see server.log")
            try:
                if (await client.get(f"{url}/ok")).status_code == httpx.codes.OK:
                    return
            except httpx.TransportError:
                await asyncio.sleep(0.2)
    raise RuntimeError("the server is not ready after two minutes; see server.log")


async def race(races: Races, client: Any) -> None:
    runs: dict[str, tuple[str, str]] = {}

    async def start(name: str) -> None:
        thread = await client.threads.create()
        given = {"race": name, "done": 0}
        run = await client.runs.create(thread["thread_id"], "races", input=given, config={"recursion_limit": 1_000_000})
        runs[name] = thread["thread_id"], run["run_id"]

    await races.run(
        start,
        lambda name: client.runs.cancel(*runs[name]),
        # A cancel between two supersteps is heard by the engine and not by the node: the run's end is waited for, not the hearing.
        lambda name: client.runs.join(*runs[name]),
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
