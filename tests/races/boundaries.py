"""What a worker does at each boundary of the send path while somebody cancels its run: how it comes there, the act, and the event of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ledger import intents
from ledger.operations import Permission
from runs import leases, lifecycle, steps
from runs.errors import Problem
from runs.models import Run
from tests import makers
from tests.makers import WORKER


@dataclass
class Worker:
    """The process that has a run's lease, and what it has put on the wire."""

    run: Run
    token: str
    reference: str
    sent: Permission | None = None
    received: list[dict[str, Any]] = field(default_factory=list)
    """The provider's own log of what this worker wrote."""

    def declare(self, begin: bool = True) -> None:
        self.sent = intents.declare(WORKER, self.run.pk, self.token, makers.nonce(), makers.intent(self.reference), begin=begin)

    def begin(self) -> None:
        assert self.sent is not None
        self.sent = intents.begin(WORKER, self.sent.effect.pk, self.token, makers.nonce())

    def write(self) -> None:
        """What it was allowed to send leaves, and is executed: this provider refuses nothing and knows no idempotency key."""
        if self.sent and self.sent.attempt and not self.received:
            self.received.append({"operation_id": str(self.sent.effect.pk), "attempt": self.sent.attempt.number, "executed": True})

    def report(self) -> None:
        assert self.sent is not None
        makers.tell(self.sent, "landed", external_id=f"S-{self.reference}", amount=12500, currency="EUR")

    def ends(self) -> None:
        """Whatever it was told: it sends what it may, says what came of it, and stops."""
        self.write()
        if self.received:
            self.report()
        leases.stopped(WORKER, self.run.pk, self.token)


@dataclass(frozen=True)
class Boundary:
    """`act` races the cancel after `before`; it was done when the run has an event of `kind`."""

    before: Callable[[Worker], Any]
    act: Callable[[Worker], Any]
    kind: str


def _step(worker: Worker) -> None:
    makers.step(worker.run, worker.token)


def _declared(worker: Worker) -> None:
    _step(worker)
    worker.declare(begin=False)


def _on_the_wire(worker: Worker) -> None:
    _step(worker)
    worker.declare()
    worker.write()


def _recorded(worker: Worker) -> None:
    _on_the_wire(worker)
    worker.report()


def _checkpointed(worker: Worker) -> None:
    _recorded(worker)
    _finish_step(worker)


def _finish_step(worker: Worker) -> None:
    steps.finish(WORKER, worker.run.pk, worker.token, "order", "done", {"order": worker.reference})


BOUNDARIES: dict[str, Boundary] = {
    "start a step": Boundary(lambda worker: None, _step, "step.started"),
    "declare": Boundary(_step, lambda worker: worker.declare(begin=False), "effect.declared"),
    "begin what was declared": Boundary(_declared, Worker.begin, "effect.sending"),
    "declare and begin": Boundary(_step, Worker.declare, "effect.sending"),
    "report what landed": Boundary(_on_the_wire, Worker.report, "effect.landed"),
    "checkpoint the step": Boundary(_recorded, _finish_step, "step.finished"),
    "start a child": Boundary(_step, lambda worker: makers.child_of(worker.run, worker.token), "child.created"),
    "finish": Boundary(
        _checkpointed, lambda worker: lifecycle.finish(WORKER, worker.run.pk, worker.token, "completed", {"done": 1}), "run.completed"
    ),
}
ALWAYS_KEPT = frozenset({"report what landed", "checkpoint the step"})
"""Facts: the cancel never refuses them, whichever is first."""


def prepared(boundary: Boundary, reference: str) -> Worker:
    """A new run whose worker stands before the boundary."""
    worker = Worker(*makers.new_run(), reference)
    boundary.before(worker)
    return worker


def answered(act: Callable[[], Any]) -> str:
    """`done`, or the code of the refusal."""
    try:
        act()
    except Problem as refusal:
        return refusal.code
    return "done"
