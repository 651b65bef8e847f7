"""Nothing stays in doubt without a person for ever: the ceilings, and the cases that other states call for. Found by reading rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Subquery
from django.db.models.functions import Coalesce

from ledger import catalogue, outcomes, states, surplus
from ledger.models import Effect, Evidence
from ledger.outcomes import Locked
from reconciliation import cases, health, looks
from reconciliation import states as cs
from reconciliation.health import RECONCILER
from reconciliation.models import Case
from runs import cleanup, sweeps, transition
from runs.models import Cleanup, Run, Step
from runs.states import CANCELLING

STOP_WITHIN = timedelta(minutes=15)  # for a run whose steps say no deadline
LOOK_OVERDUE = timedelta(minutes=2)


def pass_ceilings(limit: int = 200) -> int:
    """Effects past their ceiling go to a person (or wait out an outage in one grouped case); returns how many were handled."""
    now = transition.clock()
    due = Effect.objects.filter(person_after__lte=now, state__in=[states.UNKNOWN, states.PENDING]).order_by("person_after")
    return _each(due.values_list("pk", flat=True)[:limit], _pass_ceiling)


def _pass_ceiling(held: Locked) -> None:
    effect, now = held.effect, transition.clock()
    if effect.person_after is None or effect.person_after > now or effect.state not in (states.UNKNOWN, states.PENDING):
        return
    if effect.state == states.PENDING:
        effect.final_by = effect.final_by or now
        outcomes.move(held, states.UNKNOWN, RECONCILER, {"why": "final_by passed"})
        return
    record = catalogue.capability(effect.provider)
    if record.lookup != "none" and health.unreachable_since(effect.provider) is not None:
        _wait_out(held)
        return
    if record.lookup != "none" and _look_at_hand(effect, now):
        return
    kind, why = _why(held)
    outcomes.move(held, states.AMBIGUOUS, RECONCILER, {"why": why})
    cases.open_for_effect(held, kind, why, RECONCILER)


def _look_at_hand(effect: Effect, now: datetime) -> bool:
    """A look is due just now (a provider is back): let it speak before a person is asked. One that is not taken puts off nothing."""
    return effect.next_look_at is not None and now - LOOK_OVERDUE <= effect.next_look_at <= now + health.RECOVERY_SPREAD


def _wait_out(held: Locked) -> None:
    """During an outage an effect waits longer for a person; past that, all of them stand in one case for the provider."""
    effect, now = held.effect, transition.clock()
    record = catalogue.capability(effect.provider)
    limit = (effect.unknown_since or now) + timedelta(seconds=record.person_after_unreachable_s)
    if limit <= now:
        since = health.lock(effect.provider).unreachable_since  # locked, so that two sweeps open one case
        if since is not None:
            why = f"{effect.provider} has not answered since {since:%Y-%m-%d %H:%M} UTC. What is unknown there is asked again by itself."
            cases.open_without_run(cs.PROVIDER_DOWN, effect.provider, why, RECONCILER, {"since": since.isoformat()})
        limit = now + timedelta(seconds=60)
    Effect.objects.filter(pk=effect.pk).update(person_after=min(limit, now + timedelta(seconds=60)))


def _why(held: Locked) -> tuple[str, str]:
    effect = held.effect
    if catalogue.capability(effect.provider).lookup == "none":
        return cs.NO_LOOKUP, f"{effect.provider} cannot be asked about {effect.action}. Only a person can find out."
    empty = len(looks.empty_looks(held))
    alive = sorted({a.holder for a in held.attempts if a.stopped_at is None})
    if empty and alive:
        found = f"{empty} look{'s' if empty > 1 else ''} found nothing, but worker {', '.join(alive)} was never confirmed stopped."
        return cs.NOT_FOUND_SENDER_ALIVE, found
    return cs.CEILING, f"After {effect.looks} checks {effect.provider} has not told us whether it happened."


def open_wanted(limit: int = 200) -> int:
    """Open the cases that an effect's state calls for: conflicted, duplicated, absent and asked about. Returns how many."""
    opened = 0
    for state, kind in ((states.CONFLICTED, cs.CONFLICTING), (states.DUPLICATED, cs.DUPLICATED)):
        wanted = Effect.objects.filter(state=state, unknowable=False).exclude(_has_case(kind, settled_too=kind == cs.DUPLICATED))
        if kind == cs.DUPLICATED:
            wanted = wanted | Effect.objects.filter(state=state).exclude(_has_case(kind)).filter(_found_since_settled())
        opened += _each(wanted.values_list("pk", flat=True)[:limit], partial(_open_wanted, kind=kind))
    asked = Effect.objects.filter(state=states.ABSENT, release="asked").exclude(_has_case(cs.ABSENT_ASK))
    return opened + _each(asked.values_list("pk", flat=True)[:limit], partial(_open_wanted, kind=cs.ABSENT_ASK))


def open_left_behind(limit: int = 100) -> int:
    """One case for each run whose cleanup is over and left something behind, listing all of it; returns how many were opened."""
    left = Run.objects.filter(cleanups__state=cleanup.LEFT_BEHIND).exclude(
        Exists(Case.objects.filter(run=OuterRef("pk"), kind=cs.LEFT_BEHIND))
    )
    left = left.exclude(Exists(Cleanup.objects.filter(run=OuterRef("pk"), state__in=cleanup.OPEN)))
    ids = list(left.distinct().values_list("pk", flat=True)[:limit])
    for run_id in ids:
        with transaction.atomic(durable=True):
            run = transition.lock(run_id)
            items = cleanup.lines(run, cleanup.LEFT_BEHIND)
            names = "; ".join(f"{item['key']}: {item['why']}" for item in items)
            cases.open_for_run(run, cs.LEFT_BEHIND, f"Cleanup did not reach {names}.", RECONCILER, {"items": items})
    return len(ids)


def _found_since_settled() -> Exists:
    """Something was found again after a person had named the surplus."""
    settled = Case.objects.filter(effect=OuterRef("effect"), kind=cs.DUPLICATED).order_by("-settled_at").values("settled_at")[:1]
    later = Evidence.objects.filter(effect=OuterRef("pk"), verdict__in=[states.DUPLICATED, states.LANDED], at__gt=Subquery(settled))
    return Exists(later.exclude(source="person"))


def _has_case(kind: str, settled_too: bool = False) -> Exists:
    rows = Case.objects.filter(effect=OuterRef("pk"), kind=kind)
    return Exists(rows if settled_too else rows.exclude(state=cs.SETTLED))


def _open_wanted(held: Locked, kind: str) -> None:
    effect = held.effect
    if kind == cs.CONFLICTING and effect.state == states.CONFLICTED and not effect.unknowable:
        cases.open_for_effect(held, kind, _conflict(effect), RECONCILER)
    elif kind == cs.DUPLICATED and effect.state == states.DUPLICATED:
        ids = [one.external_id for one in surplus.objects(effect)]
        if set(ids) <= _already_judged(effect):
            return
        why = f"Found {len(ids)} times at {effect.provider}: {', '.join(ids)}. Say which are the surplus."
        cases.open_for_effect(held, kind, why, RECONCILER, {"external_ids": ids})
    elif kind == cs.ABSENT_ASK and effect.state == states.ABSENT and effect.release == "asked":
        why = f"Proved not to have happened. Shall {effect.action} {effect.provider_reference} be sent again?"
        cases.open_for_effect(held, kind, why, RECONCILER)


def _conflict(effect: Effect) -> str:
    said = [f"{e.source} says {e.verdict}" for e in effect.evidence.order_by("at") if e.verdict not in ("empty", "unreachable")]
    holder = (
        Effect.objects.filter(**effect.action_key, holds_action=True).exclude(pk=effect.pk).select_related("run").first()
        if not effect.holds_action
        else None
    )
    also = f" The same business action is also held by {holder.ref} of {holder.run.ref}." if holder else ""
    return f"Answers disagree: {'; '.join(said[-4:])}. Nothing is repeated meanwhile.{also}"


def _already_judged(effect: Effect) -> set[str]:
    """The objects that a person has already said something about."""
    case = Case.objects.filter(effect=effect, kind=cs.DUPLICATED, state=cs.SETTLED).order_by("-settled_at").first()
    return set(case.facts.get("external_ids", [])) if case is not None else set()


def watch_stopping(limit: int = 100) -> int:
    """A worker that goes on answering but does not stop: a case that offers Terminate. Returns how many were opened.

    It has until the deadline of what it does, or `STOP_WITHIN` where that has none (or none left when the cancel came).
    """
    doing = Step.objects.filter(run=OuterRef("pk"), state__in=["running", "timed_out"], deadline_at__gt=OuterRef("asked_at"))
    by = doing.order_by("-deadline_at").values("deadline_at")[:1]
    stopping = Run.objects.filter(state=CANCELLING, lease_token__isnull=False)
    late = stopping.annotate(stop_by=Coalesce(Subquery(by), F("asked_at") + STOP_WITHIN)).filter(stop_by__lte=transition.clock())
    late = late.exclude(Exists(Case.objects.filter(run=OuterRef("pk"), kind=cs.DOES_NOT_STOP).exclude(state=cs.SETTLED)))
    return sweeps.each(late.values_list("pk", flat=True)[:limit], _open_does_not_stop)


def _open_does_not_stop(run_id: uuid.UUID) -> bool:
    with transaction.atomic(durable=True):
        run = transition.lock(run_id)
        if run.state != CANCELLING or run.lease_token is None:
            return False
        why = f"Worker {run.lease_holder} still answers but has not stopped. Terminating would close the run without clean-up."
        cases.open_for_run(run, cs.DOES_NOT_STOP, why, RECONCILER)
        return True


def settle_outages() -> int:
    """The grouped case of a provider settles when it answers again and nothing that stood in it still waits; returns how many."""
    grouped = Case.objects.filter(kind=cs.PROVIDER_DOWN).exclude(state=cs.SETTLED)
    return sweeps.each(list(grouped.values_list("pk", "provider")), _settle_outage)


def _settle_outage(grouped: tuple[uuid.UUID, str]) -> bool:
    case_id, provider = grouped
    if health.unreachable_since(provider) is not None or _still_stands_in_it(provider):
        return False
    with transaction.atomic(durable=True):
        held = cases.lock(case_id)
        if health.unreachable_since(provider) is not None:
            return False
        cases.close(held, RECONCILER, {"verdict": "settled_itself"})
        return True


def _still_stands_in_it(provider: str) -> bool:
    """Whether an effect past the ceiling of an outage has neither an answer nor a case of its own yet.

    Settled before that, the grouped case would leave it standing nowhere.
    """
    now = transition.clock()
    over = timedelta(seconds=catalogue.capability(provider).person_after_unreachable_s)
    waiting = Effect.objects.filter(provider=provider, state=states.UNKNOWN, unknowable=False, unknown_since__lte=now - over)
    return waiting.exists()


def _each(ids: Iterable[uuid.UUID], handle: Callable[[Locked], None]) -> int:
    def handle_one(pk: uuid.UUID) -> bool:
        with transaction.atomic(durable=True):
            handle(outcomes.lock(pk))
        return True

    return sweeps.each(ids, handle_one)
