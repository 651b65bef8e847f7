"""A database as large as wanted, written by COPY: every story of `tests/bench/stories.py` is lived once, and its rows are multiplied.

Each copy has ids, references, people, amounts and times of its own, and everything else as the domain wrote it; so the records agree
with each other, and no column is known here by name. Past the triggers and foreign keys, which only the owner of the tables can.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
import re
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from typing import Any

import psycopg
from django.contrib.auth.models import Group, User
from django.db import connection
from psycopg import sql

from ledger.models import Account, Attempt, Compensation, CompensationDecision, Effect, Evidence
from reconciliation.models import Case, CaseEvent
from runs.actors import Actor
from runs.ids import ALPHABET
from runs.models import Approval, CancelRequest, Event, Lease, Run, Step
from tests.bench import stories

EVENTS_PER_RUN = 10
DAYS = 180
OPEN_SHARE = 0.003  # of the runs, and the latest ones
STAFF = 40
BATCH = 500  # families between two writes
LONG_ITEMS = 5000

AGENTS = {
    "refunds": "Refund a late order", "purchase-order": "Order what is low in stock", "invoices": "Send the invoices of the day",
    "claims": "Answer a claim", "bookings": "Move a booking", "payroll": "Pay out expenses", "catalogue": "Publish new articles",
    "support-mail": "Answer a customer", "returns": "Take back a parcel", "archive": "Tidy up old contracts",
}  # fmt: skip
_AGENT_WEIGHTS = (30, 20, 15, 10, 8, 6, 5, 3, 2, 0.05)
BUSINESS = (
    ("supplier", "create_order", 55), ("payments", "charge", 25), ("courier", "book_pickup", 10), ("mailer", "send_email", 9.9),
    ("old-bank", "transfer", 0.02),
)  # fmt: skip
RARE_PROVIDER = "old-bank"
CURRENCIES = (("EUR", 60), ("USD", 25), ("GBP", 10), ("JPY", 4.9), ("CHF", 0.1))

_RUN_OWNED: tuple[Any, ...] = (Lease, Step, CancelRequest, Approval, Effect, Attempt, Account, Compensation, Case)
_PLACES = {
    Evidence: "effect_id IN (SELECT operation_id FROM ledger_effect WHERE run_id = ANY({ids}))",
    CompensationDecision: "compensation_id IN (SELECT id FROM ledger_compensation WHERE run_id = ANY({ids}))",
    CaseEvent: "case_id IN (SELECT id FROM reconciliation_case WHERE run_id = ANY({ids}))",
    Event: "run_id = ANY({ids}) OR (run_id IS NULL AND id > {after})",
    Run: "id = ANY({ids})",
} | {model: "run_id = ANY({ids})" for model in _RUN_OWNED}


# What differs from copy to copy, in the text that COPY gives


_TOKEN = re.compile(
    r"(?P<id>[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"
    rf"|(?P<ref>\b[REQC]-[{ALPHABET}]{{10}}\b)"
    r"|(?P<time>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?)"
    r"|(?P<token>\b[0-9a-f]{32}\b)"
    rf"|(?P<business>{stories.REFERENCE}\d+)|(?P<object>{stories.OBJECT}\d+)|(?P<customer>{stories.CUSTOMER})"
    rf"|(?P<amount>\b{stories.AMOUNT // 1000}\d\d\d\b)"
    r"|(?P<person>\b91000000\d\b)|(?P<person_name>\bQzx (?:Asker|Decider)\b)"
    r"|(?P<word>agent-qzx|Title Qzx|w-qzx|tok-qzx|worker qzx|\bsupplier\b|\bcreate_order\b|\bEUR\b)"
)


@dataclass
class Mould:
    """The rows of one story as templates, and what has to be filled into them."""

    weight: float
    runs: int
    events: int
    fixed: bool
    slots: list[tuple[str, Any]] = field(default_factory=list)
    texts: dict[str, tuple[str, itemgetter[Any]]] = field(default_factory=dict)


def _mould(number: int, story: stories.Story, weight: float, people: tuple[Actor, Actor], owner: psycopg.Connection[Any]) -> Mould:
    after = Event.objects.order_by("-id").values_list("pk", flat=True).first() or 0
    life = stories.Life(*people, number)
    story(life)
    ids = [run.pk for run in life.runs]
    events = Event.objects.filter(run__in=ids).count()
    # An undo needs a rule, which is there for one action alone.
    mould = Mould(weight, len(ids), events, fixed=Compensation.objects.filter(run__in=ids).exists())
    began_us = _micros(str(Run.objects.get(pk=ids[0]).created_at))
    known: dict[tuple[str, str], int] = {}
    for model, place in _PLACES.items():
        rows = _copied_out(owner, model, place, ids, after)
        if not rows:
            continue
        used: list[int] = []

        def fill(found: re.Match[str], used: list[int] = used) -> str:
            kind = str(found.lastgroup)
            key = kind, found[0]
            if key not in known:
                known[key] = len(mould.slots)
                mould.slots.append(_slot(kind, found[0], began_us))
            used.append(known[key])
            return "%s"

        template = _TOKEN.sub(fill, rows.replace("%", "%%"))
        used.append(used[0])  # itemgetter gives a tuple only for two and more
        mould.texts[model._meta.db_table] = template + "%.0s", itemgetter(*used)
    return mould


def _slot(kind: str, text: str, began_us: int) -> tuple[str, Any]:
    match kind:
        case "id":
            return ("ordered_id" if text[14] == "7" else "scattered_id"), None
        case "ref":
            return kind, text[:2]
        case "time":
            return kind, (_micros(text) - began_us, text[10])
        case "amount":
            return kind, int(text) - stories.AMOUNT
        case "person" | "person_name":
            return kind, int(text.endswith(("2", "Decider")))
        case "word" | "business" | "object":
            return kind, text
    return kind, None


def _micros(text: str) -> int:
    at = datetime.fromisoformat(text)
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1_000_000)


def _columns(owner: psycopg.Connection[Any], table: str) -> sql.Composable:
    """The columns that a row is copied with: not what the database makes itself."""
    made = "is_generated = 'ALWAYS' OR is_identity = 'YES' OR (table_name = 'runs_event' AND column_name = 'tx')"
    names = owner.execute(
        f"SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = %s AND NOT ({made})"
        " ORDER BY ordinal_position",
        [table],
    ).fetchall()
    return sql.SQL(", ").join(sql.Identifier(name) for (name,) in names)


def _copied_out(owner: psycopg.Connection[Any], model: Any, place: str, ids: list[uuid.UUID], after: int) -> str:
    table = model._meta.db_table
    where = sql.SQL(place).format(ids=sql.Literal(ids), after=sql.Literal(after))
    query = sql.SQL("COPY (SELECT {} FROM {} WHERE {} ORDER BY {}) TO STDOUT").format(
        _columns(owner, table), sql.Identifier(table), where, sql.Identifier(model._meta.pk.column)
    )
    with owner.cursor() as cursor, cursor.copy(query) as copy:
        return b"".join(bytes(part) for part in copy).decode()


# What is filled in


class Filler:
    """Makes the values of one copy after another. Seeded: the same size gives the same database, but for the times."""

    def __init__(self, staff: list[tuple[int, str]], until: datetime, runs: int) -> None:
        self.chance = random.Random(runs)
        self.staff = staff
        self.until_us, self.apart_us = round(until.timestamp() * 1_000_000), DAYS * 86_400_000_000 // max(runs, 1)
        self.runs = runs
        self.count = 0
        self._minutes: dict[int, str] = {}
        self._pairs = [a + b for a in ALPHABET for b in ALPHABET]
        self._paces = [min(5000.0, self.chance.lognormvariate(5.3, 1.2)) for _ in range(997)]
        self._makers: dict[str, Callable[[Any], Any]] = {
            "ordered_id": self._ordered_id,
            "scattered_id": self._scattered_id,
            "ref": self._ref,
            "time": self._time,
            "token": self._token,
            "business": lambda text: f"{self.letters}-{self.place}-{int(text[-2:])}",
            "object": lambda text: f"OB-{self.place}-{text[len(stories.OBJECT) :]}",
            "customer": lambda _: f"c-{self.place % 50_000}",
            "amount": lambda more: self.amount + more,
            "person": lambda which: self.staff[(self.who + which) % len(self.staff)][0],
            "person_name": lambda which: self.staff[(self.who + which) % len(self.staff)][1],
            "word": lambda text: self.words.get(text, text),
        }

    def values(self, mould: Mould, place: int) -> list[Any]:
        """The values of the slots of one copy, whose first run is number `place`."""
        chance = self.chance
        self.place = place
        self.began_us = self.until_us - (self.runs - place) * self.apart_us
        self.pace = self._paces[place % len(self._paces)] if place < self.runs * (1 - OPEN_SHARE) else 20.0
        agent = chance.choices(tuple(AGENTS), _AGENT_WEIGHTS)[0]
        worker = place % 12
        self.letters = agent[:2].upper()
        self.amount = int(chance.lognormvariate(9, 1.6)) + 1
        self.who = min(int(chance.expovariate(0.15)), len(self.staff) - 1)
        provider, action, _ = BUSINESS[0] if mould.fixed else chance.choices(BUSINESS, [weight for *_, weight in BUSINESS])[0]
        currency = stories.CURRENCY if mould.fixed else chance.choices(CURRENCIES, [weight for _, weight in CURRENCIES])[0][0]
        self.words = {
            stories.AGENT: agent, stories.TITLE: AGENTS[agent], stories.HOLDER: f"{agent}-w{worker}", stories.MACHINE: f"tok-{agent}",
            stories.MACHINE_NAME: f"{agent} workers", stories.PROVIDER: provider, stories.ACTION: action, stories.CURRENCY: currency,
        }  # fmt: skip
        makers = self._makers
        return [makers[kind](told) for kind, told in mould.slots]

    def _ordered_id(self, _: Any) -> str:
        self.count += 1
        milliseconds, number = f"{self.began_us // 1000:012x}", f"{self.count:018x}"
        return f"{milliseconds[:8]}-{milliseconds[8:]}-7{number[:3]}-8{number[3:6]}-{number[6:]}"

    def _scattered_id(self, _: Any) -> str:
        self.count += 1
        text = hashlib.md5(b"%d" % self.count, usedforsecurity=False).hexdigest()
        return f"{text[:8]}-{text[8:12]}-5{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def _ref(self, prefix: str) -> str:
        """Scattered over all there are, and no two alike: multiplying by an odd number is one to one."""
        self.count += 1
        bits = self.count * 0x2545F4914F6CDD1D & 0x3FFFFFFFFFFFF
        pairs = self._pairs
        a, b, c, d, e = bits >> 40, bits >> 30 & 1023, bits >> 20 & 1023, bits >> 10 & 1023, bits & 1023
        return f"{prefix}{pairs[a]}{pairs[b]}{pairs[c]}{pairs[d]}{pairs[e]}"

    def _token(self, _: Any) -> str:
        self.count += 1
        return f"{self.count:032x}"

    def _time(self, told: tuple[int, str]) -> str:
        """What took the story up to two seconds takes a copy as long as its pace says; what was minutes away stays as far."""
        after_us, between = told
        quick = min(after_us, 2_000_000)
        seconds, micros = divmod(self.began_us + int(quick * self.pace) + after_us - quick, 1_000_000)
        minute, second = divmod(seconds, 60)
        text = self._minutes.get(minute)
        if text is None:
            if len(self._minutes) > 100_000:
                self._minutes.clear()
            text = self._minutes[minute] = datetime.fromtimestamp(minute * 60, UTC).strftime("%Y-%m-%d %H:%M")
        return f"{text if between == ' ' else text.replace(' ', 'T')}:{second:02d}.{micros:06d}"


# The whole


def seed(owner_url: str, runs: int, items: int = LONG_ITEMS, tell: Callable[[str], None] = lambda _: None) -> dict[str, int]:
    """Fill the migrated, empty database: `runs` runs with ten events each on average, and one run with `items` on its timeline.

    Django's connection must be to the same database. Returns how many rows each table got.
    """
    began = time.monotonic()
    with psycopg.connect(owner_url, autocommit=True) as owner:
        people = stories.cast()
        moulds, open_moulds = _moulds(owner, people)
        if items:
            stories.very_long(stories.Life(*people, 99), items)
        staff = _staff()
        tell(f"stories lived after {time.monotonic() - began:.0f} s")
        with _without_indexes(owner, [model._meta.db_table for model in _PLACES]):
            written = _multiply(owner_url, owner, moulds, open_moulds, Filler(staff, _now() - timedelta(hours=1), runs))
            tell(f"rows written after {time.monotonic() - began:.0f} s")
        tell(f"indexes built after {time.monotonic() - began:.0f} s")
        owner.execute("VACUUM (ANALYZE, FREEZE)")
        tell(f"ready after {time.monotonic() - began:.0f} s")
    return written


def _now() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        at: datetime = cursor.fetchone()[0]
    return at


def _moulds(owner: psycopg.Connection[Any], people: tuple[Actor, Actor]) -> tuple[list[Mould], list[Mould]]:
    closed = [_mould(number, *one, people, owner) for number, one in enumerate(stories.CLOSED.items())]
    long_one = _mould(40, stories.long_one, 0, people, owner)
    # As many long ones as it takes: Σ weight · (events − 10 · runs) = 0.
    missing = sum(one.weight * (EVENTS_PER_RUN * one.runs - one.events) for one in closed)
    long_one.weight = max(0.0, missing / (long_one.events - EVENTS_PER_RUN))
    return [*closed, long_one], [_mould(number, *one, people, owner) for number, one in enumerate(stories.OPEN.items(), 50)]


def _staff() -> list[tuple[int, str]]:
    """People who work here: (id, full name)."""
    firsts, lasts = ("Ana", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gil", "Hana"), ("Berg", "Cole", "Diaz", "Endo", "Ford")
    made = []
    for number in range(STAFF):
        first, last = firsts[number % len(firsts)], lasts[number // len(firsts)]
        user = User.objects.create(username=f"{first}.{last}".lower(), first_name=first, last_name=last)
        user.groups.set(Group.objects.filter(name__in=("Support", "Approver") if number % 2 else ("Support",)))
        made.append((user.pk, f"{first} {last}"))
    return made


def _multiply(
    owner_url: str, owner: psycopg.Connection[Any], moulds: list[Mould], open_moulds: list[Mould], filler: Filler
) -> dict[str, int]:
    rows: Counter[str] = Counter()
    tables = sorted({table for mould in (*moulds, *open_moulds) for table in mould.texts})
    with contextlib.ExitStack() as stack:
        copies = {table: stack.enter_context(_copy_in(owner_url, table, _columns(owner, table))) for table in tables}
        for batch in _batches(_lives(moulds, open_moulds, filler)):
            for table, texts in batch.items():
                text = "".join(texts)
                rows[table] += text.count("\n")
                copies[table].write(text)
    return dict(rows)


def _lives(moulds: list[Mould], open_moulds: list[Mould], filler: Filler) -> Iterator[tuple[Mould, list[Any]]]:
    """One copy after another, oldest first, until there are as many runs as wanted."""
    place, weights, open_weights = 0, [one.weight for one in moulds], [one.weight for one in open_moulds]
    while place < filler.runs:
        still_open = place >= filler.runs * (1 - OPEN_SHARE) and place % 10
        mould = filler.chance.choices(open_moulds, open_weights)[0] if still_open else filler.chance.choices(moulds, weights)[0]
        yield mould, filler.values(mould, place)
        place += mould.runs


def _batches(lives: Iterable[tuple[Mould, list[Any]]]) -> Iterator[dict[str, list[str]]]:
    batch: dict[str, list[str]] = {}
    for number, (mould, values) in enumerate(lives, 1):
        for table, (template, pick) in mould.texts.items():
            batch.setdefault(table, []).append(template % pick(values))
        if number % BATCH == 0:
            yield batch
            batch = {}
    yield batch


@contextlib.contextmanager
def _copy_in(owner_url: str, table: str, columns: sql.Composable) -> Iterator[Any]:
    with psycopg.connect(owner_url) as writer, writer.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica; SET synchronous_commit = off")
        with cursor.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table), columns)) as copy:
            yield copy


@contextlib.contextmanager
def _without_indexes(owner: psycopg.Connection[Any], tables: list[str]) -> Iterator[None]:
    """The indexes that no constraint needs are built after the rows are there: far sooner done."""
    found = owner.execute(
        "SELECT c.relname, pg_get_indexdef(i.indexrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid"
        " WHERE i.indrelid::regclass::text = ANY(%s) AND NOT i.indisunique"
        " AND NOT EXISTS (SELECT FROM pg_constraint x WHERE x.conindid = i.indexrelid)",
        [tables],
    ).fetchall()
    for name, _ in found:
        owner.execute(sql.SQL("DROP INDEX {}").format(sql.Identifier(name)))
    try:
        yield
    finally:
        owner.execute("SET maintenance_work_mem = '1GB'")
        for _, definition in found:
            owner.execute(definition)
