"""What an auditor asks for, read from the address: which events, in pages by keyset, newest first. It only reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Lower
from django.http import QueryDict
from django.utils.timezone import now

from ledger import states as effect_states
from ledger.models import Effect
from ledger.providers.money import BadAmount, minor_units
from ledger.vocabulary import EFFECT_CHIPS
from runs import local_times, states
from runs.actors import Actor
from runs.errors import Invalid
from runs.ids import parse_ref
from runs.models import COMMON_KINDS, Event, Run
from runs.parsing import check_text
from runs.vocabulary import RUN_CHIPS

COUNT_MAX = 10_000
SIZES = (50, 100, 200)
TIME_ALLOWED_MS = 5000
KINDS_MAX = 300
FIELDS = (
    "since",
    "until",
    "actor",
    "people",
    "kind",
    "run",
    "effect",
    "state",
    "provider",
    "amount_from",
    "amount_to",
    "currency",
    "quiet_over",
)
KEPT = (*FIELDS, local_times.ZONE)
"""What an address must carry so that it means the same."""
GROUPS = {
    "cancel": "Cancels", "terminate": "Terminations", "approval": "Approvals", "compensation": "Undoing", "case": "Cases",
    "effect": "Actions outside", "run": "Life of a run", "step": "Steps", "lease": "Leases", "cleanup": "Clean-up",
    "people": "People and sign-ins", "credential": "Machine credentials", "policy": "Policies", "rule": "Rules",
    "audit": "Exports", "integrity": "Records that disagree",
}  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What the address asks for; None and '' mean any. Amounts are minor units of `currency`; `quiet_over` is seconds."""

    since: datetime | None = None
    until: datetime | None = None
    actor: str = ""
    people: bool = False
    kind: str = ""
    run: str = ""
    effect: str = ""
    state: str = ""
    provider: str = ""
    amount_from: int | None = None
    amount_to: int | None = None
    currency: str = ""
    quiet_over: float | None = None

    @property
    def narrows(self) -> bool:
        return self != Wanted()


@dataclass(frozen=True)
class Page:
    """Some events, newest first; `older` and `newer` are places to go on from, or ''."""

    items: list[Event]
    older: str
    newer: str


def read(params: QueryDict) -> Wanted:
    """What a query string asks for; unknown parameters are left alone. Raises `Invalid`, naming the field."""
    check_text({name: values for name, values in params.lists()})
    given = {name: params.get(name, "").strip()[:200] for name in KEPT}
    currency = given["currency"].upper()
    if (given["amount_from"] or given["amount_to"]) and not currency:
        raise Invalid("currency: an amount needs its currency, such as EUR.", field="currency")
    if given["state"] and given["state"] not in STATES:
        raise Invalid(f"state: {given['state']!r} is no state that is recorded.", field="state")
    return Wanted(
        since=local_times.read(given, "since"),
        until=local_times.read(given, "until", latest=True),
        actor=given["actor"],
        people=given["people"] == "1",
        kind=given["kind"],
        run=_ref(given, "run", "R"),
        effect=_ref(given, "effect", "E"),
        state=given["state"],
        provider=given["provider"],
        amount_from=_amount(given, "amount_from", currency),
        amount_to=_amount(given, "amount_to", currency),
        currency=currency,
        quiet_over=_seconds(given["quiet_over"]),
    )


def _ref(given: dict[str, str], name: str, prefix: str) -> str:
    found = parse_ref(given[name], prefix)
    if given[name] and found is None:
        raise Invalid(f"{name}: use a reference such as {prefix}-7K2M9Q4TXA.", field=name)
    return found or ""


def _amount(given: dict[str, str], name: str, currency: str) -> int | None:
    if not given[name]:
        return None
    try:
        return minor_units(given[name].replace(",", ""), currency)
    except BadAmount as wrong:
        raise Invalid(f"{name}: {wrong}: write it like 125.00, in {currency[:10]}.", field=name) from None


def _seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
        if not 0 <= seconds <= 10**9:
            raise ValueError
        return seconds
    except ValueError:
        raise Invalid("quiet_over: use a number of seconds, such as 60.", field="quiet_over") from None


# Which events


def _states() -> dict[str, str]:
    """Every state that an event records, as its kind, with its words."""
    of_runs = {f"run.{state}": f"Run: {RUN_CHIPS[state].text}" for state in states.STATES if state in states.CLOSED}
    of_effects = {f"effect.{state}": f"Action: {_words(state)}" for state in effect_states.STATES}
    return of_runs | {"run.failing": "Run: Failing", "cancel.accepted": "Run: Cancelling", "run.quiet": "Run: Quiet"} | of_effects


def _words(state: str) -> str:
    return EFFECT_CHIPS[state].text.replace("{provider}", "the provider") if state in EFFECT_CHIPS else state


STATES = _states()


def events(actor: Actor, wanted: Wanted) -> QuerySet[Event]:
    """The events that are wanted, in no order."""
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
    if wanted.quiet_over is not None:
        longer = Run.objects.filter(asked_at__isnull=False, quiet_at__gt=F("asked_at") + timedelta(seconds=wanted.quiet_over))
        found = found.filter(run__in=longer.values("pk"))
    about = _about(wanted)
    return found.filter(Exists(about)) if about is not None else found


UNKNOWN_RUN = "00000000-0000-0000-0000-000000000000"


def _by(actor: Actor, who: str) -> Q:
    """A person by id, name or username; anybody else by id or by the name that they had."""
    if who == "me":
        return Q(actor_type="person", actor_id=actor.id)
    full = Lower("first_name"), Lower("last_name")
    named = User.objects.annotate(first=full[0], last=full[1]).filter(Q(username__iexact=who) | Q(**_split(who)))
    ids = [str(pk) for pk in named.values_list("pk", flat=True)]
    if ids:
        return Q(actor_type="person", actor_id__in=ids)
    return Q(actor_id=who) | Q(actor_name=who)


def _split(who: str) -> dict[str, str]:
    first, _, last = who.lower().partition(" ")
    return {"first": first, "last": last}


def _about(wanted: Wanted) -> QuerySet[Effect] | None:
    """The actions that an event must be about, if any are asked for."""
    if not (wanted.provider or wanted.currency):
        return None
    found = Effect.objects.filter(ref=OuterRef("subject"))
    if wanted.provider:
        found = found.filter(provider=wanted.provider)
    if wanted.currency:
        found = found.filter(currency=wanted.currency)
    if wanted.amount_from is not None:
        found = found.filter(amount__gte=wanted.amount_from)
    return found.filter(amount__lte=wanted.amount_to) if wanted.amount_to is not None else found


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


# Pages


def page(actor: Actor, wanted: Wanted, place: str, size: int) -> Page:
    """A page of them. Raises `Invalid` for a place that is not ours, QueryCanceled when it takes too long."""
    backwards, key = _read_place(place)
    order = ("at", "id") if backwards else ("-at", "-id")
    found = events(actor, wanted).select_related("run").order_by(*order)
    if key is not None:
        found = found.filter(_beyond(key, backwards))
    with _soon():
        rows = list(found[: size + 1])
    more, items = len(rows) > size, rows[:size]
    if backwards:
        items.reverse()
    older = f"o{_key(items[-1])}" if items and (more or backwards) else ""
    newer = f"n{_key(items[0])}" if items and (more if backwards else key is not None) else ""
    return Page(items, older, newer)


@contextmanager
def _soon() -> Iterator[None]:
    """A statement in here may take some seconds and no more."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL statement_timeout = {TIME_ALLOWED_MS}")
        yield


def _key(event: Event) -> str:
    return f"{int(event.at.timestamp())}.{event.at.microsecond:06d}-{event.pk}"


def _read_place(text: str) -> tuple[bool, tuple[datetime, int] | None]:
    if not text:
        return False, None
    try:
        moment, _, pk = text[1:].partition("-")
        seconds, _, micro = moment.partition(".")
        if text[0] not in "on" or len(micro) != 6 or len(text) > 60:
            raise ValueError
        return text[0] == "n", (datetime.fromtimestamp(int(seconds), UTC).replace(microsecond=int(micro)), int(pk))
    except (ValueError, OverflowError, OSError):
        raise Invalid("place: follow the links of a page, unchanged.", field="place") from None


def _beyond(key: tuple[datetime, int], upwards: bool) -> Q:
    sign, (at, pk) = ("gt" if upwards else "lt"), key
    # The first condition alone lets the index start at the right place; the second decides between equal times.
    return Q(**{f"at__{sign}e": at}) & (Q(**{f"at__{sign}": at}) | Q(**{f"id__{sign}": pk}))


def count(actor: Actor, wanted: Wanted) -> str:
    """How many there are: exact up to 10,000, else `10,000+`."""
    with _soon():
        number = events(actor, wanted).order_by()[: COUNT_MAX + 1].count()
    return f"{COUNT_MAX:,}+" if number > COUNT_MAX else f"{number:,}"


def safe_moment() -> int:
    """Every transaction below this one is over: what an export takes, so that the same export gives the same rows for ever."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
        return int(cursor.fetchone()[0])


def in_order(actor: Actor, wanted: Wanted, before_tx: int, batch: int, *extra: Any) -> Iterator[list[tuple[Any, ...]]]:
    """All of them, oldest first, a batch at a time; each row is (at, id, *extra). No cursor is held between two batches."""
    found = events(actor, wanted).filter(tx__lt=before_tx).order_by("at", "id")
    key: tuple[datetime, int] | None = None
    while True:
        rows = list((found.filter(_beyond(key, True)) if key else found).values_list("at", "id", *extra)[:batch])
        if rows:
            yield rows
        if len(rows) < batch:
            return
        key = (rows[-1][0], rows[-1][1])


# The form


def form(params: QueryDict, wanted: Wanted, zone: str) -> dict[str, Any]:
    """The context of the filter form; its times are those of the reader's zone."""
    recorded = kinds()
    since, until, zone = local_times.fields(wanted.since, wanted.until, zone)
    groups = {kind.partition(".")[0] for kind in recorded}
    return {
        **{name: params.get(name, "") for name in FIELDS},
        "since": since,
        "until": until,
        "zone": zone,
        "people": wanted.people,
        "groups": [{"value": key, "label": label, "on": key == wanted.kind} for key, label in GROUPS.items() if key in groups],
        "kinds": [{"value": kind, "label": kind, "on": kind == wanted.kind} for kind in recorded],
        "states": [{"value": kind, "label": label, "on": kind == wanted.state} for kind, label in STATES.items()],
        "now": now(),
    }


_LABELS = {
    "since": "from {}", "until": "until {}", "actor": "by {}", "people": "people only", "kind": "{}", "run": "{}",
    "effect": "{}", "state": "{}", "provider": "at {}", "amount_from": "from {}", "amount_to": "up to {}", "currency": "in {}",
    "quiet_over": "quiet after more than {} s",
}  # fmt: skip


def applied(params: QueryDict, wanted: Wanted, path: str, zone: str) -> list[dict[str, str]]:
    """Each filter that is on, in words (times in the reader's zone), with the address without it."""
    shown = []
    times = {name: local_times.words(at, zone) for name, at in (("since", wanted.since), ("until", wanted.until)) if at}
    for name in FIELDS:
        value = params.get(name, "").strip()
        if value:
            left = params.copy()
            for gone in (name, "place"):
                left.pop(gone, None)
            word = GROUPS.get(value, value) if name == "kind" else STATES.get(value, value) if name == "state" else times.get(name, value)
            shown.append({"name": name, "label": _LABELS[name].format(word), "url": f"{path}?{left.urlencode()}"})
    return shown
