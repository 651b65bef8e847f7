"""What a run is doing right now, what its model calls have cost and how its runtime was told to stop, for the pages. It decides nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from django.db.models import F

from runs.models import Delivery, Run, Step
from runs.wording import duration

Context = dict[str, Any]

SHOWN_MAX = 50
_MICROS = 1_000_000


def now(run: Run) -> Context:
    """The context of `runs/detail.html#doing`."""
    return {
        "steps": running([run.pk]) if not run.is_closed else [],
        "costs": [
            {"when": when, "says": cost_words(cost)}
            for when, cost in (
                ("before the cancel" if run.cancel_position else "", run.cost_before_cancel),
                ("after it", run.cost_after_cancel),
            )
            if cost
        ],
        "delivery": delivery(run),
    }


def running(run_ids: Iterable[uuid.UUID]) -> list[Context]:
    """The steps that a worker is in, of these runs: how far, what it says, when it last answered, whether it can hear a cancel."""
    steps = Step.objects.filter(run__in=list(run_ids), state="running", run__lease_token__isnull=False, epoch=F("run__lease_epoch"))
    return [
        {
            "name": step.title or step.key,
            "run": step.run.ref,
            "percent": round(step.progress * 100) if step.progress is not None else None,
            "message": step.message,
            "answered_at": step.answered_at if step.hears_cancel_every_s is not None else None,
            "hears": hears_words(step.hears_cancel_every_s),
        }
        for step in steps.select_related("run").order_by("run__depth", "started_at")[:SHOWN_MAX]
    ]


def hears_words(every_s: float | None) -> str:
    """Whether a step hears a cancel while it runs, in words."""
    return "can’t hear a cancel: it stops when it ends" if every_s is None else f"hears a cancel within {duration(every_s)}"


def cost_words(cost: dict[str, Any]) -> str:
    """Sums of model calls in words: `0.0123 EUR, 1,200 input tokens`. Whatever else was reported follows as it is."""
    left = dict(cost)
    words = []
    currency, micros = left.pop("currency", ""), left.pop("micros", None)
    if micros is not None:
        words.append(f"{Decimal(str(micros)) / _MICROS:f} {currency}".strip())
    for name, value in left.items():
        amount = f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
        words.append(f"{amount} {name.replace('_', ' ')}"[:100])
    return ", ".join(words)


def delivery(run: Run) -> Context | None:
    """How the runtime in which the run executes was told of the cancel."""
    found = Delivery.objects.filter(run=run).first() if run.runtime and run.cancel_position is not None else None
    if found is None:
        return None
    return {"runtime": found.runtime, "state": found.state, "why": found.why, "tries": found.tries}
