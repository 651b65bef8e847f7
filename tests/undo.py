"""Landed effects at a provider that can undo them, rules that allow it, and people who may ask and approve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from ledger import compensations, executing, rulebook
from ledger.models import Compensation, Effect
from ledger.prospects import Wanted
from ledger.rulebook import NewTerms
from runs import lifecycle, people
from runs.actors import Actor
from runs.models import Run
from tests import platform
from tests.fakes import FAKE, FakeProvider, refunds
from tests.makers import ADMIN, APPROVER, APPROVER2, OTHER, SUPPORT, WORKER, again, new_run, send, tell

TERMS = NewTerms(max_amount=1000000, days_after_landing=30, approvals=1, second_from=500000)


@dataclass
class Known:
    """A directory of people that a test may change (`runs.people.Directory`)."""

    actors: list[Actor] = field(default_factory=lambda: [SUPPORT, OTHER, ADMIN, APPROVER, APPROVER2])

    def person(self, person_id: str) -> Actor | None:
        return next((one for one in self.actors if one.id == person_id), None)

    def who_may(self, scope: str) -> list[Actor]:
        return [one for one in self.actors if one.may(scope)]

    def leaves(self, actor: Actor) -> None:
        """Nobody of that name may do anything any more."""
        self.actors.remove(actor)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    """The people of the makers, instead of accounts."""
    made = Known()
    monkeypatch.setattr(people, "_directory", made)
    return made


@pytest.fixture
def refunding(fake: FakeProvider, known: Known, database: None) -> Iterator[FakeProvider]:
    """The provider `fake` gives charges back, whole or in part; a rule allows it."""
    fake.promise(compensable={"charge": "refund"}, partly_compensable=["charge"])
    fake.undo_answer = refunds
    allow()
    yield fake


def allow(new: NewTerms = TERMS, currency: str = "EUR", action: str = "charge", provider: str = FAKE) -> None:
    rulebook.change(ADMIN, provider, action, currency, new, "the rule of the tests")


def landed(
    ref: str = "PO-1", amount: int | None = 10000, currency: str = "EUR", closed: bool = False, action: str = "charge"
) -> tuple[Run, Effect]:
    """A charge that has landed, and its run."""
    run, token = new_run()
    sent = send(run, token, ref=ref, provider=FAKE, action=action, amount=amount, currency=currency if amount is not None else "")
    tell(sent, "landed", external_id=f"CH-{ref}")
    if closed:
        lifecycle.finish(WORKER, run.pk, token, "completed", {})
    return run, again(sent)


def wish(amount: int | None = 10000, currency: str = "EUR", **values: Any) -> Wanted:
    return Wanted(**({"amount": amount, "currency": currency if amount is not None else "", "reason": "duplicate"} | values))


def ask(effect: Effect, amount: int | None = 10000, actor: Actor = SUPPORT, **values: Any) -> Compensation:
    return compensations.request(actor, effect.pk, wish(amount, **values))[0]


def approve(request: Compensation, actor: Actor = APPROVER) -> Compensation:
    return compensations.decide(actor, request.pk, "approved", request.version)


def approved(effect: Effect, amount: int | None = 10000, **values: Any) -> Compensation:
    return approve(ask(effect, amount, **values))


def undo(effect: Effect, amount: int | None = 10000) -> Compensation:
    """Asked for, approved and carried out."""
    request = approved(effect, amount)
    assert executing.execute(request.pk)
    return now(request)


def now(request: Compensation) -> Compensation:
    return Compensation.objects.select_related("effect", "original").get(pk=request.pk)


def tamper(sql: str, *parameters: Any) -> None:
    """What somebody does with SQL who owns the database: no guard holds."""
    with psycopg.connect(platform.OWNER_URL) as owner:
        owner.execute("SET LOCAL session_replication_role = replica")
        assert owner.execute(sql, parameters).rowcount == 1  # type: ignore[call-overload]
