"""Facts about effects: the one place where evidence is kept and an effect's state follows from it.

A fact is never refused and never fails on a constraint: it is applied, agrees, comes late, or contradicts (then a person decides).
Evidence, state, counters and event are one commit; nothing here starts a send.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from django.db import transaction

from ledger import endings, plain, settling, states, timetable
from ledger.models import Attempt, Effect, Evidence
from ledger.redaction import excerpt, sha256
from runs import actors, closing, hints, sweeps, transition, waiting
from runs.actors import Actor
from runs.book import book
from runs.errors import Invalid, NotFound
from runs.models import ClockTimestamp, Run


@dataclass(frozen=True)
class Fact:
    """One observation, as evidence keeps it. Amounts are minor units; `verdict` is a state name or a word of evidence (`empty`, …)."""

    source: str
    verdict: str
    external_id: str = ""
    amount: int | None = None
    currency: str = ""
    reference: str = ""
    provider_time: datetime | None = None
    began_at: datetime | None = None
    effect_version: int | None = None
    http_status: int | None = None
    body: str = ""
    body_sha256: str = ""
    request_id: str = ""
    signature: str = ""
    detail: dict[str, Any] = field(default_factory=dict)


@dataclass
class Locked:
    """A run, one of its effects and that effect's attempts, locked in this order until the transaction ends."""

    run: Run
    effect: Effect
    attempts: list[Attempt]


def lock(operation_id: uuid.UUID) -> Locked:
    """Lock an effect after its run. Raises `NotFound`."""
    run_id = Effect.objects.filter(pk=operation_id).values_list("run_id", flat=True).first()
    if run_id is None:
        raise NotFound(f"No effect with operation id {operation_id}.")
    return lock_in(transition.lock(run_id), operation_id)


def lock_in(run: Run, operation_id: uuid.UUID) -> Locked:
    """Lock an effect of a run that is locked already."""
    effect = Effect.objects.select_for_update().get(pk=operation_id, run=run)
    return Locked(run, effect, list(Attempt.objects.filter(effect=effect).order_by("number")))


def report(
    actor: Actor,
    operation_id: uuid.UUID,
    attempt: int,
    verdict: str,
    external_id: str = "",
    amount: int | None = None,
    currency: str = "",
    response: Any = None,
    observed_at: datetime | None = None,
) -> tuple[str, Effect]:
    """A sender reports what came of its attempt, with no lease and however late. Returns (used_as, effect).

    `verdict`: landed, refused, pending, unknown or not_sent; used_as: applied, agrees, late_evidence or conflicts.
    """
    if verdict not in states.REPORTABLE:
        raise Invalid(f"verdict must be one of {', '.join(states.REPORTABLE)}.", field="verdict")
    fact = Fact(
        source="sender",
        verdict=verdict,
        external_id=external_id,
        amount=amount,
        currency=currency,
        body=excerpt(response),
        body_sha256=sha256(response),
        # The sender's own clock: only what a provider says of itself is the provider's time.
        detail=({"observed_at": observed_at.isoformat()} if observed_at else {}) | _message(verdict, response),
    )
    return hear(actor, operation_id, attempt, fact)


def _message(verdict: str, response: Any) -> dict[str, str]:
    """Why a provider refused, in its own words, where they usually stand in an answer."""
    if verdict != states.REFUSED or not isinstance(response, dict):
        return {}
    inner = response.get("error")
    places = (response, inner) if isinstance(inner, dict) else (response,)
    words = (place.get(name) for place in places for name in ("message", "detail", "title"))
    said = next((word for word in words if isinstance(word, str) and word.strip()), "")
    return {"message": said.strip()[:500]} if said else {}


def hear(actor: Actor, operation_id: uuid.UUID, attempt: int, fact: Fact) -> tuple[str, Effect]:
    """What the sender of an attempt says of it, as evidence will keep it. Returns as `report`."""
    verdict = fact.verdict
    with transaction.atomic(durable=True):
        if (settled := plain.settle(actor, operation_id, attempt, fact)) is not None:
            return settled
        held = lock(operation_id)
        actor.require(actors.RUN_WORK, held.run.agent)
        index = next((i for i, a in enumerate(held.attempts) if a.number == attempt), None)
        if index is None:
            raise NotFound(f"{held.effect.ref} has no attempt {attempt}.", field="attempt")
        if held.attempts[index].reported_at is not None and _heard_before(held.effect, attempt, fact):
            return settling.AGREES, held.effect
        mismatch = does_not_match(held.effect, fact) if verdict == states.LANDED else ""
        if not mismatch and is_another_object(held.effect, fact):
            mismatch = f"{fact.external_id} beside {held.effect.external_id}"
        before = [a.state for a in held.attempts]
        judged = settling.from_sender(held.effect.state, before, index, verdict, _unsent(held), bool(mismatch))
        _hear_sender(held.attempts[index])
        apply(held, fact, judged, actor, attempt=attempt, note=mismatch)
        timetable.look_when_it_can_tell(held.effect, transition.clock())
        return judged.used_as, held.effect


def _heard_before(effect: Effect, attempt: int, fact: Fact) -> bool:
    """An exact repetition of a report (a lost answer, a spool) is no news: whatever has been made of it since then stands."""
    same = {"verdict": fact.verdict, "external_id": fact.external_id, "amount": fact.amount, "currency": fact.currency}
    return Evidence.objects.filter(effect=effect, attempt=attempt, source="sender", body_sha256=fact.body_sha256, **same).exists()


def _unsent(held: Locked) -> str:
    """What an effect becomes of which nothing was sent: a running run may send it yet, a stopping or closed one never will.

    An undo is begun once: if nothing of it left, it did not happen, and somebody may ask for another.
    """
    run = held.run
    if held.effect.role == states.COMPENSATION:
        return states.ABSENT
    if run.state == "running":
        return states.DECLARED
    return states.WITHHELD if run.is_closed or run.cancel_position is not None or run.state == "failing" else states.ABSENT


def _hear_sender(attempt: Attempt) -> None:
    """Its sender has spoken for this attempt: the attempt's bytes are over."""
    now = transition.clock()
    attempt.reported_at = attempt.reported_at or now
    if attempt.stopped_at is None:
        attempt.stopped_at, attempt.stopped_how = now, "outcome"


def tell(held: Locked, fact: Fact, actor: Actor) -> str:
    """A look or webhook about a locked effect. Returns how it was used."""
    if fact.verdict == states.PENDING and _overdue(held.effect):
        keep(held.effect, fact, settling.LATE, actor)
        return settling.LATE
    note = does_not_match(held.effect, fact) if fact.verdict in (states.LANDED, states.PENDING) else ""
    if not note and is_another_object(held.effect, fact):
        known = held.effect.external_id
        fact = replace(fact, verdict=states.DUPLICATED, detail={**fact.detail, "external_ids": [known, fact.external_id]})
    verdict = states.CONFLICTED if note else fact.verdict
    judged = settling.from_outside(held.effect.state, [a.state for a in held.attempts], verdict)
    apply(held, fact, judged, actor, note=note)
    return judged.used_as


def _overdue(effect: Effect) -> bool:
    """It should have been decided by now: that it is still pending moves nothing and puts off no ceiling."""
    waits = effect.state in (states.UNKNOWN, states.AMBIGUOUS)
    return waits and effect.final_by is not None and effect.final_by <= transition.clock()


def find(held: Locked, fact: Fact, actor: Actor) -> str:
    """A person's finding about a locked effect. Returns how it was used."""
    judged = settling.from_person(held.effect.state, [a.state for a in held.attempts], fact.verdict)
    apply(held, fact, judged, actor)
    return judged.used_as


def note(held: Locked, fact: Fact, actor: Actor, used_as: str = "late_evidence") -> None:
    """Keep an observation that moves nothing by itself (an empty or unreachable look, a stopped sender)."""
    keep(held.effect, fact, used_as, actor)


def does_not_match(effect: Effect, fact: Fact) -> str:
    """Why a confirmation is not of what we asked for ('' when it is): reference, amount and currency must be equal where told."""
    if fact.reference and fact.reference != effect.provider_reference:
        return f"reference {fact.reference} instead of {effect.provider_reference}"
    if fact.amount is not None and effect.amount is not None and fact.amount != effect.amount:
        return f"amount {fact.amount} instead of {effect.amount}"
    if fact.currency and effect.currency and fact.currency != effect.currency:
        return f"currency {fact.currency} instead of {effect.currency}"
    return ""


def is_another_object(effect: Effect, fact: Fact) -> bool:
    """Whether the provider confirms an object beside the one that we know: the action happened more than once."""
    known = effect.external_id if effect.state in states.LANDED_LIKE else ""
    return fact.verdict == states.LANDED and bool(known and fact.external_id) and known != fact.external_id


def keep(effect: Effect, fact: Fact, used_as: str, actor: Actor, attempt: int | None = None) -> None:
    """Append the evidence."""
    values = {name: getattr(fact, name) for name in Fact.__dataclass_fields__}
    Evidence(
        effect=effect,
        attempt=attempt,
        used_as=used_as,
        at=ClockTimestamp(),
        actor_type=actor.type,
        actor_id=actor.id,
        actor_name=actor.name,
        **values,
    ).save()


def apply(held: Locked, fact: Fact, judged: settling.Judgement, actor: Actor, attempt: int | None = None, note: str = "") -> None:
    """Keep the fact and write what was judged: attempts, effect, the run's counters and event, and all that follows for the run."""
    keep(held.effect, fact, judged.used_as, actor, attempt)
    for row, state in zip(held.attempts, judged.attempts, strict=True):
        row.state = state
    changed = judged.effect != held.effect.state
    if changed or judged.used_as == settling.APPLIED:
        _learn(held, fact, actor)
    elif judged.used_as == settling.AGREES and not held.effect.external_id:
        held.effect.external_id = fact.external_id  # it agrees, and also knows what the provider calls it
    data = {"verdict": fact.verdict, "source": fact.source, "used_as": judged.used_as, "attempt": attempt}
    move(
        held,
        judged.effect,
        actor,
        data | ({"mismatch": note} if note else {}),
        always=judged.used_as != settling.AGREES,
    )


def _learn(held: Locked, fact: Fact, actor: Actor) -> None:
    effect = held.effect
    effect.external_id = fact.external_id or effect.external_id
    effect.provider_time = fact.provider_time or effect.provider_time
    if message := fact.detail.get("message"):
        effect.provider_message = str(message)[:500]
    if fact.verdict in (states.LANDED, states.REVERSED):
        effect.landed_amount = effect.amount if fact.amount is None else fact.amount
        effect.landed_currency = fact.currency or effect.currency
    effect.how_we_know = fact.source if fact.source in ("sender", "look", "webhook", "person") else effect.how_we_know
    effect.known_by = actor.name if fact.source == "person" else ""


def move(held: Locked, state: str, actor: Actor, data: dict[str, Any], always: bool = False, alone: bool = False) -> None:
    """Bring a locked effect to `state` with its run's counters, in one event; then see what follows for the run.

    `alone`: the caller is itself stopping or closing the run, and sees to what follows.
    """
    run, effect = held.run, held.effect
    before, was = _counts(effect), effect.state
    if state != was and state not in states.MOVES[was]:
        raise AssertionError(f"{was} -> {state} is not a move of an effect")
    effect.state = state
    _mark(effect, was, run)
    for name, value in _counts(effect).items():
        setattr(run, name, getattr(run, name) + value - before[name])
    if state != was or always:
        kind = f"effect.{state}" if state != was else "effect.evidence"
        seq = transition.record(run, kind, actor, subject=effect.ref, data=data)
        if state != was and state not in (states.SENDING, states.DECLARED):
            effect.known_position, effect.known_at = seq, transition.clock()
    effect.version += 1
    _write(held)
    if effect.role == states.COMPENSATION and state != was:
        endings.follow(run, effect, actor)
    if state in (states.CONFLICTED, states.DUPLICATED) or effect.release == "asked":
        hints.nudge("case.wanted")
    if state != was and was in states.DOUBT:
        hints.nudge("operation.settled")
    if state != was and not alone:
        follow(run, actor)


def _counts(effect: Effect) -> dict[str, int]:
    return states.counts(effect.state, effect.role, effect.unknowable, effect.doubted)


def _mark(effect: Effect, was: str, run: Run) -> None:
    """What a new state means for the effect itself: its doubt, its timetable, and whether the business action is still held."""
    if effect.state == was:
        return
    effect.doubted = effect.doubted or effect.state in states.EVER_DOUBTED
    if effect.state in (states.WITHHELD, states.REFUSED, states.ABSENT):
        effect.holds_action = False
    timetable.renew(effect, was, run)


_FIXED = {"operation_id", "ref", "run_id", "step_key", "ordinal", "role", "acts_on_id", "created_at"}
_FIXED |= {"provider", "action", "business_ref", "occurrence", "amount", "currency", "request", "request_digest"}
_EFFECT_FIELDS = [f.attname for f in Effect._meta.concrete_fields if f.attname not in _FIXED]
_ATTEMPT_FIELDS = ["state", "reported_at", "stopped_at", "stopped_how"]


def _write(held: Locked) -> None:
    effect = held.effect
    Effect.objects.filter(pk=effect.pk).update(**{name: getattr(effect, name) for name in _EFFECT_FIELDS})
    for row in held.attempts:
        Attempt.objects.filter(pk=row.pk).update(**{name: getattr(row, name) for name in _ATTEMPT_FIELDS})


def follow(run: Run, actor: Actor) -> None:
    """What a changed effect means for its locked run: wake it, let it close, re-issue the account of a closed one."""
    if run.is_closed:
        book().issue_accounts([run])
    else:
        waiting.reconsider(run, actor)
        closing.advance(run, actor)


def time_out_due(limit: int = 200) -> int:
    """Attempts past their `answer_by`: silence means unknown. Returns how many."""
    due = Attempt.objects.filter(state=states.SENDING, answer_by__lte=transition.clock()).order_by("answer_by")
    return sweeps.each(due.values_list("effect_id", flat=True)[:limit], _time_out_one)


def _time_out_one(operation_id: uuid.UUID) -> bool:
    with transaction.atomic(durable=True):
        held = lock(operation_id)
        now = transition.clock()
        late = any(a.state == states.SENDING and a.answer_by <= now for a in held.attempts)
        if late:
            silence(held, "answer_by passed", actors.system("sweep"))
        return late


def silence(held: Locked, why: str, actor: Actor, alone: bool = False) -> None:
    """What is still sending becomes unknown, because nobody has said what came of it. The attempts are written in any case."""
    for row in held.attempts:
        if row.state == states.SENDING:
            row.state = states.UNKNOWN
    if held.effect.state == states.SENDING:
        move(held, states.UNKNOWN, actor, {"why": why}, alone=alone)
    else:
        move(held, held.effect.state, actor, {}, alone=alone)
