"""Short lives of runs, each lived once through the domain's own verbs. `tests/bench/seed.py` multiplies what they wrote.

Every word that differs from run to run is a marker here (see `Marks`), which no other text contains.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import Group, User

from console import people
from ledger import compensations, executing, intents, outcomes, rulebook
from ledger.models import Effect
from ledger.operations import Intent, Permission
from ledger.outcomes import Fact
from ledger.prospects import Wanted
from ledger.rulebook import NewTerms
from reconciliation import cases, ceilings, findings
from reconciliation.evidence import Finding
from reconciliation.models import Case
from runs import actors, approvals, cancellation, children, leases, lifecycle, preview, steps, waiting
from runs.actors import Actor
from runs.lifecycle import NewRun
from runs.models import Run

PROVIDER, ACTION, CURRENCY = "supplier", "create_order", "EUR"
AGENT, TITLE, HOLDER, MACHINE, MACHINE_NAME = "agent-qzx", "Title Qzx", "w-qzx", "tok-qzx", "worker qzx"
REFERENCE, OBJECT, CUSTOMER = "PO-QZX", "SO-QZX", "c-qzx"
AMOUNT = 731_001_000  # and the numbers after it
PEOPLE = ((910_000_001, "Qzx", "Asker", "Support"), (910_000_002, "Qzx", "Decider", "Approver"), (910_000_003, "Qzx", "Admin", "Admin"))
WORKER = Actor("machine", MACHINE, MACHINE_NAME, "api", actors.MACHINE_SCOPES, frozenset({"*"}))


@dataclass
class Life:
    """One story being lived: its people, and the runs that it has made, the first one first."""

    asker: Actor
    decider: Actor
    story: int
    runs: list[Run] = field(default_factory=list)
    number: itertools.count[int] = field(default_factory=lambda: itertools.count(1))
    token: str = ""

    @property
    def run(self) -> Run:
        return self.runs[0]

    def reference(self, number: int) -> str:
        """No two stories may share one: each action is done once."""
        return f"{REFERENCE}{self.story:02}{number:02}"

    def begin(self, holder: str = HOLDER, **values: Any) -> None:
        """A run of its own, or a child of it, claimed at once unless there is no holder."""
        child = {"parent_id": self.run.pk, "parent_lease": self.token} if self.runs else {}
        new = NewRun(AGENT, TITLE, {"customer": CUSTOMER}, self.reference(len(self.runs)), **values)
        made = lifecycle.create(WORKER, new, holder=holder, ttl_s=600, **child)  # type: ignore[arg-type]
        self.runs.append(made.run)
        if not child and made.grant:
            self.token = made.grant.token

    def step(self, key: str, kind: str = "tool", **values: Any) -> None:
        steps.start(WORKER, self.run.pk, self.token, steps.NewStep(key=key, kind=kind, **values))

    def done(self, key: str, outcome: str = "done", **values: Any) -> None:
        steps.finish(WORKER, self.run.pk, self.token, key, outcome, **values)

    def think(self) -> None:
        """A model call."""
        self.step("plan", "model_call", title="Plan the work", hears_cancel_every_s=2)
        self.done("plan", result={"text": "Order it."}, cost={"micros": 1234, "currency": "USD", "input_tokens": 900})

    def intent(self, step: str, number: int, **values: Any) -> Intent:
        asked = {"amount": AMOUNT + number, "currency": CURRENCY} | values
        return Intent(step, PROVIDER, ACTION, self.reference(number + 10), {"lines": [{"sku": "A"}]}, ordinal=number, **asked)

    def send(self, step: str = "order", begin: bool = True, **values: Any) -> Permission:
        number = next(self.number)
        self.step(step)
        return intents.declare(WORKER, self.run.pk, self.token, uuid.uuid4().hex, self.intent(step, number, **values), begin=begin)

    def tell(self, sent: Permission, verdict: str) -> None:
        effect = sent.effect
        landed = {"external_id": f"{OBJECT}{effect.ordinal}", "amount": effect.amount, "currency": effect.currency}
        outcomes.report(WORKER, effect.pk, 1, verdict, **(landed if verdict == "landed" else {}))

    def land(self, step: str = "order") -> Permission:
        sent = self.send(step)
        self.tell(sent, "landed")
        self.done(step, result={"order": f"{OBJECT}1"})
        return sent

    def end(self, outcome: str = "completed", error: str = "") -> None:
        lifecycle.finish(WORKER, self.run.pk, self.token, outcome, {"orders": 1}, error)

    def cancel(self, **values: Any) -> None:
        cancellation.request_cancel(self.asker, self.run.pk, reason="The customer called it off.", **values)

    def stop(self) -> None:
        cancellation.heard(WORKER, self.run.pk, self.token)
        leases.stopped(WORKER, self.run.pk, self.token)
        cancellation.advance_due()


Story = Callable[[Life], Any]


def plain(life: Life) -> None:
    life.begin()
    life.land()
    life.end()


def labelled(life: Life) -> None:
    life.begin(labels={"customer": CUSTOMER, "region": "eu"})
    life.think()
    life.land()
    life.land("invoice")
    life.end()


def reads_only(life: Life) -> None:
    life.begin()
    life.think()
    life.step("stock", "read")
    life.done("stock", result={"in_stock": 4})
    life.end()


def long_one(life: Life) -> None:
    life.begin()
    for number in range(14):
        life.step(f"read-{number}", "read")
        life.done(f"read-{number}", result={"page": number})
    life.land()
    life.land("invoice")
    life.end()


def refused(life: Life) -> None:
    life.begin()
    life.tell(life.send(), "refused")
    life.done("order", "failed", error="The supplier refused it.")
    life.end("failed", "The supplier refused it.")


def doubted(life: Life) -> None:
    """No clear answer, then a late one."""
    life.begin()
    sent = life.send()
    life.tell(sent, "unknown")
    life.tell(sent, "landed")
    life.done("order")
    life.end()


def family(life: Life) -> None:
    life.begin()
    for _ in range(3):
        life.begin(holder="")
    life.land()
    life.end()
    for child in life.runs[1:]:
        cancellation.request_cancel(life.asker, child.pk)
    children.recount_due()


def confirmed(life: Life) -> None:
    """A person allows the action that a run asks for."""
    life.begin()
    wanted = life.intent("order", next(life.number))
    names = ("provider", "action", "business_ref", "occurrence", "amount", "currency", "request")
    action = {name: getattr(wanted, name) for name in names}
    approval, _ = approvals.request(WORKER, life.run.pk, life.token, approvals.Question("ok", "May it be ordered?", action))
    approvals.decide(life.decider, approval.pk, "approved", "It is in the budget.", approval.digest)
    waiting.wake_due()
    taken = leases.claim(WORKER, HOLDER, [AGENT], ttl_s=600)
    assert taken is not None
    life.token = taken[1].token
    life.land()
    life.end()


def never_began(life: Life) -> None:
    life.begin(holder="")
    life.cancel()


def stopped_between(life: Life) -> None:
    """Cancelled after one action had landed, before the next was sent."""
    life.begin()
    life.land()
    life.send("second", begin=False)
    life.cancel()
    life.stop()


def landed_late(life: Life) -> None:
    """In flight when the cancel came; its answer came after it."""
    life.begin()
    sent = life.send()
    life.cancel()
    life.tell(sent, "landed")
    life.stop()


def stayed_unknown(life: Life) -> None:
    life.begin()
    sent = life.send()
    life.cancel()
    life.tell(sent, "unknown")
    life.stop()


def disagree(life: Life) -> None:
    """Two answers that contradict each other: a case that nobody has claimed."""
    life.begin()
    sent = life.send()
    life.tell(sent, "landed")
    life.tell(sent, "refused")
    life.cancel()
    life.stop()
    ceilings.open_wanted()


def settled_by_hand(life: Life) -> None:
    disagree(life)
    case = Case.objects.get(run=life.run)
    cases.claim(life.asker, case.pk)
    found = {"external_id": f"{OBJECT}1", "seen_where": "provider_dashboard", "seen_at": case.opened_at}
    findings.settle(life.asker, case.pk, Finding("happened", **found))


def terminated(life: Life) -> None:
    life.begin()
    life.land()
    life.send("second", begin=False)
    digest = preview.plan_digest([Run.objects.get(pk=life.run.pk)])
    cancellation.request_cancel(life.asker, life.run.pk, "terminate", "It did not stop.", None, digest)
    cancellation.advance_due()


def asked_to_undo(life: Life) -> uuid.UUID:
    life.begin()
    sent = life.land()
    life.end()
    wanted = Wanted(sent.effect.amount, CURRENCY, "not_wanted", "They sent it back.")
    return compensations.request(life.asker, sent.effect.pk, wanted)[0].pk


def asks_to_undo(life: Life) -> None:
    asked_to_undo(life)


def not_undone(life: Life) -> None:
    compensations.decide(life.decider, asked_to_undo(life), "rejected", 1, "It was used.")


def undone(life: Life) -> None:
    request = asked_to_undo(life)
    compensations.decide(life.decider, request, "approved", 1)
    send = executing.begin(request, uuid.uuid4().hex)
    assert send is not None
    effect = Effect.objects.get(pk=send.operation_id)
    landed = Fact("sender", "landed", external_id=f"{OBJECT}9", amount=effect.amount, currency=effect.currency)
    outcomes.hear(executing.EXECUTOR, effect.pk, send.attempt, landed)


# Runs that are not over


def waits_for_worker(life: Life) -> None:
    life.begin(holder="")


def works(life: Life) -> None:
    life.begin()
    life.land()
    life.step("read", "read", title="Read the answer", hears_cancel_every_s=5)


def writes(life: Life) -> None:
    life.begin()
    life.send()


def waits_for_approver(life: Life) -> None:
    life.begin()
    approvals.request(WORKER, life.run.pk, life.token, approvals.Question("ok", "May it be ordered?", None, {"for": CUSTOMER}))


def waits_for_evidence(life: Life) -> None:
    life.begin()
    life.tell(life.send(), "unknown")
    waiting.suspend(WORKER, life.run.pk, life.token, "evidence")


def stops(life: Life) -> None:
    life.begin()
    life.send()
    life.cancel()


CLOSED: dict[Story, float] = {
    plain: 50, labelled: 12, reads_only: 8, refused: 4, doubted: 3, family: 2, confirmed: 2, never_began: 1.5, stopped_between: 3,
    landed_late: 2, settled_by_hand: 0.8, terminated: 0.3, not_undone: 0.2, undone: 0.5, asks_to_undo: 0.01, stayed_unknown: 0.05,
    disagree: 0.1,
}  # fmt: skip
"""How many of a hundred live each life; `long_one` is as frequent as it takes for the wanted number of events."""
OPEN: dict[Story, float] = {
    works: 50, writes: 6, waits_for_worker: 20, waits_for_approver: 10, waits_for_evidence: 6, stops: 8
}  # fmt: skip
"""The same of those that are not over."""


def very_long(life: Life, items: int) -> None:
    """One run with at least so many items on its timeline."""
    life.begin()
    for number in range(items // 2):
        life.step(f"read-{number}", "read")
        life.done(f"read-{number}", result={"page": number})
        if number % 200 == 0:
            life.land(f"order-{number}")
    life.cancel()
    life.stop()


def cast() -> tuple[Actor, Actor]:
    """The people of the stories, who ask and who decide, and the rule by which they may undo."""
    played = []
    for pk, first, last, group in PEOPLE:
        user, _ = User.objects.get_or_create(
            pk=pk, defaults={"username": f"{first}-{last}".lower(), "first_name": first, "last_name": last}
        )
        user.groups.set([Group.objects.get(name=group)])
        played.append(Actor("person", str(pk), f"{first} {last}", "web", people.scopes_of(user)))
    asker, decider, admin = played
    rulebook.change(admin, PROVIDER, ACTION, CURRENCY, NewTerms(), "What is ordered may be called off.")
    return asker, decider
