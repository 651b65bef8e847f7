"""What is outside Countermand in the twin: worker processes, a network that is slow and loses, and a provider with its own log.

It knows none of our code. The provider ignores idempotency keys: what reaches it twice is done twice.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from typing import Any

from ledger.providers.base import Found, Look, Sought
from runs.models import Run
from tests.fakes import DOWN, EMPTY


@dataclass
class Worker:
    """A process that was given a lease. It may sleep between any two acts, and wake when everything has changed."""

    holder: str
    run: Run
    token: str
    operation: uuid.UUID | None = None
    """The effect that it has permission to send, with `attempt`, until it has reported on it."""
    attempt: int = 0
    wrote: bool = False
    refused: int = 0
    gone: bool = False
    """Killed, or it has said that it acts no more: either way not one byte comes from it any more."""
    killed: bool = False
    reports: list[tuple[uuid.UUID, int, str, str]] = field(default_factory=list)

    @property
    def is_about_to_write(self) -> bool:
        """It has its permission, and not one byte has left."""
        return self.operation is not None and not self.wrote and not self.gone

    def let_go(self) -> None:
        self.operation, self.attempt, self.wrote = None, 0, False


@dataclass(frozen=True)
class Packet:
    operation: uuid.UUID
    attempt: int
    reference: str
    amount: int
    currency: str


@dataclass
class Outside:
    """`received` is the provider's own log, as the checker reads it; `answers` is what it told whoever still waited."""

    workers: list[Worker] = field(default_factory=list)
    under_way: list[Packet] = field(default_factory=list)
    objects: list[tuple[Packet, str]] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[tuple[uuid.UUID, int], tuple[str, str]] = field(default_factory=dict)
    down: bool = False

    def write(self, worker: Worker, reference: str, amount: int, currency: str) -> None:
        """The worker's bytes leave."""
        assert worker.operation is not None
        worker.wrote = True
        self.under_way.append(Packet(worker.operation, worker.attempt, reference, amount, currency))

    def arrive(self, packet: Packet, how: str) -> None:
        """A packet is `executed`, executed `differently` (for half of the money), `refused` or `lost`."""
        self.under_way.remove(packet)
        if how == "lost":
            return
        done = how != "refused"
        if how == "differently":
            packet = replace(packet, amount=packet.amount // 2)
        self.received.append({"operation_id": packet.operation, "attempt": packet.attempt, "executed": done})
        number = f"S-{len(self.received)}"
        if done:
            self.objects.append((packet, number))
        self.answers[packet.operation, packet.attempt] = ("landed", number) if done else ("refused", "")

    def look(self, sought: Sought) -> Look:
        """The truth of this moment, unless it is down."""
        if self.down:
            return DOWN
        ours = [(packet, number) for packet, number in self.objects if packet.reference == sought.provider_reference]
        found = tuple(Found(number, "landed", one.amount, one.currency, one.reference, None) for one, number in ours)
        return Look("found", found, http_status=200) if found else EMPTY

    def money_of(self, external_id: str) -> dict[str, Any]:
        """What an object moved."""
        return next({"amount": one.amount, "currency": one.currency} for one, number in self.objects if number == external_id)

    def executed(self, operation: uuid.UUID) -> list[str]:
        """The provider's numbers of what this operation did."""
        return [number for packet, number in self.objects if packet.operation == operation]

    def may_still_happen(self, operation: uuid.UUID) -> bool:
        """Whether a byte of it is under way, or a process that may write one is alive."""
        asleep = any(w.operation == operation and w.is_about_to_write for w in self.workers)
        return asleep or any(packet.operation == operation for packet in self.under_way)
