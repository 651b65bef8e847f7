"""The files in which the laws live, and the tests that may notice when one is broken."""

from __future__ import annotations

LEDGER = ("intents", "plain", "outcomes", "timetable", "settling", "absences", "occurrences", "facts")
UNDOING = ("compensations", "executing", "reversals", "rules", "undoing", "surplus")
RUNS = ("leases", "epochs", "cancellation", "stopping", "closing", "transition", "children", "steps", "cleaning", "cleanup", "sealing")
RECONCILIATION = ("verdicts", "findings", "looks", "second")

FILES = (
    *(f"ledger/{name}.py" for name in (*LEDGER, *UNDOING)),
    *(f"runs/{name}.py" for name in RUNS),
    *(f"reconciliation/{name}.py" for name in RECONCILIATION),
)
TESTS = (
    "tests/runs",
    "tests/ledger",
    "tests/reconciliation",
    "tests/races/test_cancel.py",
    "tests/races/test_claims.py",
    "tests/races/test_undo.py",
)
SLOW = ("tests/ledger/providers",)
"""Left out: they test the adapters, which hold no law, and wait for sockets."""

_OWN = {
    "ledger/intents.py": ("intents", "occurrences"),
    "runs/stopping.py": ("cancellation", "approvals", "deliveries"),
    "runs/epochs.py": ("leases", "life"),
    "runs/cleaning.py": ("cleanup", "life"),
    "runs/transition.py": ("history", "states"),
    "runs/closing.py": ("closing", "cancellation", "deliveries"),
    "ledger/absences.py": ("intents",),
    "ledger/facts.py": ("outcomes",),
    "ledger/timetable.py": ("looks", "ceilings", "intents", "outcomes", "findings"),
    "ledger/reversals.py": ("compensations", "executing"),
    "ledger/undoing.py": ("executing",),
    "ledger/surplus.py": ("second_object",),
}


def is_own(test: str, path: str) -> bool:
    """Whether a test belongs to a file, by the name of its own: those run first, and so does the one that every commit is one."""
    stem = path.rpartition("/")[2].removesuffix(".py")
    return any(f"/test_{name}.py::" in test for name in (*_OWN.get(path, (stem,)), "durable"))
