"""The states of an effect and of its attempts, and what each counts for on the run row. Pure; nothing here touches a row."""

from __future__ import annotations

DECLARED = "declared"
WITHHELD = "withheld"
SENDING = "sending"
PENDING = "pending"
LANDED = "landed"
REFUSED = "refused"
ABSENT = "absent"
UNKNOWN = "unknown"
AMBIGUOUS = "ambiguous"
CONFLICTED = "conflicted"
DUPLICATED = "duplicated"
REVERSED = "reversed"

MOVES: dict[str, frozenset[str]] = {
    DECLARED: frozenset({SENDING, WITHHELD, CONFLICTED}),
    WITHHELD: frozenset({CONFLICTED}),
    SENDING: frozenset({LANDED, REFUSED, PENDING, DUPLICATED, CONFLICTED, REVERSED, UNKNOWN, DECLARED, ABSENT, WITHHELD}),
    PENDING: frozenset({LANDED, REFUSED, ABSENT, DUPLICATED, CONFLICTED, REVERSED, UNKNOWN, DECLARED, WITHHELD, AMBIGUOUS}),
    UNKNOWN: frozenset({PENDING, LANDED, REFUSED, ABSENT, DUPLICATED, CONFLICTED, REVERSED, AMBIGUOUS, DECLARED, WITHHELD}),
    AMBIGUOUS: frozenset({PENDING, LANDED, REFUSED, ABSENT, DUPLICATED, CONFLICTED, REVERSED, DECLARED, WITHHELD}),
    CONFLICTED: frozenset({LANDED, REFUSED, ABSENT}),
    LANDED: frozenset({CONFLICTED, DUPLICATED, REVERSED}),
    REFUSED: frozenset({CONFLICTED}),
    ABSENT: frozenset({SENDING, CONFLICTED, WITHHELD}),
    DUPLICATED: frozenset({CONFLICTED}),
    REVERSED: frozenset({CONFLICTED}),
}
STATES = tuple(MOVES)

OPEN = frozenset({SENDING, PENDING, UNKNOWN, AMBIGUOUS})
DOUBT = frozenset({PENDING, UNKNOWN, AMBIGUOUS, CONFLICTED})
EVER_DOUBTED = frozenset({UNKNOWN, AMBIGUOUS, CONFLICTED})
KNOWN = frozenset({LANDED, REFUSED, ABSENT, DUPLICATED, REVERSED, WITHHELD})
LANDED_LIKE = frozenset({LANDED, DUPLICATED})
LOOKED_AT = frozenset({PENDING, UNKNOWN, AMBIGUOUS})

WORK = "work"
CLEANUP = "cleanup"
COMPENSATION = "compensation"
ROLES = (WORK, CLEANUP, COMPENSATION)

ATTEMPT_STATES = (SENDING, UNKNOWN, PENDING, LANDED, REFUSED, "not_sent", ABSENT)
NOT_SENT = "not_sent"

SOURCES = ("sender", "look", "webhook", "supervisor", "person", "system")
REPORTABLE = (LANDED, REFUSED, PENDING, UNKNOWN, NOT_SENT)

COUNTERS = ("in_flight", "in_doubt", "unknowable", "landed", "effects_total", "doubted")


def counts(state: str, role: str, unknowable: bool, doubted: bool) -> dict[str, int]:
    """What one effect adds to each counter of its run. Compensations belong to their request and add nothing."""
    if role == COMPENSATION:
        return dict.fromkeys(COUNTERS, 0)
    work = role == WORK
    return {
        "in_flight": int(state == SENDING),
        "in_doubt": int(state in DOUBT and not unknowable),
        "unknowable": int(unknowable),
        "landed": int(work and state in LANDED_LIKE),
        "effects_total": int(work),
        "doubted": int(doubted),
    }
