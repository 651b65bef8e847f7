"""One text, everything that it may name: runs, actions, cases, agents, labels. It reads a few rows of each, through indexes.

A reference, an id or a whole business reference is an exact hit; the start of one is a likely hit.
"""

from __future__ import annotations

import json
import unicodedata
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db import connection
from django.db.models import Q, QuerySet

from ledger.models import Compensation, Effect
from ledger.pages import name_of
from reconciliation import queries as case_queries
from reconciliation.models import Case
from reconciliation.queue import KIND_WORDS
from runs import actors, listing, queries
from runs.actors import Actor
from runs.ids import parse_ref, parse_uuid
from runs.models import Run

TEXT_MAX = 200
SHOWN_MAX = 20
LABELLED_MAX = 200


@dataclass(frozen=True)
class Hit:
    """Something that was found: where it is, what it is called, and what to say of it. `chip` is ("run" | "effect" | "", state)."""

    url: str
    ref: str
    says: str
    about: str = ""
    chip: tuple[str, str] = ("", "")
    at: datetime | None = None


@dataclass
class Group:
    """Hits of one kind; `more` when there are more than are shown."""

    title: str
    hits: list[Hit]
    more: bool = False
    all_url: str = ""


@dataclass
class Found:
    """`only` is the address of the single exact hit, if there is just one."""

    groups: list[Group] = field(default_factory=list)
    only: str = ""


def clean(text: str) -> str:
    """What is looked for: without characters that nobody sees, and no longer than a business reference."""
    return "".join(c for c in text if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Zl", "Zp")).strip()[:TEXT_MAX]


def find(actor: Actor, text: str) -> Found:
    """Everything that `text` may name and that the actor may read. Raises `NotAllowed` when it may read nothing."""
    runs = queries.readable(actor, Run.objects.all())
    text = clean(text)
    if not text:
        return Found()
    exact = _by_id(actor, runs, text)
    if exact:
        return Found(_groups(("Exactly this", exact)), exact[0].url if len(exact) == 1 else "")
    return _by_name(actor, runs, text)


def _by_id(actor: Actor, runs: QuerySet[Run], text: str) -> list[Hit]:
    """What a reference or an id names."""
    pk = parse_uuid(text)
    run, effect, case, undo = (Q(ref=ref) if (ref := parse_ref(text, prefix)) else None for prefix in "REQC")
    hits: list[Hit] = []
    if pk or run:
        hits += map(_run, runs.filter(run or Q(pk=pk)))
    if pk or effect:
        hits += map(_effect, _effects(actor).filter(effect or Q(pk=pk)))
    if (pk or case) and actor.may(actors.CASE_READ):
        hits += map(_case, case_queries.readable(actor).filter(case or Q(pk=pk)))
    if pk or undo:
        asked = queries.readable(actor, Compensation.objects.select_related("original", "run"), "run__agent")
        hits += map(_undo, asked.filter(undo or Q(pk=pk)))
    return hits


def _by_name(actor: Actor, runs: QuerySet[Run], text: str) -> Found:
    named = _some(runs.filter(business_ref=text))
    acted = _some(_effects(actor).filter(business_ref=text))
    provided = _some(_effects(actor).filter(external_id=text))
    places = {run.pk: f"/runs/{run.ref}/" for run in named} | {one.run_id: f"/runs/{one.run.ref}/" for one in acted}
    only = [*places.values(), *(f"/effects/{effect.ref}" for effect in provided)]
    cases = case_queries.readable(actor) if actor.may(actors.CASE_READ) else Case.objects.none()
    known = {row.pk for row in (*named, *acted, *provided)}
    starting = [run for run in _some(runs.filter(business_ref__startswith=text)) if run.pk not in known]
    touching = [one for one in _some(_effects(actor).filter(business_ref__startswith=text)) if one.pk not in known]
    groups = _groups(
        ("Exactly this business reference", [*map(_run, named), *map(_effect, acted)]),
        ("Exactly this id at a provider", map(_effect, provided)),
        ("Runs whose business reference starts so", map(_run, starting), f"/runs/?{urlencode({'q': text})}"),
        ("Actions whose business reference starts so", map(_effect, touching)),
        ("Cases whose business reference starts so", map(_case, _some(cases.filter(business_ref__startswith=text)))),
        ("Agents", map(_agent, _agents(actor, text))),
        ("Labels", map(_run, _labelled(runs, text))),
    )
    return Found(groups, only[0] if len(only) == 1 else "")


def _groups(*told: tuple[Any, ...]) -> list[Group]:
    groups = []
    for title, hits, *all_url in told:
        listed = list(hits)
        groups.append(Group(title, listed[:SHOWN_MAX], len(listed) > SHOWN_MAX, *all_url))
    return [group for group in groups if group.hits]


def _some(rows: QuerySet[Any]) -> list[Any]:
    """A few rows as the index gives their keys, the newest of those first: sorting all that match could be sorting everything, and the
    table, gone through for the first few, might have them at its end."""
    field_name = "opened_at" if rows.model is Case else "created_at"
    few = rows.filter(pk__in=rows.order_by().values("pk")[: SHOWN_MAX + 1])
    return sorted(few, key=lambda row: getattr(row, field_name), reverse=True)


def _effects(actor: Actor) -> QuerySet[Effect]:
    return queries.readable(actor, Effect.objects.select_related("run"), "run__agent")


def _agents(actor: Actor, text: str) -> Iterable[str]:
    return [name for name in listing.agents() if text.casefold() in name.casefold() and queries.may_read(actor, name)]


_LABELLED = "SELECT id FROM runs_run WHERE labels <> '{}'::jsonb AND labels @? %s::jsonpath LIMIT %s"


def _labelled(runs: QuerySet[Run], text: str) -> list[Run]:
    """Runs that carry a label: `key=value`, `key:value`, or a value under any key."""
    wanted = [f"$.* ? (@ == {json.dumps(text)})"]
    for sign in "=:":
        key, found, value = text.partition(sign)
        if found and key.strip() and value.strip():
            wanted.append(f"$.{json.dumps(key.strip())} ? (@ == {json.dumps(value.strip())})")
    ids: set[uuid.UUID] = set()
    with connection.cursor() as cursor:
        for path in wanted:
            cursor.execute(_LABELLED, [path, LABELLED_MAX])
            ids.update(pk for (pk,) in cursor.fetchall())
    found = runs.filter(pk__in=ids) if ids else []  # sorted here: in order, the whole table would be gone through for them
    return sorted(found, key=lambda run: run.created_at, reverse=True)[: SHOWN_MAX + 1]


def _run(run: Run) -> Hit:
    about = " ".join(filter(None, [run.business_ref, f"by {run.agent}"]))
    return Hit(f"/runs/{run.ref}/", run.ref, run.title, about, ("run", run.status), run.created_at)


def _effect(effect: Effect) -> Hit:
    what = f"{name_of(effect.action, effect.amount, effect.currency)} {effect.provider_reference}"
    about = " ".join(filter(None, [effect.external_id and f"{effect.external_id} at", effect.provider, f"in {effect.run.ref}"]))
    return Hit(f"/effects/{effect.ref}", effect.ref, what, about, ("effect", effect.state), effect.created_at)


def _case(case: Case) -> Hit:
    return Hit(f"/cases/{case.ref}/", case.ref, KIND_WORDS[case.kind], f"{case.business_ref} {case.state}".strip(), at=case.opened_at)


def _undo(asked: Compensation) -> Hit:
    """A request is shown with what it would undo."""
    what = f"Undo of {name_of(asked.original.action, asked.amount, asked.currency)}"
    return Hit(f"/effects/{asked.original.ref}", asked.ref, what, asked.state, at=asked.requested_at)


def _agent(name: str) -> Hit:
    return Hit(f"/runs/?{urlencode({'agent': name})}", "", name, "its runs")
