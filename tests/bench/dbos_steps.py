"""Steps a second of DBOS Transact on a PostgreSQL that is given: one durable row a step. Runs in a virtualenv of its own.

usage: python dbos_steps.py DATABASE_URL ROUNDS COUNT — prints one rate for each round.
"""

import logging
import sys
import time

from dbos import DBOS, DBOSConfig

url, rounds, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
logging.disable(logging.INFO)
config: DBOSConfig = {"name": "bench", "system_database_url": url, "run_admin_server": False}
DBOS(config=config)


@DBOS.step()
def step(number: int) -> int:
    return number


@DBOS.workflow()
def workflow(first: int) -> float:
    began = time.perf_counter()
    for number in range(count):
        step(first + number)
    return count / (time.perf_counter() - began)


DBOS.launch()
workflow(0)
for turn in range(rounds):
    print(workflow((turn + 1) * count), flush=True)  # noqa: T201
DBOS.destroy()
