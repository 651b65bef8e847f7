"""What happened to some runs, as plain data: what the invariants (`reconciliation/invariants.py`) are judged on. It only reads."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction

from ledger.models import Account, Attempt, Compensation, CompensationDecision, Effect, Evidence
from reconciliation.models import Case
from runs.models import Approval, CancelRequest, Event, Lease, Run

Row = dict[str, Any]
_RENAMED = {"run_id": "run", "effect_id": "effect", "compensation_id": "compensation"}


@dataclass
class History:
    """Rows are dictionaries with the columns of the tables; `run` and `effect` hold the ids that they refer to."""

    runs: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    effects: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    evidence: list[Row] = field(default_factory=list)
    leases: list[Row] = field(default_factory=list)
    cancels: list[Row] = field(default_factory=list)
    approvals: list[Row] = field(default_factory=list)
    compensations: list[Row] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)
    cases: list[Row] = field(default_factory=list)
    accounts: list[Row] = field(default_factory=list)

    def told(self) -> dict[Any, list[Row]]:
        """The events of each run, in order."""
        return grouped(sorted(self.events, key=lambda e: e["seq"]), "run")


def grouped(rows: Iterable[Row], name: str) -> dict[Any, list[Row]]:
    """Rows by one of their columns; what has none is an empty list."""
    found: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        found[row[name]].append(row)
    return found


def export(run_ids: Iterable[uuid.UUID] | None = None) -> dict[str, list[Row]]:
    """The fields of a `History` of these runs (of all, without ids), as the caller's transaction sees them."""
    runs = Run.objects.all() if run_ids is None else Run.objects.filter(pk__in=list(run_ids))
    ids = list(runs.values_list("pk", flat=True))
    of_them = {
        "events": Event,
        "effects": Effect,
        "attempts": Attempt,
        "leases": Lease,
        "cancels": CancelRequest,
        "approvals": Approval,
        "compensations": Compensation,
        "cases": Case,
        "accounts": Account,
    }
    found = {name: _rows(model, run__in=ids) for name, model in of_them.items()}
    found["decisions"] = _rows(CompensationDecision, compensation__run__in=ids)
    return {"runs": _rows(Run, pk__in=ids), "evidence": _rows(Evidence, effect__run__in=ids), **found}


def read(run_ids: Iterable[uuid.UUID]) -> History:
    """The history of these runs at one moment: every statement sees the same snapshot, so that no change is seen by halves."""
    with transaction.atomic(durable=True):
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '60s'")  # it reads only: nobody waits for it
        return History(**export(run_ids))


def _rows(model: Any, **where: Any) -> list[Row]:
    found = model.objects.filter(**where).values(*[f.attname for f in model._meta.concrete_fields])
    return [{_RENAMED.get(name, name): value for name, value in row.items()} for row in found]
