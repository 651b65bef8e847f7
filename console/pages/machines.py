"""Machine credentials under Settings. Doors: `console.machines` makes, replaces and revokes; a token is shown on one answer only."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from console import machines
from console.machines import Machine
from console.models import LIFE_DAYS_MAX, LIVE_SECRETS_MAX, Credential
from console.pages.guard import number, page
from console.pages.runs import actor_of
from console.recent import kept
from runs import actors, transition
from runs.errors import Problem

LIST, NEW = "settings/machines/list.html", "settings/machines/new.html"
LIST_URL = "/settings/machines/"
SCOPES = (
    (actors.RUN_WORK, "carry out runs of its agents"),
    (actors.RUN_READ, "read runs of its agents"),
    (actors.RUN_CANCEL, "cancel runs of its agents"),
    (actors.CASE_READ, "read cases"),
)


@page("GET")
def machine_list(request: HttpRequest) -> HttpResponse:
    """`/settings/machines/`."""
    return _list(request)


def _list(request: HttpRequest, made: tuple[Credential, str] | None = None) -> HttpResponse:
    now = transition.clock()
    shown = [_shown(machine, now) for machine in machines.machines(actor_of(request))]
    context: dict[str, Any] = {"machines": shown}
    if made is not None:
        context |= {"made": {"name": made[0].name, "token": made[1], "expires_at": made[0].expires_at}}
    return render(request, LIST, context)


def _shown(machine: Machine, now: Any) -> dict[str, Any]:
    live = {one.pk for one in machine.live(now)}
    secrets = [{"one": one, "state": _state(one, now), "live": one.pk in live} for one in machine.secrets]
    return {"name": machine.name, "secrets": secrets, "may_rotate": 0 < len(live) < LIVE_SECRETS_MAX, "newest": machine.secrets[0].pk}


def _state(one: Credential, now: Any) -> str:
    if one.revoked_at is not None:
        return "Revoked"
    return "Expired" if one.expires_at <= now else "Live"


@page("GET", "POST")
def new_machine(request: HttpRequest) -> HttpResponse:
    """`/settings/machines/new`."""
    actor = actor_of(request)
    if request.method == "GET":
        machines.machines(actor)  # refuses whoever may not
        return _new(request, kept(request))
    given: dict[str, Any] = {name: request.POST.get(name, "").strip() for name in ("name", "agents", "days")}
    scopes = request.POST.getlist("scopes")
    try:
        made = machines.issue(actor, given["name"], scopes, given["agents"].split(), number(given["days"]) or 0)
    except Problem as refused:
        if refused.status == 403:
            raise
        return _new(request, given | {"lists": {"scopes": scopes}}, refused)
    return _list(request, made)


def _new(request: HttpRequest, given: dict[str, Any], refused: Problem | None = None) -> HttpResponse:
    chosen = given.get("lists", {}).get("scopes", [])
    field = refused.facts.get("field", "") if refused else ""
    context = {
        "given": {"days": LIFE_DAYS_MAX} | given,
        "days_max": LIFE_DAYS_MAX,
        "scopes": [{"name": name, "what": what, "chosen": name in chosen} for name, what in SCOPES],
        "errors": {field: refused.detail} if refused and field else {},
        "problem": {"title": f"{refused.title}.", "detail": refused.detail} if refused else None,
    }
    return render(request, NEW, context, status=refused.status if refused else 200)


@page("POST", back=LIST_URL)
def rotate(request: HttpRequest, pk: str) -> HttpResponse:
    """A second secret for the same machine."""
    actor = actor_of(request)
    try:
        return _list(request, machines.rotate(actor, machines.read(actor, pk)))
    except Problem as refused:
        return _back(request, refused)


@page("POST", back=LIST_URL)
def revoke(request: HttpRequest, pk: str) -> HttpResponse:
    """This secret lets nobody in any more."""
    actor = actor_of(request)
    try:
        credential = machines.read(actor, pk)
        machines.revoke(actor, credential)
        messages.info(request, f"{credential} is revoked. Whoever uses it is refused from now on.")
    except Problem as refused:
        return _back(request, refused)
    return redirect(LIST_URL)


def _back(request: HttpRequest, refused: Problem) -> HttpResponse:
    if refused.status in (403, 404):
        raise refused
    messages.warning(request, refused.detail)
    return redirect(LIST_URL)
