"""The native cancel of the runtime in which a run executes: a recorded hint with its own states. The fence does not depend on it."""

from __future__ import annotations

import uuid

from django.db.models import F, QuerySet

from runs import transition
from runs.models import Delivery, Run

BY_DIRECTIVE = frozenset({"celery", "countermand"})
"""Runtimes whose worker hears the cancel through our own directive."""

_AT_QUIET = {
    "stopped": ("acknowledged", "It stopped without saying that it had heard."),
    "reaped": ("failed", "Its process had ended before it said that it had heard."),
    "presumed": ("failed", "Its worker never answered: whether it heard is not known."),
}


def open_for(run: Run) -> None:
    """A cancel was accepted: note how its runtime is told, or why it cannot be. A worker is told only where there is one."""
    known = run.runtime in BY_DIRECTIVE
    if not run.runtime or (known and run.lease_token is None):
        return
    why = "" if known else f"Nobody delivers a native cancel to {run.runtime} yet; its worker is refused every further act."
    state = "pending" if known else "unsupported"
    Delivery.objects.get_or_create(run=run, defaults={"runtime": run.runtime, "state": state, "why": why, "made_at": transition.clock()})


def handed_over(run_id: uuid.UUID) -> None:
    """Its worker has asked and is being told of the cancel; each time counts."""
    _undecided(run_id).update(state="delivered", tries=F("tries") + 1, changed_at=transition.clock())


def acknowledged(run: Run) -> None:
    """Its worker said that it heard, at last or at once."""
    if run.runtime:
        rows = Delivery.objects.filter(run=run).exclude(state="unsupported")
        rows.update(state="acknowledged", why="", changed_at=transition.clock())


def at_quiet(run: Run) -> None:
    """The run is quiet: nobody is left who could hear."""
    if run.runtime:
        state, why = _AT_QUIET[run.quiet_basis]
        _undecided(run.pk).update(state=state, why=why, changed_at=transition.clock())


def _undecided(run_id: uuid.UUID) -> QuerySet[Delivery]:
    return Delivery.objects.filter(run=run_id, state__in=["pending", "delivered"])
