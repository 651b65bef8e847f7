"""Races against Temporal on its test server (no time skipping): an activity that heartbeats before every action, cancelled by its handle.

usage: python -m tests.bench.temporal_cancel RACES — prints the races as JSON. Runs in a virtualenv of its own.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tests.bench.racing import ACTION_S, HOST, Races, Reporter, free_port, running

QUEUE = "races"
THROTTLE = timedelta(seconds=1)  # how often a heartbeat reaches the server; its default is 0.8 of the timeout, at most 60 s

reporter = Reporter()


@activity.defn
async def act(race: str) -> None:
    try:
        while True:
            activity.heartbeat()
            reporter.action(race)
            await asyncio.sleep(ACTION_S)
    except asyncio.CancelledError:
        reporter.heard(race)
        raise


@workflow.defn
class Work:
    @workflow.run
    async def run(self, race: str) -> None:
        await workflow.execute_activity(
            act,
            race,
            start_to_close_timeout=timedelta(minutes=10),
            # Long, so that a busy machine does not end the activity; the throttle is set apart from it.
            heartbeat_timeout=timedelta(seconds=30),
            retry_policy=RetryPolicy(maximum_attempts=1),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        )


async def worker(server: str) -> None:
    await Worker(
        await Client.connect(server),
        task_queue=QUEUE,
        workflows=[Work],
        activities=[act],
        workflow_runner=UnsandboxedWorkflowRunner(),
        max_heartbeat_throttle_interval=THROTTLE,
    ).run()


async def connected(server: str) -> Client:
    for _ in range(300):
        try:
            return await Client.connect(server)
        except RuntimeError:
            await asyncio.sleep(0.2)
    return await Client.connect(server)


async def main(count: int) -> None:
    port = free_port()
    binary = str(Path(sys.executable).with_name("temporal-test-server"))
    module = [sys.executable, "-m", "tests.bench.temporal_cancel", "worker", f"{HOST}:{port}"]
    async with Races(count) as races:
        with running(binary, str(port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            client = await connected(f"{HOST}:{port}")
            with running(*module, stdout=sys.stderr):
                await races.run(
                    lambda name: client.start_workflow(Work.run, name, id=name, task_queue=QUEUE),
                    lambda name: client.get_workflow_handle(name).cancel(),
                )
    print(races.as_json())  # noqa: T201


if __name__ == "__main__":
    asyncio.run(worker(sys.argv[2]) if sys.argv[1] == "worker" else main(int(sys.argv[1])))
