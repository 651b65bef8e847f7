"""The example's worker (or WORKER_PROGRAM) with a wrong date: the wall clocks of its processes are WORKER_CLOCK_OFFSET_S off.

There need be no libfaketime for it; the monotonic clocks, like those of a machine whose date is wrong, run on.
"""

from __future__ import annotations

import datetime
import os
import runpy
import time

OFFSET_S = float(os.environ.get("WORKER_CLOCK_OFFSET_S", "0"))
_time = time.time


class _Wrong(datetime.datetime):
    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> _Wrong:
        return cls.fromtimestamp(_time() + OFFSET_S, tz)


if OFFSET_S:
    time.time = lambda: _time() + OFFSET_S
    datetime.datetime = _Wrong  # type: ignore[misc]

if __name__ == "__main__":
    runpy.run_module(os.environ.get("WORKER_PROGRAM", "examples.purchase_orders"), run_name="__main__", alter_sys=True)
