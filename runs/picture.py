"""A run as a picture: lanes from left to right in the order of its own records, and where the cancel and the quiet stand among them.

A place is the rank of a record among those that are drawn, never a moment: what was recorded before the cancel stands left of it, whatever
any clock said. It renders nothing; the templates draw percentages.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from django.db.models import Q

from runs import cleanup, states
from runs.family import Family
from runs.models import Cleanup, Event, Run, Step
from runs.vocabulary import CLEANUP_CHIPS, STEP_CHIPS, Chip, run_chip

STEPS_MAX, CHILDREN_MAX, CLEANUPS_MAX = 5, 3, 3
STEPS_READ = 50  # to choose from
RECORDS_MAX = 400
NOW = 100.0
QUIET = "run.quiet"
_CLOSING = tuple(f"run.{state}" for state in sorted(states.CLOSED))

Phase = Literal["planned", "acting", "doubt", "rest"]

_PHASES: dict[str, Phase] = {
    "step.started": "acting",
    "step.finished": "rest",
    "step.timed_out": "rest",
    "child.created": "planned",
    "cleanup.registered": "planned",
    "cleanup.claimed": "acting",
    "cleanup.done": "rest",
    "cleanup.left_behind": "rest",
    "effect.declared": "planned",
    "effect.sending": "acting",
    "effect.pending": "doubt",
    "effect.unknown": "doubt",
    "effect.ambiguous": "doubt",
    "effect.conflicted": "doubt",
    "effect.landed": "rest",
    "effect.refused": "rest",
    "effect.absent": "rest",
    "effect.withheld": "rest",
    "effect.duplicated": "rest",
    "effect.reversed": "rest",
    "compensation.requested": "planned",
    "compensation.executing": "acting",
    "compensation.undone": "rest",
    "compensation.failed": "rest",
    "compensation.rejected": "rest",
    "compensation.withdrawn": "rest",
    "compensation.expired": "rest",
    "compensation.stale": "rest",
}
"""What a thing was doing from a record on. Other records (evidence, approvals, looks) move nothing in the picture."""
PHASE_WORDS: Mapping[Phase, str] = {"planned": "planned or waiting", "acting": "under way", "doubt": "not known"}


@dataclass(frozen=True)
class Strand:
    """What is recorded under one subject by events of one group (`effect`, `step` …), and the chip that says what became of it."""

    group: str
    subject: str
    chip: Chip
    ends_with_run: bool = False


@dataclass(frozen=True)
class Lane:
    """One line of the picture. `strands`: the thing itself, then what was done about it later; `due`: what is to happen next, and when."""

    kind: str
    name: str
    chip: Chip
    strands: tuple[Strand, ...]
    url: str = ""
    due: datetime | None = None
    due_words: str = ""


@dataclass(frozen=True)
class Bar:
    """From `x` to `end`, in percent."""

    x: float
    end: float
    phase: Phase


@dataclass(frozen=True)
class Mark:
    """A chip's icon at `x` percent, with what it says of the record it stands for."""

    x: float
    chip: Chip
    says: str
    position: int | None


@dataclass(frozen=True)
class Drawn:
    """A lane with its places."""

    lane: Lane
    bars: tuple[Bar, ...]
    marks: tuple[Mark, ...]

    @property
    def says(self) -> str:
        """The line in words: what its marks stand for, in order."""
        return "; ".join(mark.says for mark in self.marks) or "not recorded here"


@dataclass(frozen=True)
class Rule:
    """A line across all lanes: `kind` is cancel or quiet."""

    kind: str
    text: str
    x: float
    at: datetime
    position: int

    @property
    def anchor(self) -> str:
        """On which side of the line its name fits."""
        return "start" if self.x < 60 else "end"

    @property
    def rest(self) -> float:
        """How much lies to the right of it."""
        return NOW - self.x


@dataclass(frozen=True)
class Picture:
    """What a template draws. `says` and `more` are the same facts in words."""

    lanes: tuple[Drawn, ...]
    rules: tuple[Rule, ...]
    says: str
    more: str

    @property
    def title(self) -> str:
        """What the picture is called."""
        stops = {"cancel accepted": "Before and after the cancel", "terminated": "Before and after the termination"}
        return next((stops[rule.text] for rule in self.rules if rule.text in stops), "At a glance")

    @property
    def phases(self) -> list[tuple[Phase, str]]:
        """The kinds of bar that occur in it, with what each means."""
        here = {bar.phase for drawn in self.lanes for bar in drawn.bars}
        return [(phase, words) for phase, words in PHASE_WORDS.items() if phase in here]


@dataclass(frozen=True)
class Chosen:
    """The lanes to draw, and what is left out in words (`12 steps`)."""

    lanes: tuple[Lane, ...] = ()
    left_out: tuple[str, ...] = ()


def of_run(run: Run, effects: Chosen, of_steps: Iterable[str], below: Family, says: str) -> Picture | None:
    """The picture of a run with the lanes of its effects, in at most four queries; None while there is nothing to draw.

    `of_steps`: keys of the steps that those effects belong to.
    """
    chosen = (_steps(run, frozenset(of_steps)), effects, _children(below), _cleanups(run))
    lanes = [lane for part in chosen for lane in part.lanes]
    if not lanes:
        return None
    left_out = [words for part in chosen for words in part.left_out]
    return draw(run, lanes, _records(run, lanes), says, f"And {', '.join(left_out)}, listed below." if left_out else "")


def _steps(run: Run, of_effects: frozenset[str]) -> Chosen:
    """The steps that act, those of the effects drawn, and the latest."""
    steps = Step.objects.filter(run=run)
    found = list(steps.order_by("-position").only("key", "title", "state", "position")[: STEPS_READ + 1])
    total = len(found) if len(found) <= STEPS_READ else steps.count()
    best = sorted(found, key=lambda step: (step.state not in ("running", "timed_out"), step.key not in of_effects, -step.position))
    lanes = [_simple("Step", "step", step.key, step.title or step.key, _step_chip(run, step)) for step in best[:STEPS_MAX]]
    return Chosen(tuple(lanes), more(total - len(lanes), "step"))


def _step_chip(run: Run, step: Step) -> Chip:
    """One that has not ended stands still while no worker holds the run."""
    return STEP_CHIPS["waiting" if step.state == "running" and run.lease_token is None else step.state]


def _children(below: Family) -> Chosen:
    lanes = []
    for node in below.tree[:CHILDREN_MAX]:
        child = node["run"]
        chip = run_chip(child.status, child.in_flight)
        lanes.append(Lane("Child run", child.title or child.ref, chip, (Strand("child", child.ref, chip),), f"/runs/{child.ref}/"))
    return Chosen(tuple(lanes), more(len(below.tree) - len(lanes), "child run"))


def _cleanups(run: Run) -> Chosen:
    """What was to be tidied: of interest once the run is stopping."""
    if run.cancel_position is None and run.state not in ("failing", "failed"):
        return Chosen()
    items = list(Cleanup.objects.filter(run=run).order_by("order", "registered_at").only("key", "state"))
    items.sort(key=lambda item: item.state != cleanup.LEFT_BEHIND)
    lanes = [_simple("Clean-up", "cleanup", item.key, item.key, CLEANUP_CHIPS[item.state]) for item in items[:CLEANUPS_MAX]]
    return Chosen(tuple(lanes), more(len(items) - len(lanes), "clean-up"))


def _simple(kind: str, group: str, key: str, name: str, chip: Chip) -> Lane:
    return Lane(kind, name, chip, (Strand(group, key, chip, ends_with_run=True),))


def more(number: int, noun: str) -> tuple[str, ...]:
    """What is left out of a kind of lane, in words; nothing when nothing is."""
    return (f"{number:,} more {noun}{'s' if number > 1 else ''}",) if number > 0 else ()


# Places


@dataclass(frozen=True)
class Record:
    """One event, as far as the picture needs it."""

    seq: int
    kind: str
    subject: str
    at: datetime


def _records(run: Run, lanes: Sequence[Lane]) -> list[Record]:
    subjects = {strand.subject for lane in lanes for strand in lane.strands}
    wanted = Q(kind__in=list(_PHASES), subject__in=subjects) | Q(kind__in=[QUIET, *_CLOSING])
    if run.cancel_position is not None:
        wanted |= Q(seq=run.cancel_position)
    rows = Event.objects.filter(wanted, run=run).order_by("-seq").values_list("seq", "kind", "subject", "at")[:RECORDS_MAX]
    return [Record(seq or 0, kind, subject, at) for seq, kind, subject, at in rows][::-1]


def draw(run: Run, lanes: Sequence[Lane], records: Sequence[Record], says: str, left_out: str = "") -> Picture:
    """Give everything its place. Pure: the order of the records is all it knows of time."""
    places = _Places([record.seq for record in records], run.cancel_position)
    by_subject: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.kind in _PHASES:
            by_subject.setdefault((record.kind.partition(".")[0], record.subject), []).append(record)
    closing = next((record for record in records if record.kind in _CLOSING), None)
    quiet = next((record for record in records if record.kind == QUIET), None)
    drawn = [_lane(lane, by_subject, quiet, closing, places) for lane in lanes]
    rules = [_rule(record, places) for record in records if record.kind == QUIET or record.seq == run.cancel_position]
    return Picture(tuple(sorted(drawn, key=_first)), tuple(rules), says, left_out)


def _first(drawn: Drawn) -> float:
    return min([bar.x for bar in drawn.bars] + [mark.x for mark in drawn.marks], default=NOW)


class _Places:
    """Where each record stands. The last column is kept for what still goes on."""

    def __init__(self, seqs: list[int], cancel_position: int | None) -> None:
        self._seqs = seqs
        self._cancel = cancel_position

    def x(self, seq: int) -> float:
        """The middle of the record's own column, in percent."""
        return round(NOW * (bisect_left(self._seqs, seq) + 0.5) / (len(self._seqs) + 1), 2)

    def side(self, seq: int) -> str:
        """How a record stands to the cancel, in words."""
        if self._cancel is None:
            return ""
        return ", before the cancel" if seq < self._cancel else ", after the cancel"


def _lane(
    lane: Lane, by_subject: Mapping[tuple[str, str], list[Record]], quiet: Record | None, closing: Record | None, places: _Places
) -> Drawn:
    bars: list[Bar] = []
    marks: list[Mark] = []
    for strand in lane.strands:
        records = by_subject.get((strand.group, strand.subject), [])
        if records:
            ended = _ended(strand, records, quiet, closing)
            bars += _bars(records, ended, places)
            marks.append(_mark(strand, ended, places))
    return Drawn(lane, tuple(bars), tuple(marks))


def _ended(strand: Strand, records: list[Record], quiet: Record | None, closing: Record | None) -> Record | None:
    """The record at which it came to rest; None while it goes on."""
    last = records[-1]
    if _PHASES[last.kind] == "rest":
        return last
    if closing is None or not strand.ends_with_run or closing.seq < last.seq:
        return None
    # A step that nobody ended stopped with its worker; a clean-up may still come until the run closes.
    return quiet if quiet and strand.group == "step" and quiet.seq > last.seq else closing


def _bars(records: list[Record], ended: Record | None, places: _Places) -> Iterable[Bar]:
    """From each record to the next, in the way of what went on between them."""
    for record, following in zip(records, [*records[1:], ended], strict=True):
        phase = _PHASES[record.kind]
        if phase != "rest":
            yield Bar(places.x(record.seq), places.x(following.seq) if following else NOW, phase)


def _mark(strand: Strand, ended: Record | None, places: _Places) -> Mark:
    if ended is None:
        return Mark(NOW, strand.chip, f"{strand.chip.text}: as it stands now", None)
    return Mark(places.x(ended.seq), strand.chip, f"{strand.chip.text}: record {ended.seq}{places.side(ended.seq)}", ended.seq)


def _rule(record: Record, places: _Places) -> Rule:
    kind = "quiet" if record.kind == QUIET else "cancel"
    text = {QUIET: "quiet", "terminate.accepted": "terminated"}.get(record.kind, "cancel accepted")
    return Rule(kind, text, places.x(record.seq), record.at, record.seq)
