"""Judges the records of a live database by the invariants, a little after they change, and keeps what disagrees until it is explained.

A discrepancy that a later check does not find any more is cleared; what history itself shows never clears and is set aside by a person.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

from django.db import connection, transaction
from django.db.models import Q

from reconciliation import invariants, records
from reconciliation.models import Discrepancy, IntegrityCheck
from runs import actors, states, timeline, transition
from runs.actors import Actor
from runs.errors import Invalid, NotFound
from runs.models import Run
from runs.turns import take_turn

log = logging.getLogger(__name__)

CHECKER = actors.system("integrity")
EVENTS_MAX = 20_000  # of one sweep
CHUNK = 200  # runs that are read at once
LONG = 2000  # events: an open run with more is judged when it stops, not after each of its steps
CHAINS = "chains"
RUNS_KEPT = 10_000

Found = tuple[str, uuid.UUID | None, str]
"""The invariant, the run (None for the history as a whole), a sentence."""

_SAFE = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
_TOUCHED = """
SELECT run_id, tx::text, id FROM runs_event
WHERE (tx, id) > (%s::text::xid8, %s::bigint) AND tx < %s::text::xid8 ORDER BY tx, id LIMIT %s
"""


def check_recent() -> int:
    """Judge the runs that changed since the last check, and those with an open discrepancy. Returns how many discrepancies are open."""
    began = transition.clock()
    with connection.cursor() as cursor:
        cursor.execute(_SAFE)
        safe = cursor.fetchone()[0]
        last = IntegrityCheck.objects.filter(kind="recent").order_by("-id").first()
        tx, event_id = (str(last.tx), last.event_id) if last and (last.tx or 0) <= int(safe) else (safe, 0)
        cursor.execute(_TOUCHED, (tx, event_id, safe, EVENTS_MAX))
        rows = cursor.fetchall()
    if rows:
        tx, event_id = rows[-1][1], rows[-1][2]
    touched = {run for run, _, _ in rows if run is not None}
    due = _worth_judging(touched) | set(_open().filter(run__isnull=False).exclude(invariant=CHAINS).values_list("run", flat=True))
    found = check(due)
    _keep("recent", began, len(due), len(found), int(tx), event_id)
    return open_count()


def _worth_judging(touched: Iterable[uuid.UUID]) -> set[uuid.UUID]:
    still = Q(state__in=[*states.CLOSED, *states.STOPPING]) | Q(version__lte=LONG)
    return set(Run.objects.filter(still, pk__in=list(touched)).values_list("pk", flat=True))


def check_all() -> int:
    """Judge every run. Returns how many violations were found."""
    began, checked, total, after = transition.clock(), 0, 0, uuid.UUID(int=0)
    while ids := list(Run.objects.filter(pk__gt=after).order_by("pk").values_list("pk", flat=True)[:CHUNK]):
        total += len(check(ids))
        checked, after = checked + len(ids), ids[-1]
    _keep("all", began, checked, total)
    return total


def check(run_ids: Iterable[uuid.UUID]) -> list[Found]:
    """Judge these runs, keep what is found and clear what is not found any more."""
    found: list[Found] = []
    for ids in _chunks(sorted(run_ids)):
        of_these = invariants.violations(records.read(ids))
        found += of_these
        _record(of_these, _open().filter(run__in=ids).exclude(invariant=CHAINS))
    return found


def _chunks(ids: Iterable[uuid.UUID]) -> Iterator[list[uuid.UUID]]:
    rest = iter(ids)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def record_chains(began: datetime, checked: int, found: Iterable[tuple[uuid.UUID | None, str]]) -> None:
    """Keep what a verification of the chains found."""
    told: list[Found] = [(CHAINS, run, sentence) for run, sentence in found]
    _record(told, _open().filter(invariant=CHAINS))
    _keep(CHAINS, began, checked, len(told))


def _record(found: list[Found], judged: Any) -> None:
    """New discrepancies are told once; those among `judged` that were not found again are cleared."""
    now = transition.clock()
    first: dict[tuple[str, uuid.UUID | None], str] = {}
    for invariant, run, sentence in found:
        first.setdefault((invariant, run), sentence)
    with transaction.atomic(durable=True):
        take_turn("what is found in the records")
        for one in judged.select_for_update():
            if (one.invariant, one.run_id) not in first:
                one.cleared_at, one.cleared_why = now, "A later check found nothing."
                one.save()
                timeline.append_system("integrity.cleared", CHECKER, one.ref, {"invariant": one.invariant})
        for (invariant, run), sentence in first.items():
            _tell(invariant, run, sentence, now)


def _tell(invariant: str, run: uuid.UUID | None, sentence: str, now: datetime) -> None:
    known = Discrepancy.objects.filter(invariant=invariant, run=run, sentence=sentence).order_by("-found_at").first()
    if known is not None and known.cleared_by:
        return  # a person has set it aside
    if Discrepancy.objects.filter(invariant=invariant, run=run, cleared_at__isnull=True).update(seen_at=now):
        return
    made = Discrepancy.objects.create(invariant=invariant, run_id=run, sentence=sentence, found_at=now, seen_at=now)
    data = {"invariant": invariant, "run": str(run) if run else None, "sentence": sentence}
    timeline.append_system("integrity.broken", CHECKER, made.ref, data)
    log.error("Records disagree (%s, %s): %s", made.ref, invariant, sentence)


def set_aside(actor: Actor, ref: str, reason: str) -> Discrepancy:
    """A person has looked into it: the banner goes, the record and their reason stay. Raises `NotFound`, `Invalid`."""
    if not reason.strip():
        raise Invalid("Say why it may be set aside.", field="reason")
    with transaction.atomic(durable=True):
        one = _open().select_for_update().filter(ref=ref).first()
        if one is None:
            raise NotFound(f"No open discrepancy is called {ref[:60]}.")
        one.cleared_at, one.cleared_by, one.cleared_why = transition.clock(), actor.name, reason
        one.save()
        timeline.append_system("integrity.set_aside", actor, one.ref, {"reason": reason})
        return one


def _keep(kind: str, began: datetime, checked: int, found: int, tx: int | None = None, event_id: int | None = None) -> None:
    IntegrityCheck.objects.create(kind=kind, began_at=began, checked=checked, found=found, tx=tx, event_id=event_id)
    old = IntegrityCheck.objects.filter(kind=kind).order_by("-id").values_list("id", flat=True)[RUNS_KEPT : RUNS_KEPT + 1]
    IntegrityCheck.objects.filter(kind=kind, id__lte=list(old)[0] if old else 0).delete()


# What is shown of it


def _open() -> Any:
    return Discrepancy.objects.filter(cleared_at__isnull=True)


def open_count() -> int:
    """How many discrepancies are open: the gauge of the metrics (0 is well)."""
    return int(_open().count())


def last_check(kind: str = "recent") -> IntegrityCheck | None:
    """The last check of that kind, or None."""
    return IntegrityCheck.objects.filter(kind=kind).order_by("-id").first()


def open_ones(limit: int = 50) -> list[Discrepancy]:
    """The open discrepancies, oldest first."""
    return list(_open().select_related("run").order_by("found_at")[:limit])


_NOT_STOPPED = "Treat this run as not stopped."
_NOT_TRUE = "Do not rely on its account until this is explained."
_SAYS = {
    "I1": ("something started after the cancel of {run}", _NOT_STOPPED),
    "quiet": ("an action started after quiet on {run}", _NOT_STOPPED),
    "I2": ("the receipt of {run} is not what was in flight", _NOT_STOPPED),
    "I3": ("something acted on {run} under a lease that was over", _NOT_STOPPED),
    "I4": ("a state of {run} moved as it may not", _NOT_TRUE),
    "I5": ("{run} began to send an action again before it was safe", "Look for it twice at the provider."),
    "I6": ("{run} says that an action did not happen, without proof", "Treat that action as unknown."),
    "I7": ("{run} sent an undo that not enough people had approved", "Look for it at the provider."),
    "I8": ("the counts of {run} are not what its actions say", _NOT_TRUE),
    "I9": ("{run} sent something of which there is no record", _NOT_STOPPED),
    "I11": ("two records of {run} claim the same action", _NOT_TRUE),
    "I13": ("a cancel of {run} has no place in its history", _NOT_STOPPED),
    "I14": ("the account of {run} does not add up", _NOT_TRUE),
    "I15": ("a decision about {run} has no record", _NOT_TRUE),
    CHAINS: ("the sealed history of {run} was changed", "Rely on no record of it until this is explained."),
}


def banner(told: bool = True) -> str:
    """The sentence for every page while records disagree, or ''. `told`: whether there is anybody to whom it is sent."""
    found = open_ones(1)
    if not found:
        return ""
    one, others = found[0], open_count() - 1
    what, remedy = _SAYS.get(one.invariant, ("two records of {run} contradict each other", _NOT_TRUE))
    name = one.run.ref if one.run else "this installation"
    more = f" {others} more {'is' if others == 1 else 'are'} open." if others else ""
    engineers = "Engineers were told" if told else "Tell your engineers"
    return f"Records disagree: {what.format(run=name)}. {remedy} {engineers} ({one.ref}).{more}"
