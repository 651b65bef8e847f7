"""Whether a provider can be asked at present: one row each, one alert, which clears itself. An outage says nothing about any effect."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Case, DateTimeField, ExpressionWrapper, F, Value, When
from django.db.models.functions import Greatest, Least, Now, Random

from ledger import catalogue, states
from ledger.models import Effect
from reconciliation.models import ProviderHealth
from runs import actors, timeline, transition

FAILURES_BEFORE_ALERT = 3
NOTED_EVERY = timedelta(seconds=1)
RECOVERY_SPREAD = timedelta(seconds=5)
LOOKED_BY = timedelta(seconds=60)
NOT_PUT_OFF_LONGER = timedelta(hours=1)
RECONCILER = actors.system("reconciler")


def reached(provider: str) -> None:
    """A look was answered. Ends an outage: the alert clears, and what waited for the provider is looked at soon."""
    lately = ProviderHealth.objects.filter(pk=provider, unreachable_since=None, alerted_at=None, last_answer_at__gt=Now() - NOTED_EVERY)
    if lately.exists():  # a commit for each of many answers would tell nothing new
        return
    with transaction.atomic(durable=True):
        row = lock(provider)
        was_down, alerted = row.unreachable_since, row.alerted_at
        row.last_answer_at, row.unreachable_since, row.failures, row.alerted_at, row.detail = transition.clock(), None, 0, None, ""
        row.save()
        if alerted is not None:
            timeline.append_system("provider.up", RECONCILER, provider, {"down_since": str(was_down)})
            _look_soon(provider)


def not_reached(provider: str, detail: str, denied: bool) -> None:
    """A look told us nothing. The third in a row, or being denied access once, raises the one alert."""
    with transaction.atomic(durable=True):
        row = lock(provider)
        now = transition.clock()
        row.unreachable_since = row.unreachable_since or now
        row.failures += 1
        row.detail = detail[:500]
        if row.alerted_at is None and (denied or row.failures >= FAILURES_BEFORE_ALERT):
            row.alerted_at = now
            timeline.append_system("provider.down", RECONCILER, provider, {"detail": row.detail, "denied": denied})
        row.save()


def last_answer_at(provider: str) -> datetime | None:
    """When the provider last answered a look about anything."""
    return ProviderHealth.objects.filter(pk=provider).values_list("last_answer_at", flat=True).first()


def unreachable_since(provider: str) -> datetime | None:
    """Since when the provider has not answered, or None when it does."""
    return ProviderHealth.objects.filter(pk=provider).values_list("unreachable_since", flat=True).first()


def lock(provider: str) -> ProviderHealth:
    """The row of a provider, locked until the transaction ends."""
    ProviderHealth.objects.get_or_create(pk=provider)
    return ProviderHealth.objects.select_for_update().get(pk=provider)


def _look_soon(provider: str) -> None:
    """Look at everything that waited for the provider, as fast as its rate allows; no person is asked before it has had that chance.

    Effects that somebody holds keep their turn.
    """
    waiting = Effect.objects.filter(provider=provider, state__in=states.LOOKED_AT, next_look_at__isnull=False)
    count = waiting.count()
    if not count:
        return
    record, now = catalogue.capability(provider), transition.clock()
    spread = max(RECOVERY_SPREAD, timedelta(seconds=count / record.rate_per_s))
    free = waiting.select_for_update(skip_locked=True, no_key=True).values("pk")
    soon = ExpressionWrapper(Now() + Random() * Value(spread), output_field=DateTimeField())
    over = Value(now + spread + LOOKED_BY, output_field=DateTimeField())
    # One that stays unanswered while its provider comes and goes is not put off for ever.
    oldest = now - timedelta(seconds=record.person_after_unreachable_s) - NOT_PUT_OFF_LONGER
    young = When(person_after__isnull=False, unknown_since__gt=oldest, then=Greatest("person_after", over))
    had = Case(young, default=F("person_after"))
    Effect.objects.filter(pk__in=free).update(next_look_at=Least("next_look_at", soon), person_after=had)
