"""The states and kinds of a case, and what a person may find. Pure."""

from __future__ import annotations

OPEN = "open"
CLAIMED = "claimed"
AWAITING_SECOND = "awaiting_second"
SETTLED = "settled"
STATES = (OPEN, CLAIMED, AWAITING_SECOND, SETTLED)
UNSETTLED = (OPEN, CLAIMED, AWAITING_SECOND)

NO_LOOKUP = "no_lookup"
NOT_FOUND_SENDER_ALIVE = "not_found_sender_alive"
CEILING = "ceiling"
CONFLICTING = "conflicting"
DUPLICATED = "duplicated"
LEFT_BEHIND = "left_behind"
DOES_NOT_STOP = "does_not_stop"
ORPHAN = "orphan"
ABSENT_ASK = "absent_ask"
PROVIDER_DOWN = "provider_down"
KINDS = (
    NO_LOOKUP,
    NOT_FOUND_SENDER_ALIVE,
    CEILING,
    CONFLICTING,
    DUPLICATED,
    LEFT_BEHIND,
    DOES_NOT_STOP,
    ORPHAN,
    ABSENT_ASK,
    PROVIDER_DOWN,
)
OF_NO_RUN = (ORPHAN, PROVIDER_DOWN)
"""Kinds that count for no run."""

HAPPENED = "happened"
HAPPENED_DIFFERENTLY = "happened_differently"
DID_NOT_HAPPEN = "did_not_happen"
CANNOT_BE_KNOWN = "cannot_be_known"
SURPLUS_NAMED = "surplus_named"
SEND_AGAIN = "send_again"
LEAVE = "leave"
BELONGS_TO = "belongs_to"
NOT_OURS = "not_ours"
DONE_BY_HAND = "done_by_hand"
NOT_NEEDED = "not_needed"

VERDICTS: dict[str, tuple[str, ...]] = {
    NO_LOOKUP: (HAPPENED, HAPPENED_DIFFERENTLY, DID_NOT_HAPPEN, CANNOT_BE_KNOWN),
    NOT_FOUND_SENDER_ALIVE: (HAPPENED, HAPPENED_DIFFERENTLY, DID_NOT_HAPPEN, CANNOT_BE_KNOWN),
    CEILING: (HAPPENED, HAPPENED_DIFFERENTLY, DID_NOT_HAPPEN, CANNOT_BE_KNOWN),
    CONFLICTING: (HAPPENED, HAPPENED_DIFFERENTLY, DID_NOT_HAPPEN, CANNOT_BE_KNOWN),
    DUPLICATED: (SURPLUS_NAMED,),
    LEFT_BEHIND: (DONE_BY_HAND, NOT_NEEDED),
    DOES_NOT_STOP: (),
    ORPHAN: (BELONGS_TO, NOT_OURS),
    ABSENT_ASK: (SEND_AGAIN, LEAVE),
    PROVIDER_DOWN: (),
}
"""What may be found in a case of each kind; none: it settles itself."""

WHERE_SEEN = ("provider_dashboard", "statement", "provider_support", "customer", "other")
