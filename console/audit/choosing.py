"""Which events an auditor's filters choose, so that every one of them is answered through an index. It only reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import connection
from django.db.models import Exists, F, OuterRef, Q, QuerySet, TextField, UUIDField
from django.db.models.expressions import Combinable
from django.db.models.functions import Lower

from console.audit.filters import Wanted
from ledger.models import Effect
from runs.actors import Actor
from runs.models import COMMON_KINDS, TIME_TO_QUIET, Event, Run
from runs.planning import FEW, OneOf

KINDS_MAX = 300
_NOT_INDEXED = F("at") + timedelta(0)  # few rows are to be collected and sorted, not met one by one in the order of time
UNKNOWN_RUN = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True)
class Chosen:
    """The events that are wanted, in no order. `at`: their time, to be sorted by; `many`: what they are about is looked up for each of
    them, so counting them all would take long; `more_than`: a number that they exceed as far as is known."""

    rows: QuerySet[Event]
    at: Combinable = F("at")
    many: bool = False
    more_than: int = 0


@dataclass(frozen=True)
class _About:
    """A condition on what an event is about; `many` when it holds for more than `FEW` runs or actions."""

    condition: Q
    many: bool


def events(actor: Actor, wanted: Wanted) -> Chosen:
    """The events that are wanted."""
    rows, about = _by_their_own(actor, wanted), [one for one in (_actions(wanted), _runs(wanted)) if one is not None]
    for one in about:
        rows = rows.filter(one.condition)
    nothing_else = Wanted(**{name: getattr(wanted, name) for name in _OF_ACTIONS + _OF_RUNS}) == wanted
    few, many = any(not one.many for one in about), any(one.many for one in about)
    return Chosen(rows, _NOT_INDEXED if few else F("at"), many, FEW if many and nothing_else and len(about) == 1 else 0)


def _by_their_own(actor: Actor, wanted: Wanted) -> QuerySet[Event]:
    """Narrowed by what stands in an event itself."""
    found = Event.objects.all()
    if wanted.since:
        found = found.filter(at__gte=wanted.since)
    if wanted.until:
        found = found.filter(at__lt=wanted.until)
    if wanted.people:
        found = found.filter(actor_type="person")
    if wanted.actor:
        found = found.filter(_by(actor, wanted.actor))
    if wanted.kind:
        found = found.filter(kind__in=kinds_of(wanted.kind))
    if wanted.state:
        found = found.filter(kind=wanted.state)
    if wanted.run:
        found = found.filter(run=Run.objects.filter(ref=wanted.run).values_list("pk", flat=True).first() or UNKNOWN_RUN)
    if wanted.effect:
        of = Effect.objects.filter(ref=wanted.effect).values_list("run", flat=True).first()
        found = found.filter(run=of or UNKNOWN_RUN, subject=wanted.effect)
    return found


def _by(actor: Actor, who: str) -> Q:
    """A person by id, name or username; anybody else by id. A person who is not found may have had that name once.

    Each answer goes to one index, in the order of time, so it is settled here which one has something.
    """
    if who == "me":
        return Q(actor_type="person", actor_id=actor.id)
    full = Lower("first_name"), Lower("last_name")
    named = User.objects.annotate(first=full[0], last=full[1]).filter(Q(username__iexact=who) | Q(**_split(who)))
    ids = [str(pk) for pk in named.values_list("pk", flat=True)]
    if ids:
        return Q(actor_type="person", actor_id__in=ids)
    machine = ~Q(actor_type="person")
    choices = [Q(actor_type="person", actor_id=who), Q(actor_type="person", actor_name=who), machine & Q(actor_id=who)]
    choices.append(machine & Q(actor_id=who.lower()))
    return next((one for one in choices if Event.objects.filter(one).exists()), choices[0])


def _split(who: str) -> dict[str, str]:
    first, _, last = who.lower().partition(" ")
    return {"first": first, "last": last}


# Events by what they are about: from the runs or actions to their events when those are few, else from the events, newest first,
# to whether each is about one of them. The one is slow with many, the other with few.

_OF_ACTIONS, _OF_RUNS = ("provider", "currency", "amount_from", "amount_to"), ("quiet_over",)


def _actions(wanted: Wanted) -> _About | None:
    """About actions at that provider, of that amount."""
    if not (wanted.provider or wanted.currency):
        return None
    amounts = {"amount__gte": wanted.amount_from, "amount__lte": wanted.amount_to}
    asked = {"provider": wanted.provider, "currency": wanted.currency} | amounts
    actions = Effect.objects.filter(**{name: value for name, value in asked.items() if value not in ("", None)})
    told = list(actions.values_list("run", "ref")[: FEW + 1])
    if len(told) > FEW:
        named = Q(subject__startswith="E-")  # most events name no action: those need not be looked up
        return _About(named & Q(Exists(actions.filter(ref=OuterRef("subject")))), many=True)
    of_runs = OneOf("run_id", list({run for run, _ in told}), UUIDField())
    return _About(Q(of_runs) & Q(OneOf("subject", [ref for _, ref in told], TextField())), many=False)


def _runs(wanted: Wanted) -> _About | None:
    """About runs that took so long to be quiet."""
    if wanted.quiet_over is None:
        return None
    stopped = Run.objects.filter(asked_at__isnull=False, quiet_at__isnull=False).alias(took=TIME_TO_QUIET)
    runs = stopped.filter(took__gt=timedelta(seconds=wanted.quiet_over))
    ids = list(runs.values_list("pk", flat=True)[: FEW + 1])
    if len(ids) > FEW:
        return _About(Q(Exists(runs.filter(pk=OuterRef("run_id")))), many=True)
    return _About(Q(OneOf("run_id", ids, UUIDField())), many=False)


_RARE = """
WITH RECURSIVE found AS (
    (SELECT kind FROM runs_event WHERE {rare} ORDER BY kind LIMIT 1)
    UNION ALL
    SELECT (SELECT e.kind FROM runs_event e WHERE {rare} AND e.kind > found.kind ORDER BY e.kind LIMIT 1)
    FROM found WHERE found.kind IS NOT NULL
)
SELECT kind FROM found WHERE kind IS NOT NULL LIMIT %s
"""


def kinds() -> list[str]:
    """Every kind that was ever recorded, by hopping along the index of the rare ones."""
    common = ", ".join(f"'{kind}'" for kind in COMMON_KINDS)
    rare = f"NOT (kind IN ({common}))"  # as the index says it
    with connection.cursor() as cursor:
        cursor.execute(_RARE.format(rare=rare), (KINDS_MAX,))
        return sorted({kind for (kind,) in cursor.fetchall()} | set(COMMON_KINDS))


def kinds_of(word: str) -> list[str]:
    """The kinds that a word of the filter stands for: itself, or all of a group."""
    return [word] if "." in word else [kind for kind in kinds() if kind.startswith(f"{word}.")] or [f"{word}."]
