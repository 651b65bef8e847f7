"""Reading effects: who may see which, filters, and pages by keyset. Never counts, never skips rows, never changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from ledger.models import Effect
from runs import actors, queries
from runs.actors import Actor
from runs.calls import run_id
from runs.errors import NotAllowed, NotFound
from runs.ids import parse_ref, parse_uuid
from runs.models import Run
from runs.queries import Page


@dataclass(frozen=True)
class EffectFilter:
    """What a list of effects is narrowed by; empty means any. `run` is a run's id or reference."""

    state: Sequence[str] = ()
    provider: Sequence[str] = ()
    action: Sequence[str] = ()
    run: str = ""
    business_ref: str = ""
    external_id: str = ""
    q: str = ""


def read_effect(actor: Actor, text: str) -> Effect:
    """The effect named by operation id or reference, in any case, with or without dashes. Raises `NotFound`, `NotAllowed`."""
    ref, pk = parse_ref(text, "E"), parse_uuid(text)
    named = Q(ref=ref) if ref else Q(pk=pk)
    effect = Effect.objects.select_related("run").filter(named).first() if ref or pk else None
    if effect is None:
        raise NotFound(f"No effect is called {text[:60]!r}. Use its operation id, or its reference such as E-7K2M9Q4TXA.")
    if not queries.may_read(actor, effect.run.agent):
        raise NotAllowed(f"{actor.name} may not read effects of {effect.run.agent}: it needs {actors.RUN_READ}.", needs=actors.RUN_READ)
    return effect


def find_effects(actor: Actor, wanted: EffectFilter, cursor: str | None = None, limit: int = 50) -> Page[Effect]:
    """A page of the effects that the actor may read and that are wanted, newest first, with their runs."""
    rows = queries.readable(actor, Effect.objects.select_related("run"), "run__agent")
    return queries.page(_narrow(rows, wanted), "created_at", "operation_id", cursor, limit)


def effects_of(run: Run, state: Sequence[str] = (), cursor: str | None = None, limit: int = 50) -> Page[Effect]:
    """A page of one run's effects, newest first."""
    rows = Effect.objects.select_related("run").filter(run=run)
    return queries.page(rows.filter(state__in=state) if state else rows, "created_at", "operation_id", cursor, limit)


def _narrow(rows: QuerySet[Effect], wanted: EffectFilter) -> QuerySet[Effect]:
    for name in ("state", "provider", "action"):
        if values := getattr(wanted, name):
            rows = rows.filter(**{f"{name}__in": values})
    if wanted.run:
        rows = rows.filter(run=run_id(wanted.run))
    if wanted.business_ref:
        rows = rows.filter(business_ref=wanted.business_ref)
    if wanted.external_id:
        rows = rows.filter(external_id=wanted.external_id)
    return rows.filter(_named(wanted.q.strip())) if wanted.q.strip() else rows


def _named(text: str) -> Q:
    """A reference or id means exactly that; anything else is the start of a business reference or a provider's id."""
    if pk := parse_uuid(text):
        return Q(pk=pk) | Q(run=pk)
    if ref := parse_ref(text, "E"):
        return Q(ref=ref)
    if ref := parse_ref(text, "R"):
        return Q(run__ref=ref)
    return Q(business_ref__startswith=text) | Q(external_id=text)
