"""What a person found about a case: evidence first, then the verdict it carries. Nothing here ever sends anything."""

from __future__ import annotations

import uuid
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from ledger import outcomes
from ledger.models import Effect
from ledger.outcomes import Fact
from reconciliation import cases, looks, states
from reconciliation.cases import Held
from reconciliation.models import Case
from runs import actors, hints, transition, waiting
from runs.actors import Actor
from runs.errors import AlreadyDecided, ClaimedByOther, EvidenceRequired, Invalid, SamePerson


@dataclass(frozen=True)
class Finding:
    """A person's answer. `amount` is minor units; `seen_at` is by the provider's own clock; `sender_gone` says how they know that it is."""

    verdict: str
    external_id: str = ""
    amount: int | None = None
    currency: str = ""
    seen_where: str = ""
    seen_at: datetime | None = None
    notes: str = ""
    sender_gone: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"seen_at": self.seen_at.isoformat() if self.seen_at else None}


@dataclass(frozen=True)
class Settled:
    """What became of a finding: `settled`, `kept` (evidence, the case stays open, `why` says so) or `awaiting_second`."""

    outcome: str
    case: Case
    why: str = ""


def settle(actor: Actor, case_id: uuid.UUID, finding: Finding) -> Settled:
    """Record a finding. Raises `ClaimedByOther`, `AlreadyDecided`, `EvidenceRequired`, `Invalid`."""
    actor.require(actors.CASE_SETTLE, None, "settle cases")
    with transaction.atomic(durable=True):
        held = cases.lock(case_id)
        _check(actor, held.case, finding)
        if held.effect is not None and cases.moot(held.case, held.effect.effect):
            effect = held.effect.effect
            raise AlreadyDecided(f"{held.case.ref} has just answered itself: {effect.ref} is {effect.state}.", state=effect.state)
        match finding.verdict:
            case states.HAPPENED | states.HAPPENED_DIFFERENTLY:
                return _happened(actor, held, finding)
            case states.DID_NOT_HAPPEN:
                return _did_not_happen(actor, held, finding)
            case states.CANNOT_BE_KNOWN:
                return _ask_second(actor, held, finding)
            case states.SEND_AGAIN | states.LEAVE:
                return _decide_absent(actor, held, finding)
            case _:
                return _done(actor, held, finding)


def _check(actor: Actor, case: Case, finding: Finding) -> None:
    if case.state == states.SETTLED:
        raise AlreadyDecided(f"{case.ref} was settled by {case.settled_by}.", state=case.state)
    if case.state == states.AWAITING_SECOND:
        raise AlreadyDecided(f"{case.ref} waits for a second person to confirm.", state=case.state)
    if case.state == states.CLAIMED and case.claimed_by != actor.id:
        raise ClaimedByOther(f"{case.claimed_name} has claimed {case.ref}.", by=case.claimed_name)
    allowed = states.VERDICTS[case.kind]
    if finding.verdict not in allowed:
        raise Invalid(f"verdict must be one of {', '.join(allowed) or 'none: this case settles itself'}.", field="verdict")
    if finding.seen_where and finding.seen_where not in states.WHERE_SEEN:
        raise Invalid(f"seen_where must be one of {', '.join(states.WHERE_SEEN)}.", field="seen_where")
    decides_money = finding.verdict in (states.HAPPENED, states.HAPPENED_DIFFERENTLY, states.DID_NOT_HAPPEN)
    if finding.verdict in (states.HAPPENED, states.HAPPENED_DIFFERENTLY) and not finding.external_id.strip():
        raise EvidenceRequired("Give the provider's own reference of what happened.", field="external_id")
    if decides_money and not (finding.external_id or (finding.seen_where and finding.seen_at)):
        raise EvidenceRequired("Say where you saw it and when by their clock: free text alone is not evidence.", field="seen_where")
    if finding.verdict == states.HAPPENED_DIFFERENTLY and finding.amount is None:
        raise EvidenceRequired("Give the amount that was really moved, in minor units.", field="amount")
    if finding.amount is not None and finding.amount < 0:
        raise Invalid("amount must be a whole number of minor units, from 0.", field="amount")
    _check_recent(actor, case)


def _check_recent(actor: Actor, case: Case) -> None:
    if case.amount is not None:
        actor.require_recent("settle a case about money")


def _fact(finding: Finding, verdict: str, effect: Effect) -> Fact:
    return Fact(
        source="person",
        verdict=verdict,
        external_id=finding.external_id,
        amount=finding.amount,
        currency=finding.currency or (effect.currency if finding.amount is not None else ""),
        provider_time=finding.seen_at,
        detail=finding.as_json(),
    )


def _happened(actor: Actor, held: Held, finding: Finding) -> Settled:
    assert held.effect is not None
    outcomes.find(held.effect, _fact(finding, "landed", held.effect.effect), actor)
    return _done(actor, held, finding)


def _did_not_happen(actor: Actor, held: Held, finding: Finding) -> Settled:
    """Needs every sender stopped, or this person's statement how they know that the process is gone."""
    assert held.effect is not None
    alive = [a for a in held.effect.attempts if a.stopped_at is None]
    if alive and not finding.sender_gone.strip():
        outcomes.note(held.effect, _fact(finding, "absent", held.effect.effect), actor, "kept")
        names = ", ".join(sorted({a.holder for a in alive}))
        why = f"Kept as evidence. Worker {names} was never confirmed stopped: say how you know that it is gone."
        cases.trace(held.case, "evidence", actor, finding.as_json() | {"why": why})
        transition.record(held.effect.run, "case.evidence", actor, subject=held.case.ref)
        return Settled("kept", held.case, why)
    now = transition.clock()
    for attempt in alive:
        attempt.stopped_at, attempt.stopped_how = now, "person"
        gone = Fact(source="person", verdict="sender_stopped", detail={"how": finding.sender_gone})
        outcomes.keep(held.effect.effect, gone, "applied", actor, attempt.number)
    outcomes.find(held.effect, _fact(finding, "absent", held.effect.effect), actor)
    return _done(actor, held, finding)


def _ask_second(actor: Actor, held: Held, finding: Finding) -> Settled:
    case = held.case
    case.state, case.finding = states.AWAITING_SECOND, finding.as_json() | {"by": actor.id, "by_name": actor.name}
    case.claimed_by, case.claimed_name, case.claimed_until = "", "", None
    case.version += 1
    case.save()
    cases.trace(case, "second_asked", actor, finding.as_json())
    if held.run is not None:
        about = {"effect": held.effect.effect.ref} if held.effect else {}
        transition.record(held.run, "case.second_asked", actor, subject=case.ref, data=about)
    return Settled("awaiting_second", case, "A second person must confirm that it cannot be known.")


def confirm(actor: Actor, case_id: uuid.UUID, agree: bool) -> Case:
    """The second person's word on a finding. It must be another person; disagreeing puts the case back in the queue."""
    actor.require(actors.CASE_SETTLE, None, "settle cases")
    with transaction.atomic(durable=True):
        held = cases.lock(case_id)
        case = held.case
        if case.state != states.AWAITING_SECOND or case.finding is None:
            raise AlreadyDecided(f"{case.ref} does not wait for a second person.", state=case.state)
        if case.finding["by"] == actor.id:
            raise SamePerson("You recorded this finding, so someone else must confirm it.")
        _check_recent(actor, case)
        if not agree:
            cases.trace(case, "second_disagreed", actor, {})
            case.state, case.finding = states.OPEN, None
            case.version += 1
            case.save()
            return case
        if held.effect is not None and cases.moot(case, held.effect.effect):
            cases.close(held, actor, {"verdict": "settled_itself", "state": held.effect.effect.state})
            return case
        _mark_unknowable(actor, held)
        cases.close(held, actor, case.finding | {"confirmed_by": actor.name})
        return case


def _mark_unknowable(actor: Actor, held: Held) -> None:
    """It stays unknown in the account, its action stays held, and whoever waits for it is told that it cannot be known."""
    assert held.effect is not None and held.run is not None
    effect, run = held.effect.effect, held.run
    if effect.unknowable:
        return
    effect.unknowable, effect.next_look_at, effect.person_after = True, None, None
    run.in_doubt -= 1
    run.unknowable += 1
    outcomes.move(held.effect, effect.state, actor, {"unknowable": True}, always=True)
    outcomes.follow(run, actor)


def _decide_absent(actor: Actor, held: Held, finding: Finding) -> Settled:
    assert held.effect is not None and held.run is not None
    effect = held.effect.effect
    effect.release = "released" if finding.verdict == states.SEND_AGAIN else "left"
    outcomes.move(held.effect, effect.state, actor, {"release": effect.release}, always=True)
    done = _done(actor, held, finding)
    waiting.reconsider(held.run, actor)
    return done


def _done(actor: Actor, held: Held, finding: Finding) -> Settled:
    cases.close(held, actor, finding.as_json())
    return Settled("settled", held.case)


def pass_on(actor: Actor, case_id: uuid.UUID, notes: str) -> Case:
    """I can't tell: give the case back to the queue with what is known so far."""
    actor.require(actors.CASE_SETTLE, None, "settle cases")
    with transaction.atomic(durable=True):
        held = cases.lock(case_id)
        case = held.case
        if case.state not in (states.OPEN, states.CLAIMED):
            raise AlreadyDecided(f"{case.ref} is {case.state}.", state=case.state)
        if case.state == states.CLAIMED and case.claimed_by != actor.id:
            raise ClaimedByOther(f"{case.claimed_name} has claimed {case.ref}.", by=case.claimed_name)
        case.state, case.claimed_by, case.claimed_name, case.claimed_until = states.OPEN, "", "", None
        case.version += 1
        case.save()
        cases.trace(case, "passed_on", actor, {"notes": notes})
        return case


def check_now(actor: Actor, operation_id: uuid.UUID) -> bool:
    """A person asks for a look at once; recorded. False when there is nothing to look for."""
    actor.require(actors.CASE_READ, None, "ask for a check")
    if not looks.ask_now(operation_id):
        return False
    with transaction.atomic(durable=True):
        held = outcomes.lock(operation_id)
        transition.record(held.run, "look.asked", actor, subject=held.effect.ref)
    hints.nudge("looks.due")
    return True
