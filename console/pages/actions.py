"""`/live/actions`: what this person may do to what their page shows, for the places that a push leaves empty (docs/live.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from console.pages import fragments
from console.pages.guard import page
from console.pages.runs import actor_of
from ledger import pages as effect_pages
from ledger import undo_pages
from ledger.models import Effect
from ledger.states import WORK
from reconciliation.models import Case
from runs import actors, pages, queries
from runs.actors import Actor
from runs.ids import parse_uuid
from runs.models import Approval

IDS_MAX = 100
ROW, HEAD, CASE, EFFECT = "run-actions-", "run-head-actions-", "case-actions-", "effect-actions-"
APPROVAL, UNDO = "approval-actions-", "undo-actions-"


@page("GET")
def live_actions(request: HttpRequest) -> HttpResponse:
    """The inner HTML of each element asked for; what is unknown or may not be seen is left out."""
    ids, actor = request.GET.getlist("id")[:IDS_MAX], actor_of(request)
    items = [*_of_runs(request, ids, actor), *_of_cases(request, ids, actor), *_of_effects(ids, actor), *_of_inbox(ids, actor)]
    return JsonResponse({"type": "fragments", "items": items})


def _of_runs(request: HttpRequest, ids: list[str], actor: Actor) -> Iterable[dict[str, Any]]:
    wanted = {one: parse_uuid(one.removeprefix(ROW).removeprefix(HEAD)) for one in ids if one.startswith((ROW, HEAD))}
    runs = pages.by_id(pk for pk in wanted.values() if pk is not None)
    for one, pk in wanted.items():
        run = runs.get(pk) if pk else None
        if run is None or not queries.may_read(actor, run.agent):
            continue
        html = fragments.row_actions_html if one.startswith(ROW) else fragments.head_actions_html
        yield {"id": one, "html": html(request, run, actor)}


def _of_cases(request: HttpRequest, ids: list[str], actor: Actor) -> Iterable[dict[str, Any]]:
    wanted = {one: parse_uuid(one.removeprefix(CASE)) for one in ids if one.startswith(CASE)}
    if not wanted or not actor.may(actors.CASE_READ):
        return
    found = Case.objects.select_related("run", "effect__run").in_bulk([pk for pk in wanted.values() if pk is not None])
    for one, pk in wanted.items():
        case = found.get(pk) if pk else None
        if case is not None:
            yield {"id": one, "html": fragments.case_actions_html(request, case, actor)}


def _of_effects(ids: list[str], actor: Actor) -> Iterable[dict[str, Any]]:
    wanted = {one: parse_uuid(one.removeprefix(EFFECT)) for one in ids if one.startswith(EFFECT)}
    if not wanted:
        return
    found = Effect.objects.select_related("run").in_bulk([pk for pk in wanted.values() if pk is not None])
    seen = {pk: effect for pk, effect in found.items() if effect.role == WORK and queries.may_read(actor, effect.run.agent)}
    items = effect_pages.effect_actions(seen.values(), actor)
    for one, pk in wanted.items():
        item = items.get(str(pk))
        yield {"id": one, "html": fragments.effect_actions_html(item) if item else ""}


def _of_inbox(ids: list[str], actor: Actor) -> Iterable[dict[str, Any]]:
    questions = {pk: one for one in ids if one.startswith(APPROVAL) and (pk := parse_uuid(one.removeprefix(APPROVAL)))}
    undos = {pk: one for one in ids if one.startswith(UNDO) and (pk := parse_uuid(one.removeprefix(UNDO)))}
    for approval in Approval.objects.select_related("run").filter(pk__in=questions) if questions else ():
        if queries.may_read(actor, approval.run.agent):
            yield {"id": questions[approval.pk], "html": fragments.approval_actions_html(approval, actor)}
    for undo in undo_pages.by_id(undos) if undos else ():
        if queries.may_read(actor, undo.run.agent):
            yield {"id": undos[undo.pk], "html": fragments.undo_actions_html(undo, actor)}
