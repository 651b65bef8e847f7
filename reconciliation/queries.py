"""Reading cases: who may see which, filters, and pages by keyset. Never counts, never changes anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q, QuerySet

from reconciliation import states
from reconciliation.models import Case
from runs import actors, queries
from runs.actors import ANY_AGENT, Actor
from runs.calls import run_id
from runs.errors import NotAllowed, NotFound
from runs.ids import parse_ref, parse_uuid
from runs.queries import Page


@dataclass(frozen=True)
class CaseFilter:
    """What a list of cases is narrowed by; empty means any, except that settled ones are left out unless they are asked for."""

    state: Sequence[str] = states.UNSETTLED
    kind: Sequence[str] = ()
    provider: Sequence[str] = ()
    run: str = ""
    q: str = ""


def readable(actor: Actor) -> QuerySet[Case]:
    """The cases that the actor may read: a machine those of its own agents' runs. Raises `NotAllowed`."""
    actor.require(actors.CASE_READ, None, "read cases")
    rows = Case.objects.select_related("run", "effect")
    if actor.type != "machine" or ANY_AGENT in actor.agents:
        return rows
    return rows.filter(run__agent__in=sorted(actor.agents))


def read_case(actor: Actor, text: str) -> Case:
    """The case named by id or reference, in any case, with or without dashes. Raises `NotFound`, `NotAllowed`."""
    actor.require(actors.CASE_READ, None, "read cases")
    ref, pk = parse_ref(text, "Q"), parse_uuid(text)
    case = Case.objects.select_related("run", "effect").filter(Q(ref=ref) if ref else Q(pk=pk)).first() if ref or pk else None
    if case is None:
        raise NotFound(f"No case is called {text[:60]!r}. Use its id, or its reference such as Q-7K2M9Q4TXA.")
    agent = case.run.agent if case.run else None
    if actor.type == "machine" and ANY_AGENT not in actor.agents and agent not in actor.agents:
        raise NotAllowed(f"{actor.name} may not read cases of {agent or 'no agent'}.", needs=actors.CASE_READ)
    return case


def find_cases(actor: Actor, wanted: CaseFilter, cursor: str | None = None, limit: int = 50) -> Page[Case]:
    """A page of the cases that the actor may read and that are wanted, the latest opened first."""
    rows = readable(actor)
    # The partial indexes know `not settled`, not a list of the other states.
    unsettled = frozenset(wanted.state) == frozenset(states.UNSETTLED)
    rows = rows.exclude(state=states.SETTLED) if unsettled else rows.filter(state__in=wanted.state)
    if wanted.kind:
        rows = rows.filter(kind__in=wanted.kind)
    if wanted.provider:
        rows = rows.filter(provider__in=wanted.provider)
    if wanted.run:
        rows = rows.filter(run=run_id(wanted.run))
    if wanted.q.strip():
        rows = rows.filter(named(wanted.q.strip()))
    return queries.page(rows, "opened_at", "id", cursor, limit)


def named(text: str) -> Q:
    """A reference or id means exactly that; anything else is the start of a business reference."""
    if pk := parse_uuid(text):
        return Q(pk=pk) | Q(run=pk) | Q(effect=pk)
    for prefix, field in (("Q", "ref"), ("R", "run__ref"), ("E", "effect__ref")):
        if ref := parse_ref(text, prefix):
            return Q(**{field: ref})
    return Q(business_ref__startswith=text)
