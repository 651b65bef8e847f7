"""The judge: what must be true when everything has healed. Pure, over the history, the supplier's own log and what was answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ledger import states as es
from runs import states as rs
from tests import checker
from tests.checker import History

DID = frozenset({"execution", "cancellation"})


@dataclass(frozen=True)
class Stop:
    """One cancel or terminate as its caller knows it: `status` is None when no answer came. `reason` tells it from every other."""

    run: str
    reason: str
    status: int | None
    code: str = ""
    """Of a refusal that is sure that nothing was recorded, if that was the answer."""


@dataclass
class Happened:
    """Everything that is known about a nemesis after it."""

    history: History
    log: list[dict[str, Any]]
    """The supplier's own: what arrived, and what it carried out."""
    stops: list[Stop]
    said: list[str] = field(default_factory=list)
    """What check_invariants, verify_chain and the processes' logs complain about."""


def received(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The supplier's log as the checker reads it. Somebody else's undo has no key of ours."""
    return [
        {"operation_id": line["idempotency_key"], "attempt": int(line["attempt"]) if line["attempt"] else None, "executed": True}
        for line in log
        if line["kind"] in DID and line["idempotency_key"]
    ]


def invariants(h: Happened) -> Iterator[str]:
    yield from checker.violations(h.history)


def once_for_each_business_reference(h: Happened) -> Iterator[str]:
    """The supplier forgets idempotency keys: one order for each reference is our own doing."""
    for kind in sorted(DID):
        for reference, times in Counter(line["reference"] for line in h.log if line["kind"] == kind).items():
            if times > 1:
                yield f"{reference}: {times} times {kind}"


def nothing_arrives_without_a_durable_sending(h: Happened) -> Iterator[str]:
    """Whatever reached the supplier had its "sending" on record before that."""
    begun = {(str(attempt["effect"]), attempt["number"]): attempt["sent_at"] for attempt in h.history.attempts}
    first = {effect: min(at for (of, _), at in begun.items() if of == effect) for effect, _ in begun}
    for line in h.log:
        if line["kind"] != "arrival" or not line["idempotency_key"]:
            continue
        key = line["idempotency_key"]
        at = begun.get((key, int(line["attempt"]))) if line["attempt"] else first.get(key)
        if at is None:
            yield f"{line['reference']}: {key} arrived, and there is no sending of it (attempt {line['attempt']})"
        elif at > datetime.fromisoformat(line["at"]):
            yield f"{line['reference']}: {key} arrived at {line['at']}, before its sending at {at}"


def everything_is_settled_or_with_a_person(h: Happened) -> Iterator[str]:
    """L1 and L2: what is open has a case, and every run has ended or waits for one."""
    cases = [case for case in h.history.cases if case["state"] != "settled"]
    asked = {case[of] for case in cases for of in ("effect", "run")}
    for effect in h.history.effects:
        if effect["state"] in es.OPEN and not effect["unknowable"] and effect["operation_id"] not in asked:
            yield f"L1 {effect['ref']} is still {effect['state']}, and nobody is asked about it"
    for run in h.history.runs:
        if run["state"] not in rs.CLOSED and run["id"] not in asked:
            yield f"L2 {run['ref']} is still {run['state']}, and nobody is asked about it"


def every_answer_was_true(h: Happened) -> Iterator[str]:
    """I13: a stop that was answered with success is on record once, one that was not answered at most once, one that was refused never.

    On the record of the run that it named; it also stands once with each run below that it stopped.
    """
    refs = {run["id"]: run["ref"] for run in h.history.runs}
    recorded = Counter((refs[cancel["run"]], cancel["reason"]) for cancel in h.history.cancels)
    for stop in h.stops:
        times = recorded[stop.run, stop.reason]
        if stop.status in (200, 202) or stop.code == "already_closed":
            right = times == 1
        elif stop.code:
            right = times == 0
        else:
            right = times <= 1
        if not right:
            yield f"I13 {stop.run}: answered {stop.status} {stop.code}, and recorded {times} times ({stop.reason})"
    asked = {stop.reason: stop.run for stop in h.stops}
    for (run, reason), times in recorded.items():
        if reason in asked and run != asked[reason]:
            above = recorded[asked[reason], reason]
            if times > 1 or not above:
                yield f"I13 {run}: the stop of {asked[reason]} reached it {times} times, and is recorded there {above} times"


JUDGES: dict[str, Callable[[Happened], Iterator[str]]] = {
    "the checker": invariants,
    "one order a reference": once_for_each_business_reference,
    "sending before arriving": nothing_arrives_without_a_durable_sending,
    "settled or with a person": everything_is_settled_or_with_a_person,
    "answers were true": every_answer_was_true,
    "commands and logs": lambda h: iter(h.said),
}


def violations(h: Happened) -> list[str]:
    """Everything that must not be, each with the judge that found it."""
    return [f"{name}: {line}" for name, judge in JUDGES.items() for line in judge(h)]
