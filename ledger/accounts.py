"""The account of a run: every work effect in exactly one bucket, counted from the effects themselves, re-issued and never edited."""

from __future__ import annotations

import csv
import io
import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from defusedcsv import csv as defused
from django.db.models import Count, Prefetch

from ledger import prospects, states
from ledger.lines import effect_line
from ledger.models import Account, Effect, Reliance, Reversal
from runs import cleanup, transition
from runs.inserting import insert_all
from runs.models import Cleanup, Run, Step

BUCKETS = ("stopped", "landed", "undone", "cleaned_up", "did_not_happen", "unknown")
DRAFT_BUCKETS = (*BUCKETS, "not_sent_yet", "in_flight")

_BUCKET = {
    states.WITHHELD: "stopped",
    states.LANDED: "landed",
    states.DUPLICATED: "landed",
    states.REVERSED: "undone",
    states.REFUSED: "did_not_happen",
    states.ABSENT: "did_not_happen",
    states.PENDING: "unknown",
    states.UNKNOWN: "unknown",
    states.AMBIGUOUS: "unknown",
    states.CONFLICTED: "unknown",
    states.DECLARED: "not_sent_yet",
    states.SENDING: "in_flight",
}


def bucket(effect: Effect) -> str:
    """The bucket of a work effect: total over every state and what acted on it; declared and sending appear in drafts only."""
    if effect.state in states.LANDED_LIKE and any(e.role == states.CLEANUP and e.state == states.LANDED for e in _acting(effect)):
        return "cleaned_up"
    if prospects.is_undone(effect, _acting(effect), _reversals(effect)):
        return "undone"
    return _BUCKET[effect.state]


@dataclass
class Belongings:
    """What belongs to one run's account, read for several runs at once."""

    effects: list[Effect] = field(default_factory=list)
    relied_on: list[Effect] = field(default_factory=list)
    steps: Counter[str] = field(default_factory=Counter)
    cleanups: list[dict[str, Any]] = field(default_factory=list)
    children: list[Run] = field(default_factory=list)
    versions: int = 0


def _gather(runs: list[Run]) -> dict[uuid.UUID, Belongings]:
    """The belongings of the runs. One that never had a lease has none, and costs no query."""
    found = {run.pk: Belongings() for run in runs}
    for issued in Account.objects.filter(run__in=found).values("run").annotate(n=Count("id")):
        found[issued["run"]].versions = issued["n"]
    by_id = {run.pk: run for run in runs if run.lease_epoch}
    if not by_id:
        return found
    rows = Effect.objects.filter(run__in=by_id, role=states.WORK).order_by("created_at", "operation_id")
    for effect in rows.prefetch_related(*ACTING):
        effect.run = by_id[effect.run_id]
        for other in _acting(effect):
            other.run = effect.run
        found[effect.run_id].effects.append(effect)
    for step in Step.objects.filter(run__in=by_id).values("run", "state").annotate(n=Count("id")):
        found[step["run"]].steps[step["state"]] = step["n"]
    for reliance in Reliance.objects.filter(run__in=by_id).select_related("effect__run").order_by("at"):
        found[reliance.run_id].relied_on.append(reliance.effect)
    for item in Cleanup.objects.filter(run__in=by_id, state__in=[cleanup.DONE, cleanup.LEFT_BEHIND]).order_by("order", "registered_at"):
        found[item.run_id].cleanups.append(cleanup.line(item))
    for child in Run.objects.filter(parent__in=by_id).order_by("created_at", "id"):
        if child.parent_id is not None:
            found[child.parent_id].children.append(child)
    return found


ACTING = (Prefetch("acted_on_by", to_attr="acting"), Prefetch("reversals", to_attr="reversed_elsewhere"))
"""What `bucket` must find on an effect."""


def _acting(effect: Effect) -> list[Effect]:
    """What was prefetched as acting on an effect."""
    return getattr(effect, "acting", [])


def _reversals(effect: Effect) -> list[Reversal]:
    return getattr(effect, "reversed_elsewhere", [])


def draft(run: Run) -> dict[str, Any]:
    """The account as it stands now, not issued: the same shape with `not_sent_yet` and `in_flight`, `version` 0 and `final` false."""
    return _compose(run, _gather([run])[run.pk], version=0, issued_at=transition.clock().isoformat(), names=DRAFT_BUCKETS)


def latest(run: Run) -> dict[str, Any]:
    """The last issued account of a closed run, or a draft of an open one."""
    return _latest([run])[0]


def _latest(runs: list[Run]) -> list[dict[str, Any]]:
    issued = Account.objects.filter(run__in=[run.pk for run in runs]).order_by("run_id", "-version").distinct("run_id")
    bodies = {account.run_id: account.body for account in issued}
    return [bodies[run.pk] if run.pk in bodies else draft(run) for run in runs]


def issue(runs: Iterable[Run]) -> list[Account]:
    """Issue the next version for each of these locked, closed runs. The database refuses one that does not add up."""
    closed = list(runs)
    belongings, at = _gather(closed), transition.clock()
    accounts = []
    for run in closed:
        mine = belongings[run.pk]
        counts = Counter(bucket(effect) for effect in mine.effects)
        accounts.append(
            Account(
                run=run,
                version=mine.versions + 1,
                issued_at=at,
                final=run.is_settled,
                effects_total=run.effects_total,
                body=_compose(run, mine, mine.versions + 1, at.isoformat(), BUCKETS),
                **{name: counts[name] for name in BUCKETS},
            )
        )
    insert_all(accounts)
    return accounts


def _compose(run: Run, mine: Belongings, version: int, issued_at: str, names: tuple[str, ...]) -> dict[str, Any]:
    lists: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for effect in mine.effects:
        lists[bucket(effect)].append(effect_line(effect) | {"acted_on_by": [effect_line(e) for e in _acting(effect)]})
    children = _latest(mine.children) if mine.children else []
    totals = {**{name: len(lists[name]) for name in names}, "effects_total": run.effects_total}
    return {
        "run": run.ref,
        "id": str(run.pk),
        "state": run.state,
        "version": version,
        "issued_at": issued_at,
        "final": version > 0 and run.is_settled,
        **lists,
        "relied_on": [effect_line(effect) for effect in mine.relied_on],
        "steps": {name: mine.steps[name] for name in ("done", "failed", "timed_out", "stopped", "discarded")},
        "cleanups": mine.cleanups,
        "cost": {"before_cancel": run.cost_before_cancel, "after_cancel": run.cost_after_cancel},
        "children": children,
        "totals": totals,
        "combined": _combined(totals, children),
    }


def _combined(own: dict[str, int], children: list[dict[str, Any]]) -> dict[str, int]:
    """The totals of the run and everything below it."""
    sums = Counter(own)
    for child in children:
        sums.update(child["combined"])
    return dict(sums)


def as_csv(account: dict[str, Any]) -> str:
    """The account as CSV, one line an effect, safe to open in a spreadsheet. Amounts are integers of minor units."""
    out = io.StringIO()
    writer = defused.writer(out, quoting=csv.QUOTE_MINIMAL)
    columns = (
        "bucket", "ref", "provider", "action", "business_ref", "occurrence", "amount_minor", "currency", "state",
        "landed_amount_minor", "external_id", "how_we_know", "known_by", "confirmed_relative_to_cancel", "operation_id",
    )  # fmt: skip
    writer.writerow(columns)
    for name in DRAFT_BUCKETS:
        for line in account.get(name, []):
            line = line | {"bucket": name, "amount_minor": line["amount"], "landed_amount_minor": line["landed_amount"]}
            writer.writerow(["" if line[c] is None else line[c] for c in columns])
    return out.getvalue()
