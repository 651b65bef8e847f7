"""What `/demo/components/` shows: every component in each of its states. Those come from the vocabularies: a new one appears by itself.

Nothing here is real, and nothing is read or written.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from types import SimpleNamespace
from typing import Any

from console.demo.sample_dialogs import DIALOGS, PROVIDER, REF, run
from console.metrics import charts
from console.metrics.figures import Spread
from ledger import states as effect_states
from ledger.sentences import EffectFacts, detail, sentence
from ledger.vocabulary import EFFECT_CHIPS, STATES, UNDOS, UNKNOWABLE, chip_key, effect_chip
from runs import picture, sentences
from runs.picture import Lane, Picture, Record, Strand
from runs.sentences import HeaderFacts
from runs.vocabulary import CLEANUP_CHIPS, RUN_CHIPS, STEP_CHIPS, run_chip
from runs.wording import Lead, Ref, say

Context = dict[str, Any]

ODD = "A title with <b>markup</b>, \u202eturned text\u202c, a bell \x07 and a word-that-is-much-longer-than-any-column-" + "x" * 60
CANCEL = 9  # the place of the cancel in the picture


def everything() -> Context:
    """The context of `demo/components.html`."""
    now = datetime.now(UTC)
    return {
        "sections": SECTIONS,
        "moments": [("now", now), ("3 minutes ago", now - timedelta(minutes=3)), ("40 days ago", now - timedelta(days=40))],
        "soon": now + timedelta(seconds=90),
        "past": now - timedelta(minutes=2),
        "vocabularies": [
            ("A run", [run_chip(status, 2) for status in RUN_CHIPS]),
            ("An action outside", [effect_chip(*given) for given in effects()]),
            ("A step", list(STEP_CHIPS.values())),
            ("A clean-up", list(CLEANUP_CHIPS.values())),
        ],
        "rows": [{"run": run(status, now), "reason": _reason(status), "allowed": {"cancel"}} for status in RUN_CHIPS],
        "effects": [_effect(number, *given, now) for number, given in enumerate(effects())],
        "effects_count": {"says": f"{len(effects())} of 1,234 actions", "all_url": "#effects"},
        "run": run("cancelled_pending", now),
        "heads": [_head(status, now) for status in ("cancelling", "cancelled_unresolved", "completed")],
        "times": [_times(now, known) for known in (1, 2, 3, 4)],
        "accounts": [_account(now, **given) for given in _ACCOUNTS],
        "pictures": [("every outcome of an action", _picture(now)), ("a run that goes on", _plain_picture(now))],
        "steps": _steps(now),
        "timeline": list(_timeline(now)),
        "strip": _strip(),
        "pagers": _pagers(),
        "problems": _problems(now),
        "spread": Spread(120, 1.2, 4.0, 9.1),
        "no_spread": Spread(0, None, None, None),
        "across": charts.across(
            "Cancels by outcome", [(chip.text, 3 * number, key) for number, (key, chip) in enumerate(_OUTCOMES.items())]
        ),
        "upright": _by_day(),
        "conn": _CONN,
        "odd": ODD,
        "document": {"lines": [{"sku": "BRG-6204", "quantity": 12}], "note": ODD},
        "refs": [(REF, ""), (REF, f"/runs/{REF}/"), (ODD[:50], "")],
        "money": [(4250, "GBP"), (-4250, "GBP"), (5800, "JPY"), (1255, "KWD"), (123456789, "EUR"), (7, "ZZZ"), (None, "")],
        "dialogs": [(name, one.says) for name, one in DIALOGS.items()],
    }


SECTIONS = [
    ("chips", "Chips"), ("buttons", "Buttons"), ("refs", "References, money, times"), ("banners", "Banners"), ("strip", "Lists"),
    ("rows", "Runs"), ("times", "Four times"), ("account", "Account"), ("picture", "Picture"), ("steps", "Steps"), ("effects", "Effects"),
    ("timeline", "Timeline"), ("forms", "Fields"),
    ("outside", "Text from outside"), ("charts", "Charts"), ("dialogs-of-samples", "Dialogs"),
]  # fmt: skip
_CONN = {
    "live": "Live",
    "polling": "Updating every 15 seconds",
    "connecting": "Reconnecting…",
    "paused": "Paused",
    "dead": "Not live since 14:02 UTC",
    "out": "Signed out",
}
_OUTCOMES = {key: EFFECT_CHIPS[key] for key in ("withheld", "landed_after", "unknown")}
_ACCOUNTS: tuple[Context, ...] = ({}, {"issued": False}, {"final": True}, {"adds_up": False}, {"total": 0})


def effects() -> list[tuple[str, str | None, str, str | None]]:
    """For each word of the vocabulary of effects, what it is said of: (state, before or after the cancel, provider, what became of it)."""
    found: dict[str, tuple[str, str | None, str, str | None]] = {}
    for undo, relative, state in product((None, *UNDOS, UNKNOWABLE), (None, "before", "after"), STATES):
        if undo == UNKNOWABLE and state != effect_states.AMBIGUOUS:
            continue
        found.setdefault(chip_key(state, relative, undo), (state, relative, PROVIDER, undo))
    return [found[key] for key in EFFECT_CHIPS]


def _reason(status: str) -> str:
    return "1 open case" if status.endswith("unresolved") else ""


def _effect(number: int, state: str, relative: Any, provider: str, undo: Any, now: datetime) -> Context:
    """A line of the table of effects with its sentence."""
    sent = now - timedelta(minutes=3)
    due = now + timedelta(seconds=40) if state in effect_states.LOOKED_AT | {effect_states.SENDING} and undo != UNKNOWABLE else None
    facts = EffectFacts(
        state=state, action_words="order", provider_name=provider, reference="PO-1042", amount_text="£126.00 GBP", sent_at=sent,
        answered_at=now, cancel_at=now - timedelta(minutes=2), cancel_seq=CANCEL, relative=relative, how_we_know="look", looks_done=1,
        looks_planned=6, next_look_at=due, answer_by=due, undo=undo if undo in UNDOS else None, undo_reference="C-7K2M9Q4TXA", undo_at=now,
        unknowable=undo == UNKNOWABLE, can_ask_undo=True, found_refs=("SO-1", "SO-2"), provider_message="Credit limit reached",
        conflict=(("the sender", "it landed"), ("a look", "it was refused")),
    )  # fmt: skip
    shown = {
        "id": f"sample-{number}", "ref": "E-7K2M9Q4TXA", "what": "order", "provider_name": provider, "amount": 12600, "currency": "GBP",
        "business_ref": "PO-1042", "external_id": "SO-1" if state == "landed" else "", "sent_at": sent, "state": state,
        "relative": relative, "undo": undo, "attempts": 1, "due": due,
        "due_words": "next check", "undos": [], "case_url": "", "case_ref": "",
        "evidence": [{"at": now, "source": "A look at Supplier", "says": "it happened, HTTP 200"}],
    }  # fmt: skip
    return {
        "effect": shown,
        "says": sentence(facts),
        "more": detail(facts),
        "allowed": {"undo"} if state == "landed" and not undo else set(),
    }


def _head(status: str, now: datetime) -> Context:
    asked = now - timedelta(minutes=2)
    facts = HeaderFacts(
        status, REF, 6, unsettled=("E-7K2M9Q4TXA",), asked_by="Sam Support", asked_at=asked, cases_open=1, landed=4, in_effect=4
    )
    return {"run": run(status, now), "says": sentences.header_sentence(facts)}


def _times(now: datetime, known: int) -> list[Context]:
    after_s = (0.0, 0.1, 1.2, 48.0)
    labels = ("Asked", "Heard", "Quiet", "Settled")
    return [
        {
            "label": label,
            "at": now + timedelta(seconds=seconds) if place < known else None,
            "after_s": seconds,
            "note": "presumed" if label == "Quiet" and known == 3 else "",
            "missing": "never" if known == 1 else "not yet",
        }
        for place, (label, seconds) in enumerate(zip(labels, after_s, strict=True))
    ]


def _account(now: datetime, total: int = 9, issued: bool = True, final: bool = False, adds_up: bool = True) -> Context:
    counts = (
        {"stopped": 4, "landed": 2, "undone": 0, "cleaned_up": 1, "did_not_happen": 1, "unknown": 1}
        if total
        else {"stopped": 0, "landed": 0}
    )
    notes = {"stopped": "never sent", "landed": "in effect (1 confirmed after the cancel)", "unknown": "needs a person"}
    buckets = [
        {"key": key, "name": key.replace("_", " "), "count": number, "note": notes.get(key, "") if number else "", "url": "#account",
         "person": key == "unknown", "plus": place > 0}
        for place, (key, number) in enumerate(counts.items())
    ]  # fmt: skip
    files = {"json_url": "#account", "csv_url": "#account"}
    told = {"version": 2 if issued else 0, "issued_at": now, "final": final, "issued": issued, "total": total, "adds_up": adds_up}
    return told | files | {"buckets": buckets, "sum_error": "the actions listed are 9, but 10 were recorded."}


def _picture(now: datetime) -> Picture:
    """A lane for every word of the vocabulary of effects."""
    lanes, records = [], [Record(CANCEL, "cancel.accepted", "", now), Record(30, "run.quiet", "", now)]
    for number, (state, relative, provider, undo) in enumerate(effects()):
        subject, chip = f"E-{number}", effect_chip(state, relative, provider, undo)
        outcome = effect_chip(state, relative, provider, undo if undo == UNKNOWABLE else None)
        strands = [Strand("effect", subject, outcome)]
        records.append(Record(2 + number % 4, f"effect.{'declared' if state in ('declared', 'withheld') else 'sending'}", subject, now))
        if state not in ("declared", "sending"):
            records.append(
                Record(8 if relative != "after" and state in ("landed", "refused") else 10 + number, f"effect.{state}", subject, now)
            )
        if undo in UNDOS:
            strands.append(Strand("compensation", subject, chip))
            records.append(Record(32, f"compensation.{'requested' if undo == 'undo_waiting' else 'undone'}", subject, now))
        due = now + timedelta(seconds=70) if state == "unknown" else None
        lanes.append(Lane("Action", chip.help.partition(".")[0], chip, tuple(strands), "#effects", due, "next check"))
    records.sort(key=lambda record: record.seq)
    says = "One action of each kind, and what is known of it."
    return picture.draw(SimpleNamespace(cancel_position=CANCEL), lanes, records, says, "And 488 more actions, listed below.")  # type: ignore[arg-type]


def _plain_picture(now: datetime) -> Picture:
    told = [("done", "rest"), ("running", "acting")]
    lanes = [Lane("Step", f"a step that is {state}", STEP_CHIPS[state], (Strand("step", state, STEP_CHIPS[state]),)) for state, _ in told]
    lanes.append(Lane("Child run", "another run", run_chip("running"), (Strand("child", "R-1", run_chip("running")),), "#picture"))
    lanes.append(
        Lane("Clean-up", "what waits to be tidied", CLEANUP_CHIPS["registered"], (Strand("cleanup", "c", CLEANUP_CHIPS["registered"]),))
    )
    kinds = [
        ("step.started", "done"),
        ("step.finished", "done"),
        ("step.started", "running"),
        ("child.created", "R-1"),
        ("cleanup.registered", "c"),
    ]
    records = [Record(seq, kind, subject, now) for seq, (kind, subject) in enumerate(kinds, 1)]
    return picture.draw(SimpleNamespace(cancel_position=None), lanes, records, "Nothing has left us.")  # type: ignore[arg-type]


def _steps(now: datetime) -> list[Context]:
    base = {"message": "", "answered_at": now, "hears": "hears a cancel within 1 s", "percent": None}
    told = [
        {"name": "read the mails", "percent": 0},
        {"name": "compare prices", "percent": 62, "message": "12 of 19"},
        {"name": "send", "percent": 100},
    ]
    return [base | one for one in told] + [
        base | {"name": "model call", "answered_at": None, "hears": "can’t hear a cancel: it stops when it ends"}
    ]


def _timeline(now: datetime) -> Iterator[Context]:
    base = {"at": now, "sub": "", "after": False, "rule": ""}
    lanes = (("step", "Step"), ("effect", "Effect"), ("child", "Child"), ("person", "Person"))
    for seq, (lane, name) in enumerate(lanes, 1):
        yield base | {
            "seq": seq,
            "lane": lane,
            "lane_name": name,
            "says": say(f"{name}: something of ", Ref(REF)),
            "sub": ODD if seq == 1 else "",
        }
    yield base | {"seq": 5, "rule": "cancel", "says": say(Lead("Cancel accepted"), " — asked by Sam Support")}
    yield base | {"seq": 6, "lane": "effect", "lane_name": "Effect", "says": say("Order landed — said its sender"), "after": True}
    yield base | {"seq": 7, "rule": "quiet", "says": say(Lead("Quiet"), " — its worker said that it has stopped")}


def _strip() -> list[Context]:
    told = [
        ("Needs a person", 2, True),
        ("Needs a person", 0, True),
        ("Cancelling", 3, False),
        ("Running", "10,000+", False),
        ("Waiting", None, False),
    ]
    return [
        {"key": f"sample{place}", "label": label, "count": count, "url": "#strip", "current": place == 2, "person": person}
        for place, (label, count, person) in enumerate(told)
    ]


def _pagers() -> list[Context]:
    sizes = (25, 50, 100)
    return [
        {"newer": "", "older": "#pager", "size": 50, "sizes": sizes, "count_text": "about 1,000,000 runs", "label": "First page"},
        {"newer": "#pager", "older": "#pager", "size": 25, "sizes": sizes, "count_text": "10,000+ runs", "label": "A page between"},
        {"newer": "#pager", "older": "", "size": None, "sizes": sizes, "count_text": "", "label": "Last page"},
    ]


def _problems(now: datetime) -> list[Context]:
    late = say(Lead("Not cancelled: this run had already finished."), " ", Ref(REF), " completed at ", now, ". Nothing was stopped.")
    return [
        {"problem": {"parts": late}, "links": [{"url": f"/runs/{REF}/", "label": "See what it did"}], "tone": ""},
        {
            "problem": {"title": "Not recorded.", "detail": "The run is locked by somebody else. Nothing was stopped."},
            "links": [],
            "tone": "warn",
        },
    ]


def _by_day() -> charts.Chart:
    told = [(f"{day} Nov", day / 10, day / 4 if day % 9 else None) for day in range(1, 31)]
    return charts.upright("Time to quiet by day", told, [(f"{a} s", f"{b} s" if b else "—") for _, a, b in told])
