"""Where notifications go: the administrators' pages. Doors: they parse, ask, render."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from console.notifications import endpoints, queries, states
from console.notifications.endpoints import Wanted
from console.notifications.models import Endpoint
from console.pages.guard import number, page
from console.pages.runs import actor_of
from runs.actors import Actor
from runs.errors import Invalid, NotFound, Stale

BASE = "/settings/notifications/"
VERBS: dict[str, Callable[[Actor, uuid.UUID], Any]] = {
    "rotate": endpoints.rotate,
    "retire": endpoints.retire,
    "enable": endpoints.enable,
    "disable": endpoints.disable,
    "test": endpoints.test,
}


@page("GET")
def endpoint_list(request: HttpRequest) -> HttpResponse:
    """`/settings/notifications/`."""
    found = list(queries.readable(actor_of(request)))
    return render(request, "notifications/list.html", {"endpoints": [_shown(one) for one in found], "base": BASE})


@page("GET", "POST")
def new(request: HttpRequest) -> HttpResponse:
    """`…/new`: the form of a new endpoint; sent, the endpoint."""
    actor = actor_of(request)
    queries.readable(actor)
    if request.method != "POST":
        return render(request, "notifications/new.html", {"form": {"medium": states.WEBHOOK}, "kinds": _kinds(()), "base": BASE})
    wanted = _wanted(request)
    try:
        endpoint = endpoints.add(actor, wanted)
    except Invalid as wrong:
        return render(request, "notifications/new.html", _again(wanted, wrong) | {"base": BASE}, status=400)
    return redirect(f"{BASE}{endpoint.pk}/")


@page("GET", "POST")
def detail(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """`…/{id}/`: an endpoint, its form and its delivery log; sent, changed."""
    actor = actor_of(request)
    endpoint = queries.read(actor, pk)
    if request.method != "POST":
        return render(request, "notifications/detail.html", _context(endpoint))
    wanted = _wanted(request)
    try:
        endpoints.change(actor, pk, wanted, number(request.POST.get("version")) or 0)
    except (Invalid, Stale) as wrong:
        return render(request, "notifications/detail.html", _context(endpoint) | _again(wanted, wrong), status=wrong.status)
    return redirect(f"{BASE}{pk}/")


@page("POST")
def secret(request: HttpRequest, pk: uuid.UUID) -> HttpResponse:
    """`…/{id}/secret`: shows the newest secret, once."""
    actor = actor_of(request)
    shown = endpoints.reveal(actor, pk)
    gone = None if shown else {"title": "It was shown before.", "detail": "Nobody can see it again. Make a new one instead."}
    context = _context(queries.read(actor, pk)) | {"secret": shown, "problem": gone}
    return render(request, "notifications/detail.html", context, status=200 if shown else 409)


@page("POST")
def act(request: HttpRequest, pk: uuid.UUID, verb: str) -> HttpResponse:
    """`…/{id}/rotate`, `retire`, `enable`, `disable`, `test`."""
    if verb not in VERBS:
        raise NotFound("There is no such page.")
    actor = actor_of(request)
    try:
        VERBS[verb](actor, pk)
    except Invalid as wrong:
        problem = {"title": "Not done.", "detail": wrong.detail}
        return render(request, "notifications/detail.html", _context(queries.read(actor, pk)) | {"problem": problem}, status=400)
    return redirect(f"{BASE}{pk}/")


def _wanted(request: HttpRequest) -> Wanted:
    sent = request.POST
    kinds = tuple(dict.fromkeys(sent.getlist("kinds")))
    return Wanted(sent.get("name", "").strip(), sent.get("medium", ""), sent.get("target", "").strip(), kinds)


def _again(wanted: Wanted, wrong: Invalid | Stale) -> dict[str, Any]:
    """The form as it was sent, with what is wrong with it."""
    form = {"name": wanted.name, "medium": wanted.medium, "target": wanted.target}
    problem = {"title": "Not saved.", "detail": wrong.detail}
    return {"form": form, "kinds": _kinds(wanted.kinds), "wrong": wrong.facts.get("field", ""), "problem": problem}


def _kinds(chosen: tuple[str, ...] | list[str]) -> list[dict[str, Any]]:
    return [{"value": value, "label": label, "on": value in chosen} for value, label in states.KINDS.items()]


def _shown(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "id": endpoint.pk,
        "name": endpoint.name,
        "medium": "Webhook" if endpoint.medium == states.WEBHOOK else "E-mail",
        "target": endpoint.target,
        "kinds": ", ".join(states.KINDS[kind] for kind in endpoint.kinds),
        "enabled": endpoint.enabled,
        "disabled_why": endpoint.disabled_why,
        "failing_since": endpoint.failing_since,
        "failures": endpoint.failures,
    }


def _context(endpoint: Endpoint) -> dict[str, Any]:
    return {
        "base": BASE,
        "endpoint": _shown(endpoint) | {"version": endpoint.version, "signed": endpoint.medium == states.WEBHOOK},
        "form": {"name": endpoint.name, "medium": endpoint.medium, "target": endpoint.target},
        "kinds": _kinds(endpoint.kinds),
        "secrets": len(endpoint.salts),
        "unseen": endpoint.unseen,
        "log": [_line(one) for one in queries.log(endpoint)],
    }


_STATE_WORDS = {
    states.PENDING: "Waiting",
    states.DELIVERED: "Delivered",
    states.GIVEN_UP: "Given up",
    states.DROPPED: "Dropped: the endpoint was disabled",
}


def _line(delivery: Any) -> dict[str, Any]:
    message = delivery.message
    return {
        "id": delivery.pk,
        "what": states.WORDS[message.kind],
        "reference": message.reference if message.kind != states.TEST else "",
        "webhook_id": message.webhook_id,
        "made_at": message.made_at,
        "state": delivery.state,
        "state_words": _STATE_WORDS[delivery.state],
        "next_at": delivery.next_at if delivery.state == states.PENDING and delivery.tries else None,
        "tries": sorted(delivery.attempts.all(), key=lambda one: one.number),
    }
