"""The account of a run: every work effect in exactly one bucket, counted from the effects themselves, re-issued and never edited."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import Any

from defusedcsv import csv as defused
from django.db.models import Prefetch

from ledger import states
from ledger.lines import effect_line
from ledger.models import Account, Effect, Reliance
from runs import cleanup, transition
from runs.models import Run, Step

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
    return _BUCKET[effect.state]


def _work_effects(run: Run) -> list[Effect]:
    """The run's work effects, each with the cleanup and compensation effects that act on it as `acting`."""
    rows = Effect.objects.filter(run=run, role=states.WORK).order_by("created_at", "operation_id")
    effects: list[Effect] = list(rows.prefetch_related(Prefetch("acted_on_by", to_attr="acting")))
    for effect in effects:
        effect.run = run
        for other in _acting(effect):
            other.run = run
    return effects


def _acting(effect: Effect) -> list[Effect]:
    """What was prefetched as acting on an effect."""
    return getattr(effect, "acting", [])


def draft(run: Run) -> dict[str, Any]:
    """The account as it stands now, not issued: the same shape with `not_sent_yet` and `in_flight`, `version` 0 and `final` false."""
    return _compose(run, version=0, issued_at=transition.clock().isoformat(), names=DRAFT_BUCKETS)


def latest(run: Run) -> dict[str, Any]:
    """The last issued account of a closed run, or a draft of an open one."""
    issued = Account.objects.filter(run=run).order_by("-version").first()
    return issued.body if issued is not None else draft(run)


def issue(run: Run) -> Account:
    """Issue the next version for a locked, closed run. The database refuses one that does not add up."""
    version = Account.objects.filter(run=run).count() + 1
    at = transition.clock()
    body = _compose(run, version, at.isoformat(), BUCKETS)
    counts = Counter(bucket(effect) for effect in _work_effects(run))
    account = Account(
        run=run,
        version=version,
        issued_at=at,
        final=run.is_settled,
        effects_total=run.effects_total,
        body=body,
        **{name: counts[name] for name in BUCKETS},
    )
    account.save()
    return account


def _compose(run: Run, version: int, issued_at: str, names: tuple[str, ...]) -> dict[str, Any]:
    lists: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for effect in _work_effects(run):
        lists[bucket(effect)].append(effect_line(effect) | {"acted_on_by": [effect_line(e) for e in _acting(effect)]})
    steps = Counter(Step.objects.filter(run=run).values_list("state", flat=True))
    relied = Reliance.objects.filter(run=run).select_related("effect__run").order_by("at")
    return {
        "run": run.ref,
        "id": str(run.pk),
        "state": run.state,
        "version": version,
        "issued_at": issued_at,
        "final": version > 0 and run.is_settled,
        **lists,
        "relied_on": [effect_line(r.effect) for r in relied],
        "steps": {name: steps[name] for name in ("done", "failed", "timed_out", "stopped", "discarded")},
        "cleanups": cleanup.lines(run, cleanup.DONE, cleanup.LEFT_BEHIND),
        "cost": {"before_cancel": run.cost_before_cancel, "after_cancel": run.cost_after_cancel},
        "children": (children := [latest(child) for child in run.children.order_by("created_at", "id")]),
        "totals": (totals := {**{name: len(lists[name]) for name in names}, "effects_total": run.effects_total}),
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
