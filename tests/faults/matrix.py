"""What must come of every fault at every boundary (design: proof.md §3). One row is one cell; `make faults` plays them all."""

from __future__ import annotations

from typing import NamedTuple


class Cell(NamedTuple):
    """`executions`: how often one operation was carried out, at most; `arrivals` at the supplier; the effect's state and the run's status
    in the end; a sentence that its page says."""

    executions: int
    arrivals: int
    effect: str
    run: str
    says: str


LANDED = "Landed. Supplier confirmed this order at «t»."
BY_A_LOOK = f"{LANDED} It is in effect now. We know it from a look at Supplier."
BEFORE = "Landed before the cancel. Supplier confirmed this order at «t»; the cancel was accepted at «t». Cancelling did not change it."
BEFORE_TERMINATION = "Landed before the termination. Supplier confirmed this order at «t»; the run was terminated at «t»."
AFTER = "Landed. We learned it after the cancel. It was sent at «t», before the cancel was accepted at «t»;"
AFTER_TERMINATION = "Landed. We learned it after the termination. It was sent at «t», before the run was terminated at «t»;"
NOT_SENT = "Not sent. This order was stopped before it left us. Nothing reached Supplier. There is nothing to undo."
NOTHING = "Stopped. It had sent nothing."
TERMINATED = "Terminated by Admin at «t»."

DONE = Cell(1, 1, "landed", "completed", LANDED)
LOOKED_UP = Cell(1, 1, "landed", "completed_reconciled", BY_A_LOOK)
SENT_AGAIN = Cell(1, 1, "landed", "completed_reconciled", LANDED)
"""What never left was proved absent, and then sent by another attempt."""
TIDIED = Cell(0, 0, "none", "cancelled", NOTHING)

FOUND_OUT = Cell(1, 1, "landed", "completed_reconciled", LANDED)
"""It was unknown for a while; a look, a webhook or the sender itself tells, whichever is first."""
LEFT_BEHIND = Cell(0, 0, "none", "cancelled_unresolved", "Cleanup did not reach one: its worker was lost; it is never run twice.")

UNDONE = Cell(1, 2, "landed landed", "completed", "Undone")
"""The order and its undo are two operations, each carried out once."""

WITHOUT: dict[str, Cell] = {
    "B1": DONE,
    "B2": DONE,
    "B3": DONE,
    "B4": DONE,
    "B5": DONE,
    "B6": DONE,
    "B7": DONE,
    "B8": TIDIED,
    "B9": UNDONE,
    "B10": LOOKED_UP,
    "B11": DONE,
    "B12": DONE,
}
"""Without a fault: the boundary is reached, and passed."""

MATRIX: dict[tuple[str, str], Cell] = {
    **{(boundary, "–"): cell for boundary, cell in WITHOUT.items()},
    # F1: what had left lands and is learned after the cancel; what had not is never sent.
    ("B1", "F1"): Cell(0, 0, "none", "cancelled", NOTHING),
    ("B2", "F1"): Cell(0, 0, "withheld", "cancelled", NOT_SENT),
    ("B3", "F1"): Cell(1, 1, "landed", "cancelled", AFTER),
    ("B4", "F1"): Cell(1, 1, "landed", "cancelled", AFTER),
    ("B5", "F1"): Cell(1, 1, "landed", "cancelled", AFTER),
    ("B6", "F1"): Cell(1, 1, "landed", "cancelled", AFTER),
    ("B7", "F1"): Cell(1, 1, "landed", "cancelled", BEFORE),
    ("B8", "F1"): TIDIED,
    ("B9", "F1"): UNDONE,
    ("B10", "F1"): Cell(1, 1, "landed", "cancelled_reconciled", AFTER),
    ("B11", "F1"): Cell(1, 1, "landed", "cancelled", AFTER),
    ("B12", "F1"): Cell(1, 1, "landed", "cancelled", AFTER),  # it waits for the lock, and then lists what began
    # F2: the same, but the run closes at once: what was sending is unknown until its facts come, and clean-up is left behind.
    ("B1", "F2"): Cell(0, 0, "none", "terminated", TERMINATED),
    ("B2", "F2"): Cell(0, 0, "withheld", "terminated", NOT_SENT),
    ("B3", "F2"): Cell(1, 1, "landed", "terminated_reconciled", AFTER_TERMINATION),
    ("B4", "F2"): Cell(1, 1, "landed", "terminated_reconciled", AFTER_TERMINATION),
    ("B5", "F2"): Cell(1, 1, "landed", "terminated_reconciled", AFTER_TERMINATION),
    ("B6", "F2"): Cell(1, 1, "landed", "terminated_reconciled", AFTER_TERMINATION),
    ("B7", "F2"): Cell(1, 1, "landed", "terminated", BEFORE_TERMINATION),
    ("B8", "F2"): Cell(0, 0, "none", "terminated_unresolved", "Cleanup did not reach one: the run was terminated."),
    ("B10", "F2"): Cell(1, 1, "landed", "terminated_reconciled", AFTER_TERMINATION),
    ("B11", "F2"): Cell(1, 1, "landed", "terminated_reconciled", AFTER_TERMINATION),
    # F3: nothing is sent again that may have left; what never left is sent again once that is proved.
    ("B1", "F3"): DONE,
    ("B2", "F3"): DONE,
    ("B3", "F3"): SENT_AGAIN,
    ("B4", "F3"): SENT_AGAIN._replace(arrivals=2),
    ("B5", "F3"): LOOKED_UP,
    ("B6", "F3"): LOOKED_UP,
    ("B7", "F3"): DONE,
    ("B8", "F3"): LEFT_BEHIND,
    ("B9", "F3"): UNDONE,
    ("B10", "F3"): LOOKED_UP,
    ("B11", "F3"): FOUND_OUT,
    # F4: the lease goes to another worker; the sleeper's facts are kept when it wakes, and it may start nothing.
    ("B1", "F4"): DONE,
    ("B2", "F4"): DONE,
    ("B3", "F4"): SENT_AGAIN,
    ("B4", "F4"): FOUND_OUT,
    ("B5", "F4"): FOUND_OUT,
    ("B6", "F4"): FOUND_OUT,
    ("B7", "F4"): DONE,
    ("B8", "F4"): LEFT_BEHIND,
    ("B10", "F4"): LOOKED_UP,
    ("B11", "F4"): FOUND_OUT,
    # F5 to F8: nobody notices anything.
    **{(boundary, fault): WITHOUT[boundary] for fault in ("F5", "F6", "F7", "F8") for boundary in WITHOUT},
}
LEFT_OUT: dict[tuple[str, str], str] = {
    ("B8", "F7"): "nothing was sent, so no webhook comes",
    ("B9", "F2"): "its run has been closed for long: what stopping it answers is in B9-F1",
    ("B9", "F4"): "an undo has no lease to lose",
    ("B9", "F8"): "no worker undoes anything",
    ("B12", "F2"): "what begins meanwhile makes its preview old: it is refused, and asked again it is B3-F2",
    **dict.fromkeys((("B12", "F3"), ("B12", "F4")), "the control plane stands here, not the worker: what becomes of it is B3's"),
    **dict.fromkeys((("B12", "F6"), ("B12", "F7"), ("B12", "F8")), "nothing that it brings asks for this run's lock"),
}
"""Cells that would show nothing, and why."""
for _cell in LEFT_OUT:
    MATRIX.pop(_cell, None)
QUICK = frozenset({("B2", "F1"), ("B3", "F4"), ("B4", "F3"), ("B5", "F2"), ("B6", "F5"), ("B9", "F6"), ("B11", "F7"), ("B12", "F1")})
"""The cells that `make test` plays as well."""
