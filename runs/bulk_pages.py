"""What the pages show of a bulk cancel: what a selection would meet, and one line a run of what it met. It decides nothing."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from runs import bulk, states
from runs.models import BulkCancel, BulkLine, Run
from runs.wording import count

Context = dict[str, Any]
LINES = 100

ANSWERS = {
    "accepted": "accepted",
    "repeat": "already cancelling",
    "already_closed": "already closed",
    "not_allowed": "not allowed",
    "not_found": "not found",
    "failed": "failed",
    "open": "still to do",
}

_STOPPING = Q(cancel_position__isnull=False, closed_at__isnull=True)
_OVER = Q(closed_at__isnull=False) | Q(state=states.FAILING)


def split(found: QuerySet[Run]) -> list[str]:
    """What the runs of a selection are doing, in groups that add up: `31 can be cancelled`, `4 have actions in flight` …"""
    rows = found.order_by()[: bulk.RUNS_MAX + 1].values_list("pk", flat=True)
    chosen = Run.objects.filter(pk__in=list(rows))
    free = chosen.exclude(_STOPPING).exclude(_OVER)
    groups = (
        (free.filter(in_flight=0), "can be cancelled", "can be cancelled"),
        (free.filter(in_flight__gt=0), "has actions in flight", "have actions in flight"),
        (chosen.filter(_STOPPING), "is already cancelling", "already cancelling"),
        (chosen.filter(_OVER), "is already closed", "already closed"),
    )
    return [f"{number:,} {one if number == 1 else many}" for group, one, many in groups if (number := group.count())]


def progress(job: BulkCancel, after: int = 0) -> Context:
    """The context of `runs/bulk/progress.html`: sums that add up and a page of lines."""
    sums = bulk.sums(job)
    lines = list(BulkLine.objects.filter(job=job, number__gt=after).select_related("run").order_by("number")[: LINES + 1])
    return {
        "job": {"id": str(job.pk), "by": job.actor["name"], "reason": job.reason, "asked_at": job.asked_at, "finished_at": job.finished_at},
        "total": count(sums["total"], "run"),
        "sums": [{"name": words, "count": sums[key]} for key, words in ANSWERS.items() if sums[key]],
        "done": sums["total"] - sums["open"],
        "of": sums["total"],
        "lines": [
            {
                "number": line.number,
                "asked_for": line.asked_for,
                "run": line.run,
                "answer": ANSWERS[line.answer or "open"],
                "detail": line.detail,
            }
            for line in lines[:LINES]
        ],
        "next": lines[LINES - 1].number if len(lines) > LINES else None,
        "after": after,
    }
