"""Races against DBOS Transact on a PostgreSQL that is given: a workflow of short steps, cancelled by a client in another process.

usage: python -m tests.bench.dbos_cancel DATABASE_URL RACES — prints the races as JSON. Runs in a virtualenv of its own.
"""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import time

from dbos import DBOS, DBOSClient, DBOSConfig, SetWorkflowID
from dbos._error import DBOSWorkflowCancelledError, DBOSWorkflowConflictIDError

from tests.bench.racing import ACTION_S, AT_A_TIME, Races, Reporter, running

reporter = Reporter()


@DBOS.step()
def act(race: str) -> None:
    reporter.action(race)
    time.sleep(ACTION_S)


@DBOS.workflow()
def work(race: str) -> None:
    try:
        while True:
            act(race)
    except (DBOSWorkflowCancelledError, DBOSWorkflowConflictIDError):
        # The second when the cancel came while a step ran: its result is not recorded any more.
        reporter.heard(race)
        raise


def worker(url: str) -> None:
    """Start the workflow of each name that comes in, until no more come."""
    logging.disable(logging.ERROR)
    # Room for every workflow at once, which its default pool has not.
    config: DBOSConfig = {"name": "bench", "system_database_url": url, "run_admin_server": False, "sys_db_pool_size": AT_A_TIME + 5}
    DBOS(config=config)
    DBOS.launch()
    print("ready", flush=True)  # noqa: T201
    for line in sys.stdin:
        with SetWorkflowID(line.strip()):
            DBOS.start_workflow(work, line.strip())
    DBOS.destroy()


async def main(url: str, count: int) -> None:
    module = [sys.executable, "-m", "tests.bench.dbos_cancel", "worker", url]
    async with Races(count) as races:
        with running(*module, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as theirs:
            assert theirs.stdin and theirs.stdout
            theirs.stdout.readline()
            client = DBOSClient(system_database_url=url)
            await races.run(lambda name: asyncio.to_thread(theirs.stdin.write, f"{name}\n"), client.cancel_workflow_async)
            client.destroy()
    print(races.as_json())  # noqa: T201


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        worker(sys.argv[2])
    else:
        asyncio.run(main(sys.argv[1], int(sys.argv[2])))
