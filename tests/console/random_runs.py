"""Runs with random histories, through the domain's own verbs: whatever is refused is left out."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

from ledger.operations import Permission
from runs import approvals, cancellation, cleaning, leases, lifecycle, waiting
from runs.approvals import Question
from runs.errors import Problem
from runs.models import Run
from tests.makers import ADMIN, SUPPORT, WORKER, child_of, fresh, new_run, open_cases, send, settle, step, tell

VERDICTS = ("landed", "landed", "refused", "unknown", "not_sent", "pending")


class History:
    """One run and what a random worker, person and provider do to it."""

    def __init__(self, chance: random.Random, number: int) -> None:
        self.chance, self.number = chance, number
        holder = "" if chance.random() < 0.2 else f"w-{number}"
        self.run, self.token = new_run(holder, title=f"Order {number}", business_ref=f"C-{number}")
        self.sent: list[Permission] = []
        acts = [self.send, self.send, self.send, self.tell, self.tell, self.tell, self.child, self.register, self.ask, self.wait]
        ends = [self.finish, self.fail, self.cancel, self.cancel, self.cancel, self.terminate, self.stopped, self.stopped, self.settle]
        for _ in range(chance.randint(0, 6)):
            self.attempt(chance.choice(acts))
        for _ in range(chance.randint(0, 4)):
            self.attempt(chance.choice(ends + [self.tell]))

    def attempt(self, act: Callable[[], object]) -> None:
        with contextlib.suppress(Problem):
            act()

    def send(self) -> None:
        key = f"s{len(self.sent)}"
        self.sent.append(send(self.run, self.token, ref=f"PO-{self.number}-{key}", step=key, begin=self.chance.random() < 0.9))

    def tell(self) -> None:
        if self.sent:
            tell(self.chance.choice(self.sent), self.chance.choice(VERDICTS), amount=12500, currency="EUR")

    def child(self) -> None:
        child_of(fresh(self.run), self.token, title=f"Part of {self.number}")

    def register(self) -> None:
        cleaning.register(WORKER, self.run.pk, self.token, f"c{self.chance.random()}", "release", {})

    def ask(self) -> None:
        approvals.request(WORKER, self.run.pk, self.token, Question("confirm", "Go on?"))

    def wait(self) -> None:
        step(self.run, self.token, "pause")
        waiting.suspend(WORKER, self.run.pk, self.token, "evidence")

    def finish(self) -> None:
        lifecycle.finish(WORKER, self.run.pk, self.token, "completed", {})

    def fail(self) -> None:
        lifecycle.finish(WORKER, self.run.pk, self.token, "failed", error="It broke")

    def cancel(self) -> None:
        cancellation.request_cancel(SUPPORT, self.run.pk, reason="No longer wanted")

    def terminate(self) -> None:
        cancellation.request_cancel(ADMIN, self.run.pk, "terminate", "It hangs", plan_digest=None)

    def stopped(self) -> None:
        leases.stopped(WORKER, self.run.pk, self.token)

    def settle(self) -> None:
        for case in open_cases(run=self.run)[:1]:
            settle(case, self.chance.choice(("happened", "unknowable")))


def make(count: int, seed: int) -> list[Run]:
    """That many runs, the same ones for the same seed as far as the clock allows."""
    chance = random.Random(seed)
    return [fresh(History(chance, number).run) for number in range(count)]
