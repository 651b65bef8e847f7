"""A clock that goes on while the machine sleeps, so that a send window cannot be stretched by a suspended laptop or VM.

Never use wall-clock time for a window: the worker's date may be wrong by minutes.
"""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def now_s() -> float:
    """Seconds since boot, suspended time included."""
    return time.clock_gettime(_CLOCK)
