"""The suite's checker: the invariants of `reconciliation/invariants.py`, which also run on live databases, and those that compare with
the provider's own log of what reached it.

A history is plain data, so that hand-made violating ones can show that every check bites; `export` reads a real one.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from reconciliation import invariants, records
from reconciliation.invariants import BUCKETS, Found
from reconciliation.records import Row

__all__ = ["BUCKETS", "CHECKS", "OF_THE_PROVIDER", "History", "export", "violations"]


@dataclass
class History(records.History):
    """What happened, and what the provider says of it."""

    received: list[Row] = field(default_factory=list)
    """What reached the provider: `operation_id`, `attempt` (if told) and whether it was `executed`."""


def i5_executed_at_most_once(h: History) -> Found:
    """One execution of an operation; a second attempt only after every earlier one was not sent, or was over as absent."""
    for operation, count in Counter(str(r["operation_id"]) for r in h.received if r["executed"]).items():
        if count > 1:
            yield None, f"{operation} was executed {count} times"
    yield from invariants.i5_a_second_attempt_only_when_it_is_safe(h)


def i10_known_means_executed(h: History) -> Found:
    """Settled by machines, landed means executed once; refused, withheld and absent mean never."""
    executed = Counter(str(r["operation_id"]) for r in h.received if r["executed"])
    for effect in h.effects:
        times = executed[str(effect["operation_id"])]
        if effect["how_we_know"] == "person":
            continue
        if effect["state"] == "landed" and times != 1:
            yield effect["run"], f"{effect['ref']}: landed, but executed {times} times"
        if effect["state"] in ("refused", "withheld", "absent") and times:
            yield effect["run"], f"{effect['ref']}: {effect['state']}, but executed {times} times"


CHECKS: dict[str, Callable[[Any], Found]] = invariants.CHECKS | {"I5": i5_executed_at_most_once, "I10": i10_known_means_executed}
OF_THE_PROVIDER = frozenset({"I5", "I10"})
"""These compare with the provider's own log; without one only what our own rows say of them is checked."""


def violations(h: History, only: Iterable[str] = tuple(CHECKS)) -> list[str]:
    """Every violation of the named invariants, with the invariant's number."""
    return [f"{name} {sentence}" for name in only for _, sentence in CHECKS[name](h)]


def export(run_ids: Iterable[uuid.UUID] | None = None, received: Iterable[Row] | None = None) -> History:
    """The history of these runs (of all, without ids), read from the database; `received` is the provider's log, if there is one.

    Without a provider's log I10 is not meaningful: leave it out of `violations`.
    """
    return History(**records.export(run_ids), received=list(received or ()))
