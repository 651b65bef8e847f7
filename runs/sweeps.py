"""Working off what is due, one by one: a row that cannot be handled keeps none of the others waiting. It decides nothing."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


def each(due: Iterable[T], act: Callable[[T], object]) -> int:
    """Call `act`, which opens a transaction of its own, for each; returns how many said that they did something.

    A failure is logged and left to the next sweep.
    """
    done = 0
    for one in list(due):
        try:
            done += bool(act(one))
        except Exception:
            log.exception("%s failed for %s; the next sweep tries again.", getattr(act, "__qualname__", act), one)
    return done
