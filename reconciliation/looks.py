"""Asking providers about effects in doubt: what is due is leased, asked outside any transaction, and kept as evidence.

A look is a question under the business reference. It never sends anything again, and two reconcilers never ask about one effect at once.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q

from ledger import catalogue, outcomes, reversals, states
from ledger.models import Effect, Evidence
from ledger.outcomes import Fact, Locked
from ledger.providers.base import Look, Sought
from ledger.reversals import UNDOING
from reconciliation import health, verdicts
from reconciliation.health import RECONCILER
from reconciliation.models import ProviderHealth
from runs import sweeps, transition
from runs.models import ClockTimestamp

LEASE = timedelta(seconds=60)
PROBE_EVERY = timedelta(seconds=5)
DOWN_RETRY_S = (15.0, 300.0)
AT_ONCE = timedelta(seconds=1)


@dataclass(frozen=True)
class Ticket:
    """The right to look at one effect once, until the look lease ends."""

    operation_id: uuid.UUID
    token: uuid.UUID


def take_due(limit: int = 50) -> list[Ticket]:
    """Lease the effects whose look is due, within each provider's rate. One that is down is only probed, so that nothing waits for it."""
    return _take_of(_due_providers(), limit)


def _due_providers() -> list[str]:
    due = Effect.objects.filter(next_look_at__lte=transition.clock(), state__in=states.LOOKED_AT)
    return list(due.order_by("provider").values_list("provider", flat=True).distinct())


def _take_of(providers: list[str], limit: int) -> list[Ticket]:
    return [ticket for provider in providers for ticket in _take(provider, limit)]


def _take(provider: str, limit: int) -> list[Ticket]:
    rate = catalogue.capability(provider).rate_per_s
    with transaction.atomic(durable=True):
        row = health.lock(provider)
        now = transition.clock()
        if row.alerted_at is not None:
            return _probe(row, now)
        burst_from = now - timedelta(seconds=max(1.0, 1 / rate))
        free_from = max(row.looks_taken_at or burst_from, burst_from)
        allowed = max(0, min(limit, int(round((now - free_from).total_seconds() * rate, 3))))
        tickets = _lease(provider, now, allowed)
        ProviderHealth.objects.filter(pk=provider).update(looks_taken_at=free_from + timedelta(seconds=len(tickets) / rate))
        return tickets


def _probe(row: ProviderHealth, now: datetime) -> list[Ticket]:
    """One look at a time, whatever waits: it finds out whether the provider is back."""
    if row.looks_taken_at is not None and row.looks_taken_at > now:
        return []
    tickets = _lease(row.provider, now, 1)
    ProviderHealth.objects.filter(pk=row.provider).update(looks_taken_at=now + PROBE_EVERY)
    return tickets


def look_for(seconds: float, at_once: int = 10) -> int:
    """Take and look at what is due, in small batches, for about so long; returns how many looks were made.

    What is leased is looked at soon, and a sweep that takes longer than its turn keeps no other waiting.
    """
    until, made = time.monotonic() + seconds, 0
    providers = _due_providers()  # once a turn: after an outage it reads through everything that waits
    while time.monotonic() < until and (tickets := _take_of(providers, at_once)):
        made += sweeps.each(tickets, look)
    return made


def _lease(provider: str, now: datetime, count: int) -> list[Ticket]:
    due = Effect.objects.select_for_update(skip_locked=True, no_key=True).filter(
        Q(look_until__isnull=True) | Q(look_until__lte=now), provider=provider, next_look_at__lte=now, state__in=states.LOOKED_AT
    )
    taken, token = list(due.order_by("next_look_at").values_list("pk", flat=True)[:count]), uuid.uuid4()
    Effect.objects.filter(pk__in=taken).update(look_token=token, look_until=now + LEASE)
    return [Ticket(pk, token) for pk in taken]


def look(ticket: Ticket) -> str:
    """Ask the provider about one leased effect and keep what it says. Returns the verdict that was read."""
    mine = Effect.objects.filter(pk=ticket.operation_id, look_token=ticket.token, state__in=states.LOOKED_AT)
    if not mine.update(look_until=ClockTimestamp() + LEASE):  # it may have waited behind slow ones: whoever has it now looks
        return "not_due"
    effect = Effect.objects.get(pk=ticket.operation_id)
    wanted = sought(effect)
    began, version = transition.clock(), effect.version
    answer = catalogue.provider(effect.provider).look(wanted)
    reading = verdicts.read(answer, wanted)
    denied = answer.outcome == "refused_access"
    if reading.verdict != verdicts.UNREACHABLE:
        health.reached(effect.provider)
    elif not (denied and _denied_alone(effect)):
        health.not_reached(effect.provider, answer.detail, denied)
    with transaction.atomic(durable=True):
        held = outcomes.lock_in(transition.lock(effect.run_id), effect.pk)
        _keep(held, _fact(answer, reading, began, version if held.effect.version == version else None))
        _schedule(held, reading, ticket.token)
    return reading.verdict


def _denied_alone(effect: Effect) -> bool:
    """This object was denied before and others were answered since: our access to it is refused, the provider is not down."""
    answered = health.last_answer_at(effect.provider)
    denials = effect.evidence.filter(source="look", verdict=verdicts.UNREACHABLE, detail__outcome="refused_access")
    return answered is not None and denials.filter(at__lt=answered).exists()


def sought(effect: Effect) -> Sought:
    """What the provider is asked about. `sent_at` is the first send: nothing of this operation is older."""
    assert effect.sent_at is not None
    return Sought(
        provider_reference=effect.provider_reference,
        operation_id=str(effect.operation_id),
        external_id=effect.external_id or None,
        action=effect.action,
        amount=effect.amount,
        currency=effect.currency or None,
        sent_at=effect.sent_at,
        undoes=effect.request.get("undoes") if effect.role == states.COMPENSATION else None,
    )


def _fact(answer: Look, reading: verdicts.Reading, began: datetime, version: int | None) -> Fact:
    found = reading.found
    return Fact(
        source="look",
        verdict=reading.verdict,
        external_id=found.external_id if found else "",
        amount=found.amount if found else None,
        currency=(found.currency or "") if found else "",
        reference=found.reference if found else "",
        provider_time=found.at if found else None,
        began_at=began,
        effect_version=version,
        http_status=answer.http_status,
        body=answer.body,
        body_sha256=answer.body_sha256,
        request_id=answer.request_id or "",
        detail={
            "outcome": answer.outcome,
            "detail": answer.detail[:500],
            **_several(reading),
            **{name: told for name in UNDOING if found and (told := getattr(found, name)) is not None},
        },
    )


def _several(reading: verdicts.Reading) -> dict[str, Any]:
    if not reading.several:
        return {}
    objects = [{"external_id": one.external_id, "amount": one.amount, "currency": one.currency} for one in reading.several]
    return {"external_ids": [one.external_id for one in reading.several], "objects": objects}


def _keep(held: Locked, fact: Fact) -> None:
    if fact.verdict == verdicts.UNREACHABLE:
        outcomes.note(held, fact, RECONCILER, "no_information")
    elif fact.verdict == verdicts.EMPTY:
        outcomes.note(held, fact, RECONCILER, "applied" if fact.effect_version is not None else "no_information")
        conclude(held)
    else:
        reversals.tell(held, fact, RECONCILER)


def conclude(held: Locked) -> None:
    """Prove absence from the evidence, if it suffices."""
    record = catalogue.capability(held.effect.provider)
    if held.effect.state in states.LOOKED_AT and verdicts.is_absent(senders(held), empty_looks(held), record):
        proof = {"looks": len(empty_looks(held)), "senders": [a.stopped_how for a in held.attempts]}
        outcomes.tell(held, Fact(source="look", verdict=states.ABSENT, detail=proof), RECONCILER)


def senders(held: Locked) -> list[verdicts.Sender]:
    """The effect's attempts as absence sees them."""
    return [verdicts.Sender(a.stopped_at, a.state == states.NOT_SENT) for a in held.attempts]


def empty_looks(held: Locked) -> list[verdicts.EmptyLook]:
    """The usable empty looks since the present doubt began."""
    since = held.effect.unknown_since
    rows = Evidence.objects.filter(effect=held.effect, source="look", verdict=verdicts.EMPTY, began_at__isnull=False)
    if since is not None:
        rows = rows.filter(began_at__gte=since)
    return [verdicts.EmptyLook(row.began_at, row.effect_version is not None) for row in rows if row.began_at is not None]


def _schedule(held: Locked, reading: verdicts.Reading, token: uuid.UUID) -> None:
    """When to look next. An unreachable provider uses up no look of the schedule; nothing in doubt is ever simply dropped."""
    effect = held.effect
    values: dict[str, object] = {"look_token": None, "look_until": None} if effect.look_token == token else {}
    if effect.state in states.LOOKED_AT:
        if reading.verdict == verdicts.UNREACHABLE:
            values["next_look_at"] = _retry_while_down(effect)
        else:
            values["looks"] = effect.looks + 1
            values["next_look_at"] = next_due(held, effect.looks + 1, reading.verdict == verdicts.EMPTY)
    Effect.objects.filter(pk=effect.pk).update(**values)


def next_due(held: Locked, looks: int, empty: bool) -> datetime | None:
    """The earlier of the provider's schedule and, after an empty look, the first moment at which another could prove absence."""
    effect, record = held.effect, catalogue.capability(held.effect.provider)
    now = transition.clock()
    due = catalogue.look_due(record, effect.unknown_since or now, looks)
    if due is not None and due <= now:
        due = now + timedelta(seconds=record.look_spacing_s)
    useful = verdicts.useful_look_at(senders(held), empty_looks(held), record) if empty else None
    times = [due] if due is not None else []
    if useful is not None:
        times.append(max(useful, now + AT_ONCE))
    return min(times, default=None)


def _retry_while_down(effect: Effect) -> datetime:
    now = transition.clock()
    least, most = DOWN_RETRY_S
    down_for = (now - (health.unreachable_since(effect.provider) or effect.unknown_since or now)).total_seconds()
    first = catalogue.capability(effect.provider).look_schedule_s[0]
    return now + timedelta(seconds=max(min(least, first), min(most, down_for / 4)) * random.uniform(0.9, 1.1))  # noqa: S311


def ask_now(operation_id: uuid.UUID) -> bool:
    """A person asks to check now: the next look is due at once. False when the effect is not in doubt (or cannot be looked up)."""
    asked = Effect.objects.filter(pk=operation_id, state__in=states.LOOKED_AT)
    effect = asked.first()
    if effect is None or catalogue.capability(effect.provider).lookup == "none":
        return False
    asked.update(next_look_at=transition.clock())
    return True
