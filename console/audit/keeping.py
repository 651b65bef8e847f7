"""What speaks for the history between two looks of a person: anchors kept outside, records judged, chains verified once a day."""

from __future__ import annotations

import uuid
from datetime import timedelta
from pathlib import Path

from django.conf import settings

from console.audit import chains
from console.audit.verifier import Anchors, Bad, read_anchors
from reconciliation import integrity
from runs import anchors, transition
from runs.ids import parse_uuid
from runs.models import Run

CHAINS_EVERY = timedelta(days=1)


def keep_anchors() -> int:
    """Keep the heads that are due. A file that contradicts the database is a discrepancy, and is left as it is."""
    try:
        return anchors.keep()
    except anchors.AnchorsDisagree as wrong:
        integrity.record_chains(transition.clock(), 0, [(None, str(wrong))])
        raise


def check_records() -> int:
    """Judge what changed lately; verify the chains when that was not done for a day. Returns how many discrepancies are open."""
    last = integrity.last_check(integrity.CHAINS)
    if last is None or last.began_at < transition.clock() - CHAINS_EVERY:
        verify_chains()
    return integrity.check_recent()


def verify_chains() -> chains.Report:
    """Verify every chain against its seals and the anchor file, and keep what is bad as discrepancies."""
    began = transition.clock()
    report = chains.verify_all(_anchors())
    integrity.record_chains(began, report.count.streams, [(_run_of(bad), str(bad)) for bad in report.bad])
    return report


def _anchors() -> Anchors | None:
    path = Path(settings.ANCHOR_FILE) if settings.ANCHOR_FILE else None
    if path is None or not path.exists():
        return None
    with path.open(encoding="utf-8") as lines:
        return read_anchors(lines)


def _run_of(bad: Bad) -> uuid.UUID | None:
    """The run of a stream, unless it is gone or no run's."""
    pk = parse_uuid(bad.stream)
    return pk if pk is not None and Run.objects.filter(pk=pk).exists() else None
