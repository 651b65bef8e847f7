"""Short ways to bring a real run into a given situation, through the domain's own verbs. Nothing here writes rows."""

from __future__ import annotations

import uuid
from typing import Any

from ledger import intents
from ledger.intents import Intent, Permission
from runs import actors, leases, lifecycle, steps
from runs.actors import Actor
from runs.lifecycle import NewRun
from runs.models import Run

WORKER = Actor("machine", "tok1", "worker token", "api", actors.MACHINE_SCOPES, frozenset({"*"}))
SUPPORT = Actor(
    "person", "u-support", "Sam Support", "web", frozenset({actors.RUN_READ, actors.RUN_CANCEL, actors.CASE_READ, actors.CASE_SETTLE})
)
ADMIN = Actor("person", "u-admin", "Ada Admin", "web", SUPPORT.scopes | {actors.RUN_TERMINATE})


def nonce() -> str:
    return uuid.uuid4().hex


def new_run(holder: str = "w-1", ttl_s: float = 30.0, **values: Any) -> tuple[Run, str]:
    """A run that is claimed by `holder` (or only scheduled, with holder ''), and its lease token."""
    new = NewRun(**({"agent": "purchase-order", "title": "Order", "input": {}} | values))
    made = lifecycle.create(WORKER, new, holder=holder, ttl_s=ttl_s)
    return made.run, made.grant.token if made.grant else ""


def step(run: Run, token: str, key: str = "order", **values: Any) -> None:
    steps.start(WORKER, run.pk, token, steps.NewStep(key=key, **values))


def intent(ref: str = "PO-1042", **values: Any) -> Intent:
    return Intent(
        **(
            {
                "step": "order",
                "provider": "supplier",
                "action": "create_order",
                "business_ref": ref,
                "request": {"lines": [1]},
                "amount": 12500,
                "currency": "EUR",
            }
            | values
        )
    )


def send(run: Run, token: str, mine: str | None = None, begin: bool = True, **values: Any) -> Permission:
    """Start the step and declare (and begin) an effect in it."""
    wanted = intent(**values)
    step(run, token, wanted.step)
    return intents.declare(WORKER, run.pk, token, mine or nonce(), wanted, begin=begin)


def fresh(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def claim(holder: str = "w-2", **values: Any) -> tuple[Run, str]:
    taken = leases.claim(WORKER, holder, ["purchase-order"], **values)
    assert taken is not None, "nothing to claim"
    return taken[0], taken[1].token
