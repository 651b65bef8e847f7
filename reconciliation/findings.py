"""What a person found about a case: evidence first, then the verdict it carries. Nothing here ever sends anything."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.db import transaction

from ledger import outcomes, surplus
from ledger.models import Effect
from ledger.outcomes import Fact
from reconciliation import cases, evidence, files, looks, orphans, second, states
from reconciliation.cases import Held
from reconciliation.evidence import Finding
from reconciliation.models import Case
from runs import actors, hints, transition, waiting
from runs.actors import Actor
from runs.errors import AlreadyDecided, SamePerson


@dataclass(frozen=True)
class Settled:
    """What became of a finding: `settled`, `kept` (evidence, the case stays open, `why` says so) or `awaiting_second`."""

    outcome: str
    case: Case
    why: str = ""


def settle(actor: Actor, case_id: uuid.UUID, finding: Finding) -> Settled:
    """Record a finding. Raises `ClaimedByOther`, `AlreadyDecided`, `EvidenceRequired`, `Invalid`."""
    actor.require(actors.CASE_SETTLE, None, "settle cases")
    if finding.verdict == states.BELONGS_TO:
        return Settled("settled", *orphans.assign(actor, case_id, finding))
    with transaction.atomic(durable=True):
        held = cases.lock(case_id)
        cases.check_free(actor, held.case)
        evidence.check(held.case, finding)
        files.check(held.case, finding.files)
        _check_recent(actor, held.case)
        if held.effect is not None and cases.moot(held.case, held.effect.effect):
            effect = held.effect.effect
            raise AlreadyDecided(f"{held.case.ref} has just answered itself: {effect.ref} is {effect.state}.", state=effect.state)
        if alive := _alive(held, finding):
            return _keep(actor, held, finding, alive)
        if why := second.why_needed(held.effect.effect if held.effect else None, finding):
            return _ask_second(actor, held, finding, why)
        _carry_out(actor, held, finding)
        cases.close(held, actor, finding.as_json())
        return Settled("settled", held.case)


def _check_recent(actor: Actor, case: Case) -> None:
    if case.amount is not None:
        actor.require_recent("settle a case about money")


def _alive(held: Held, finding: Finding) -> str:
    """The workers that were never confirmed stopped, where that keeps *it did not happen* from being a verdict."""
    if held.effect is None or finding.verdict != states.DID_NOT_HAPPEN or finding.sender_gone.strip():
        return ""
    return ", ".join(sorted({attempt.holder or "without a name" for attempt in held.effect.attempts if attempt.stopped_at is None}))


def _keep(actor: Actor, held: Held, finding: Finding, alive: str) -> Settled:
    assert held.effect is not None
    outcomes.note(held.effect, _fact(finding, "absent", held.effect.effect), actor, "kept")
    why = f"Kept as evidence. Worker {alive} was never confirmed stopped: say how you know that it is gone."
    cases.trace(held.case, "evidence", actor, finding.as_json() | {"why": why})
    transition.record(held.effect.run, "case.evidence", actor, subject=held.case.ref)
    return Settled("kept", held.case, why)


def _fact(finding: Finding, verdict: str, effect: Effect, confirmed_by: Actor | None = None) -> Fact:
    confirmed = {"confirmed_by": confirmed_by.name, "confirmed_by_id": confirmed_by.id} if confirmed_by else {}
    return Fact(
        source="person",
        verdict=verdict,
        external_id=finding.external_id,
        amount=finding.amount,
        currency=finding.currency or (effect.currency if finding.amount is not None else ""),
        provider_time=finding.seen_at,
        detail=finding.as_json() | confirmed,
    )


def _carry_out(actor: Actor, held: Held, finding: Finding, confirmed_by: Actor | None = None) -> None:
    """What a verdict means for the effect. `actor` found it; `confirmed_by` agreed, where two were needed."""
    if held.effect is None:
        return
    effect = held.effect.effect
    match finding.verdict:
        case states.HAPPENED | states.HAPPENED_DIFFERENTLY:
            outcomes.find(held.effect, _fact(finding, "landed", effect, confirmed_by), actor)
        case states.DID_NOT_HAPPEN:
            _sender_gone(actor, held.effect, finding)
            outcomes.find(held.effect, _fact(finding, "absent", effect, confirmed_by), actor)
        case states.CANNOT_BE_KNOWN:
            _mark_unknowable(actor, held)
        case states.SURPLUS_NAMED:
            surplus.name(held.effect, finding.surplus, _fact(finding, "duplicated", effect), actor)
        case states.SEND_AGAIN | states.LEAVE:
            effect.release = "released" if finding.verdict == states.SEND_AGAIN else "left"
            outcomes.move(held.effect, effect.state, actor, {"release": effect.release}, always=True)
            waiting.reconsider(held.effect.run, actor)


def _sender_gone(actor: Actor, locked: outcomes.Locked, finding: Finding) -> None:
    """This person's statement how they know that the process is gone is the evidence for every sender that nobody had seen stop."""
    now = transition.clock()
    for attempt in locked.attempts:
        if attempt.stopped_at is None:
            attempt.stopped_at, attempt.stopped_how = now, "person"
            gone = Fact(source="person", verdict="sender_stopped", detail={"how": finding.sender_gone})
            outcomes.keep(locked.effect, gone, "applied", actor, attempt.number)


def _ask_second(actor: Actor, held: Held, finding: Finding, why: str) -> Settled:
    case = held.case
    case.state, case.finding = states.AWAITING_SECOND, finding.as_json() | {"by": actor.id, "by_name": actor.name, "why_second": why}
    case.claimed_by, case.claimed_name, case.claimed_until = "", "", None
    case.version += 1
    case.save()
    cases.trace(case, "second_asked", actor, finding.as_json())
    if held.run is not None:
        about = {"effect": held.effect.effect.ref} if held.effect else {}
        transition.record(held.run, "case.second_asked", actor, subject=case.ref, data=about)
    return Settled("awaiting_second", case, why)


def confirm(actor: Actor, case_id: uuid.UUID, agree: bool) -> Case:
    """The second person's word on a finding. It must be another person; disagreeing puts the case back in the queue."""
    actor.require(actors.CASE_SETTLE, None, "settle cases")
    with transaction.atomic(durable=True):
        held = cases.lock(case_id)
        case = held.case
        if case.state != states.AWAITING_SECOND or case.finding is None:
            raise AlreadyDecided(f"{case.ref} does not wait for a second person.", state=case.state)
        told = case.finding
        if told["by"] == actor.id:
            raise SamePerson("You recorded this finding, so someone else must confirm it.")
        _check_recent(actor, case)
        if not agree:
            _disagree(actor, held)
        elif held.effect is not None and cases.moot(case, held.effect.effect):
            cases.close(held, actor, {"verdict": "settled_itself", "state": held.effect.effect.state})
        else:
            finder = Actor("person", told["by"], told["by_name"], actor.channel)
            _carry_out(finder, held, evidence.from_json(told), confirmed_by=actor)
            cases.close(held, actor, told | {"confirmed_by": actor.name})
        return case


def _disagree(actor: Actor, held: Held) -> None:
    case = held.case
    cases.trace(case, "second_disagreed", actor, {})
    case.state, case.finding = states.OPEN, None
    case.version += 1
    case.save()
    if held.run is not None:
        transition.record(held.run, "case.second_disagreed", actor, subject=case.ref)


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


def pass_on(actor: Actor, case_id: uuid.UUID, notes: str) -> Case:
    """I can't tell: give the case back to the queue with what is known so far."""
    actor.require(actors.CASE_SETTLE, None, "settle cases")
    with transaction.atomic(durable=True):
        held = cases.lock(case_id)
        case = held.case
        cases.check_free(actor, case)
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
