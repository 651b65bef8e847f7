"""Small helpers that the SDK's tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from countermand import Countermand, Op, Run


class Supplier:
    """Stands for a provider: counts what reaches it and does as it is told."""

    def __init__(self, does: Callable[[Op], Any] | None = None) -> None:
        self.sent: list[Op] = []
        self.does = does or (lambda op: {"id": f"S-{len(self.sent)}"})

    def __call__(self, op: Op) -> Any:
        self.sent.append(op)
        return self.does(op)


def order(run: Run, send: Callable[[Op], Any], **options: Any) -> Any:
    """The effect most tests cause."""
    what = {"ref": "PO-1042", "amount": 12500, "currency": "EUR", "request": {"lines": 1}}
    return run.effect("supplier", "create_order", send=send, **{**what, **options})


def ends(cm: Countermand, plan: Callable[[Run], Any]) -> str | None:
    """Register the plan as `agent`, claim one run and run it to its end; returns how it ended."""
    cm.agent("agent")(plan)
    return cm.claim_once()
