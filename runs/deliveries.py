"""The native cancel of the runtime in which a run executes: a recorded hint with its own states. The fence does not depend on it."""

from __future__ import annotations

from runs import transition
from runs.models import Delivery, Run

BY_DIRECTIVE = frozenset({"celery", "countermand"})
"""Runtimes whose worker hears the cancel through our own directive."""


def open_for(run: Run) -> None:
    """A cancel was accepted: note how its runtime is told, or why it cannot be."""
    if not run.runtime:
        return
    known = run.runtime in BY_DIRECTIVE
    why = "" if known else f"Nobody delivers a native cancel to {run.runtime} yet; its worker is refused every further act."
    state = "pending" if known else "unsupported"
    Delivery.objects.get_or_create(run=run, defaults={"runtime": run.runtime, "state": state, "why": why, "made_at": transition.clock()})


def told(run: Run, state: str, why: str = "") -> None:
    """The worker was told (`delivered`), said that it heard (`acknowledged`), or can't any more (`failed`)."""
    if not run.runtime:
        return
    earlier = {"delivered": ["pending"], "acknowledged": ["pending", "delivered", "failed"], "failed": ["pending", "delivered"]}[state]
    Delivery.objects.filter(run=run, state__in=earlier).update(state=state, why=why, changed_at=transition.clock())
