"""When an effect is due: for a look, for a person, and until when what proved absent may be sent again. By its provider's record."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q

from ledger import catalogue, states
from ledger.models import Effect
from ledger.providers.base import Capability
from runs import transition
from runs.models import Run


def renew(effect: Effect, was: str, run: Run) -> None:
    """Set on a changed effect when to look, when a person is due, and, when it is absent, whether it may be sent again."""
    now = transition.clock()
    record = catalogue.capability(effect.provider)
    if effect.state in (states.UNKNOWN, states.PENDING):
        effect.unknown_since = now
        effect.looks = 0
        effect.next_look_at = catalogue.look_due(record, now, 0)
        effect.person_after = _person_after(effect, was, record, now)
    elif effect.state != states.AMBIGUOUS:
        effect.next_look_at = effect.person_after = None
        effect.look_token = effect.look_until = None
        effect.unknowable = False
    effect.release = _release(effect, run, now) if effect.state == states.ABSENT else ""


def _person_after(effect: Effect, was: str, record: Capability, now: datetime) -> datetime:
    """The ceiling of a doubt counts from its beginning: an answer of *pending* sets it once, to when the provider decides, and no later."""
    if effect.state == states.PENDING and record.final_within_s is not None:
        effect.final_by = effect.final_by or now + timedelta(seconds=record.final_within_s)
        return effect.final_by
    if record.lookup == "none" or was == states.PENDING:
        return now
    return (was in states.DOUBT and effect.person_after) or now + timedelta(seconds=record.person_after_s)


def look_when_it_can_tell(effect: Effect, stopped: datetime) -> None:
    """From this moment on an empty look can count towards absence: do not wait for a later turn of the schedule."""
    record = catalogue.capability(effect.provider)
    if record.lookup not in ("strong", "eventual") or effect.state not in states.LOOKED_AT:
        return
    useful = stopped + timedelta(seconds=record.max_in_flight_s + record.lookup_lag_s)
    waits = Q(next_look_at__isnull=True, unknowable=False) | Q(next_look_at__gt=useful)
    Effect.objects.filter(waits, pk=effect.pk).update(next_look_at=useful)


def _release(effect: Effect, run: Run, now: datetime) -> str:
    """Whether an absent effect may be sent again: by policy, while the provider still honours our key; else a person is asked."""
    if run.is_closed or run.cancel_position is not None or effect.role != states.WORK:
        return "unasked"
    return "resend" if may_resend(effect, now) else "asked"


def may_resend(effect: Effect, now: datetime) -> bool:
    """Whether policy lets an absent effect be sent again: only while the provider still honours the key of the first send."""
    record = catalogue.capability(effect.provider)
    window = record.idempotency_window_s
    fresh = window is not None and effect.sent_at is not None and now < effect.sent_at + timedelta(seconds=window)
    return record.after_absent == "resend" and fresh


def asks_when_sent_before(provider: str, now: datetime) -> datetime:
    """Of what proved absent in a run that closed: sent before this moment, a person is asked before any other run sends it."""
    record = catalogue.capability(provider)
    if record.after_absent != "resend" or record.idempotency_window_s is None:
        return now
    return now - timedelta(seconds=record.idempotency_window_s)
