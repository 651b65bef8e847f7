"""The states of a request to undo something, and who may lead it where. Pure; the database's guard is frozen from the same table."""

from __future__ import annotations

from ledger import states

REQUESTED = "requested"
APPROVED = "approved"
REJECTED = "rejected"
WITHDRAWN = "withdrawn"
EXPIRED = "expired"
STALE = "stale"
EXECUTING = "executing"
EXECUTED = "executed"

MOVES: dict[str, frozenset[str]] = {
    REQUESTED: frozenset({APPROVED, REJECTED, WITHDRAWN, EXPIRED, STALE}),
    APPROVED: frozenset({EXECUTING, WITHDRAWN, EXPIRED, STALE}),
    EXECUTING: frozenset({EXECUTED}),
    REJECTED: frozenset(),
    WITHDRAWN: frozenset(),
    EXPIRED: frozenset(),
    STALE: frozenset(),
    EXECUTED: frozenset(),
}
"""From begin-send on what becomes of it is the state of its own effect: *executed* says that the sending is over, not that it landed."""
STATES = tuple(MOVES)
UNDECIDED_OR_DUE = (REQUESTED, APPROVED)
ENDED_WITHOUT_SENDING = (REJECTED, WITHDRAWN, EXPIRED, STALE)

FAILED = frozenset({states.REFUSED, states.ABSENT, states.WITHHELD, states.REVERSED})
"""The states of an undo's own effect in which it did not work: its sum is free again."""

REASONS: dict[str, str] = {
    "duplicate": "It happened twice",
    "wrong_amount": "The amount was wrong",
    "wrong_order": "It was the wrong thing, or for the wrong one",
    "not_wanted": "It is not wanted any more",
    "landed_after_cancel": "It landed although its run was cancelled",
    "other": "Another reason",
}
DECISIONS = (APPROVED, REJECTED)
