"""The one port of this app: what stopping, expiring, claiming and closing a run need of its effects, inside their transaction.

`ledger` provides it when the app starts. Every method is called with the run rows locked by the caller, alters their counters in memory
(or records its own events on them) and never opens a transaction of its own.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from runs.actors import Actor
from runs.models import Run

Line = dict[str, Any]


@dataclass
class Holdings:
    """What a run's effects are at one moment, as the JSON lines of a preview or a receipt."""

    in_flight: list[Line] = field(default_factory=list)
    unresolved: list[Line] = field(default_factory=list)
    landed: list[Line] = field(default_factory=list)
    declared: list[Line] = field(default_factory=list)


class Book(Protocol):
    def holdings(self, runs: Iterable[Run]) -> dict[uuid.UUID, Holdings]:
        """The attempts whose sender is not known to be stopped, the effects in doubt, the landed and the declared, by run."""

    def withhold(self, run: Run, why: str, actor: Actor) -> list[Line]:
        """Every declared effect of the run becomes withheld."""

    def give_up(self, run: Run, epoch: int | None, why: str, actor: Actor) -> None:
        """What is still sending (of one epoch, or of all) becomes unknown: silence is not an answer."""

    def sender_stopped(self, run: Run, epoch: int, how: str, actor: Actor) -> None:
        """Keep as evidence that this epoch's sender has stopped; what it was sending becomes unknown."""

    def may_act_until(self, run: Run) -> datetime | None:
        """The latest `answer_by` that is still to come of an attempt whose sender is not known to be stopped, or None."""

    def step_open(self, run: Run, step_key: str) -> bool:
        """Whether an effect of the step is still in flight or in doubt."""

    def condition_met(self, run: Run, condition: dict[str, Any]) -> bool:
        """Whether a stored condition of kind `evidence` or `operation` is met."""

    def has_effect(self, run: Run, operation_id: uuid.UUID) -> bool:
        """Whether the operation is an effect of the run, in whatever state."""

    def effects_of(self, run: Run) -> list[Line]:
        """The run's effects with their outcomes, for the worker that takes over."""

    def leave_unasked(self, runs: Iterable[Run]) -> None:
        """The runs stop: absent effects that waited for a person's word are left."""

    def issue_accounts(self, runs: Iterable[Run]) -> None:
        """Issue the next version of the account of each of these closed runs."""


_book: Book | None = None


def provide(book: Book) -> None:
    """Install the ledger's implementation (once, when the app starts)."""
    global _book
    _book = book


def book() -> Book:
    """The installed implementation."""
    if _book is None:
        raise RuntimeError("the ledger app has not provided its book: add 'ledger' to INSTALLED_APPS")
    return _book
