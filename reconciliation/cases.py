"""Cases: opened and closed with the run's counter in one commit, claimed, and every act traced. It never judges what a person found."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q

from ledger import outcomes
from ledger import states as effect_states
from ledger.models import Effect
from reconciliation import states
from reconciliation.models import Case, CaseEvent
from runs import actors, closing, sweeps, timeline, transition
from runs.actors import Actor
from runs.book import book
from runs.errors import AlreadyDecided, ClaimedByOther, NotFound
from runs.models import Run

CLAIM_FOR = timedelta(minutes=30)


@dataclass
class Held:
    """A case locked after its run and its effect (those it has)."""

    case: Case
    run: Run | None
    effect: outcomes.Locked | None


def open_for_effect(held: outcomes.Locked, kind: str, why: str, actor: Actor, facts: dict[str, Any] | None = None) -> Case:
    """Open the case of a locked effect, or reopen the settled one of the same kind (its earlier findings stay visible)."""
    effect = held.effect
    case = Case.objects.filter(effect=effect, kind=kind).order_by("-opened_at").first()
    if case is not None and case.state != states.SETTLED:
        return case
    if case is None:
        case = Case(
            kind=kind,
            run=held.run,
            effect=effect,
            provider=effect.provider,
            business_ref=effect.provider_reference,
            amount=effect.amount,
            currency=effect.currency,
        )
    return _open(case, held.run, why, actor, facts)


def open_for_run(run: Run, kind: str, why: str, actor: Actor, facts: dict[str, Any] | None = None) -> Case:
    """Open the case of a locked run."""
    case = Case.objects.filter(run=run, effect__isnull=True, kind=kind).exclude(state=states.SETTLED).first()
    return case or _open(Case(kind=kind, run=run, business_ref=run.business_ref), run, why, actor, facts)


def open_without_run(kind: str, provider: str, why: str, actor: Actor, facts: dict[str, Any], reference: str = "") -> Case:
    """Open a case that counts for no run: an orphan webhook, or a provider that is down (once)."""
    if kind == states.PROVIDER_DOWN:
        case = Case.objects.filter(kind=kind, provider=provider).exclude(state=states.SETTLED).first()
        if case is not None:
            return case
    return _open(Case(kind=kind, provider=provider, business_ref=reference), None, why, actor, facts)


def _open(case: Case, run: Run | None, why: str, actor: Actor, facts: dict[str, Any] | None) -> Case:
    again = not case._state.adding
    case.state, case.why, case.facts = states.OPEN, why, facts or {}
    case.claimed_by, case.claimed_name, case.claimed_until = "", "", None
    case.settled_at, case.settled_by = None, ""
    case.reopened += int(again)
    case.version += int(again)
    case.opened_at = transition.clock()
    case.save()
    kind = "reopened" if again else "opened"
    trace(case, kind, actor, {"why": why})
    _count(case, run, +1, f"case.{kind}", actor)
    return case


def _count(case: Case, run: Run | None, change: int, kind: str, actor: Actor) -> None:
    if run is None:
        timeline.append_system(kind, actor, case.ref, {"case": case.kind})
        return
    # A case about an undo counts for its request, not for the run.
    run.needs_person += 0 if of_an_undo(case) else change
    transition.record(run, kind, actor, subject=case.ref, data={"case": case.kind} | ({"effect": case.effect.ref} if case.effect else {}))
    if run.is_closed:
        book().issue_accounts([run])
    elif change < 0:
        closing.advance(run, actor)


def of_an_undo(case: Case) -> bool:
    """Whether the case is about the effect that carries out an undo request."""
    return case.effect is not None and case.effect.role == effect_states.COMPENSATION


def trace(case: Case, kind: str, actor: Actor, data: dict[str, Any]) -> None:
    """Append one act to the case's own history."""
    CaseEvent(
        case=case,
        kind=kind,
        actor_type=actor.type,
        actor_id=actor.id,
        actor_name=actor.name,
        data=data,
        at=transition.clock(),
    ).save()


def lock(case_id: uuid.UUID) -> Held:
    """Lock a case after its run and effect. Raises `NotFound`."""
    case = Case.objects.filter(pk=case_id).first()
    if case is None:
        raise NotFound("No such case.")
    run = transition.lock(case.run_id) if case.run_id else None
    effect = outcomes.lock_in(run, case.effect_id) if run is not None and case.effect_id else None
    return Held(Case.objects.select_for_update().get(pk=case_id), run, effect)


def claim(actor: Actor, case_id: uuid.UUID, take_over: bool = False) -> Case:
    """Claim a case for 30 idle minutes. One wins; the other is told who has it, and may take it over explicitly."""
    actor.require(actors.CASE_SETTLE, None, "settle cases")
    with transaction.atomic(durable=True):
        now = transition.clock()
        free = Q(state=states.OPEN) | Q(state=states.CLAIMED, claimed_by=actor.id)
        lapsed = Q(state=states.CLAIMED, claimed_until__lte=now)
        allowed = Q(state=states.CLAIMED) | free if take_over else free | lapsed
        before = Case.objects.filter(pk=case_id).first()
        if before is None:
            raise NotFound("No such case.")
        anew = before.claimed_by != actor.id
        claimed = Case.objects.filter(allowed, pk=case_id).update(
            state=states.CLAIMED,
            claimed_by=actor.id,
            claimed_name=actor.name,
            claimed_until=now + CLAIM_FOR,
            version=F("version") + int(anew),
        )
        case = Case.objects.get(pk=case_id)
        if not claimed:
            raise _why_not(case)
        if anew:
            how = "taken_over" if before.claimed_by else "claimed"
            trace(case, how, actor, {"from": before.claimed_name})
            timeline.append_system(f"case.{how}", actor, case.ref)
        return case


def check_free(actor: Actor, case: Case) -> None:
    """Refuse an act on a case that is settled, waits for a second person, or is held by somebody else."""
    if case.state == states.SETTLED:
        raise AlreadyDecided(f"{case.ref} was settled by {case.settled_by}.", state=case.state)
    if case.state == states.AWAITING_SECOND:
        raise AlreadyDecided(f"{case.ref} waits for a second person to confirm.", state=case.state)
    held = case.claimed_until is not None and case.claimed_until > transition.clock()
    if case.state == states.CLAIMED and held and case.claimed_by != actor.id:
        raise ClaimedByOther(f"{case.claimed_name} has claimed {case.ref}.", by=case.claimed_name)


def _why_not(case: Case) -> AlreadyDecided | ClaimedByOther:
    if case.state == states.CLAIMED:
        return ClaimedByOther(
            f"{case.claimed_name} has claimed {case.ref}. Take it over only if you must; they are told.",
            by=case.claimed_name,
            until=case.claimed_until.isoformat() if case.claimed_until else None,
        )
    return AlreadyDecided(f"{case.ref} is {case.state}.", state=case.state)


def release_lapsed() -> int:
    """Claims that have been idle for 30 minutes are free again; returns how many."""
    with transaction.atomic(durable=True):
        lapsed = Case.objects.filter(state=states.CLAIMED, claimed_until__lte=transition.clock())
        count = lapsed.update(state=states.OPEN, claimed_by="", claimed_name="", claimed_until=None, version=F("version") + 1)
        if count:
            timeline.append_system("case.claims_lapsed", actors.system("sweep"), data={"count": count})
    return count


def close(held: Held, actor: Actor, finding: dict[str, Any]) -> None:
    """Settle a locked case, with the run's counter in the same commit."""
    case = held.case
    if case.state == states.SETTLED:
        return
    case.state, case.finding = states.SETTLED, finding
    case.settled_at, case.settled_by = transition.clock(), actor.name
    case.claimed_until = None
    case.version += 1
    case.save()
    trace(case, "settled", actor, finding)
    _count(case, held.run, -1, "case.settled", actor)


def settle_moot(limit: int = 200) -> int:
    """Settle the cases whose question has answered itself (a late answer, a run that stopped); returns how many."""
    unsettled = Case.objects.filter(state__in=states.UNSETTLED).exclude(kind=states.ORPHAN)
    doubt = ["pending", "unknown", "ambiguous"]
    answered = unsettled.filter(
        (Q(kind__in=[states.NO_LOOKUP, states.NOT_FOUND_SENDER_ALIVE, states.CEILING]) & ~Q(effect__state__in=doubt))
        | (Q(kind=states.CONFLICTING) & ~Q(effect__state="conflicted"))
        | (Q(kind=states.ABSENT_ASK) & ~Q(effect__release="asked"))
        | (Q(kind=states.DOES_NOT_STOP) & (Q(run__closed_at__isnull=False) | Q(run__lease_token__isnull=True)))
    )
    return sweeps.each(answered.values_list("pk", flat=True)[:limit], _settle_moot_one)


def _settle_moot_one(case_id: uuid.UUID) -> bool:
    with transaction.atomic(durable=True):
        held = lock(case_id)
        effect = held.effect.effect if held.effect else None
        if effect is not None and not moot(held.case, effect):
            return False
        finding = {"verdict": "settled_itself", "state": effect.state if effect else (held.run.state if held.run else "")}
        close(held, actors.system("reconciler"), finding)
        return True


def moot(case: Case, effect: Effect) -> bool:
    """Whether the question of an effect's case has answered itself."""
    match case.kind:
        case states.NO_LOOKUP | states.NOT_FOUND_SENDER_ALIVE | states.CEILING:
            return effect.state not in ("pending", "unknown", "ambiguous")
        case states.CONFLICTING:
            return effect.state != "conflicted"
        case states.ABSENT_ASK:
            return effect.release != "asked"
        case _:
            return False
