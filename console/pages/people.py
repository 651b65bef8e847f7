"""People under Settings. Doors: `console.people` decides who may do what to whom, and writes it down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from console import people
from console.pages.guard import page
from console.pages.runs import actor_of
from console.recent import kept
from runs.errors import Problem

LIST, NEW, ONE = "settings/people/list.html", "settings/people/new.html", "settings/people/detail.html"
ONE_URL = "/settings/people/{pk}/"
GROUPS = (
    ("Support", "stops runs, works on cases, asks for undos"),
    ("Approver", "stops runs, asks for undos, decides what runs and other people ask for"),
    ("Auditor", "reads everything, changes nothing"),
    ("Admin", "stops runs; looks after people, machine credentials, policies and rules"),
)


@page("GET")
def person_list(request: HttpRequest) -> HttpResponse:
    """`/settings/people/`."""
    return render(request, LIST, {"people": [_shown(user) for user in people.everyone(actor_of(request))]})


def _shown(user: User) -> dict[str, Any]:
    groups = [group.name for group in user.groups.all()]
    return {
        "name": user.get_full_name() or user.username,
        "username": user.username,
        "url": ONE_URL.format(pk=user.pk),
        "groups": sorted(groups),
        "active": user.is_active,
        "last_login": user.last_login,
        "has_password": user.has_usable_password(),
    }


@page("GET", "POST")
def new_person(request: HttpRequest) -> HttpResponse:
    """`/settings/people/new`: makes an account, then shows the link by which its person chooses a password."""
    actor = actor_of(request)
    if request.method == "GET":
        people.everyone(actor)  # refuses whoever may not
        return _new(request, kept(request))
    given = {name: request.POST.get(name, "").strip() for name in ("username", "first_name", "last_name")}
    groups = request.POST.getlist("groups")
    try:
        user = people.create(actor, given["username"], given["first_name"], given["last_name"], groups)
    except Problem as refused:
        if refused.status == 403:
            raise
        return _new(request, given | {"lists": {"groups": groups}}, refused)
    return _one(request, user, link=people.password_link(actor, user))


def _new(request: HttpRequest, given: dict[str, Any], refused: Problem | None = None) -> HttpResponse:
    chosen = given.get("lists", {}).get("groups", [])
    field = refused.facts.get("field", "") if refused else ""
    context = {
        "given": given,
        "groups": _groups(chosen),
        "errors": {field: refused.detail} if refused and field else {},
        "problem": {"title": f"{refused.title}.", "detail": refused.detail} if refused else None,
    }
    return render(request, NEW, context, status=refused.status if refused else 200)


def _groups(chosen: list[str]) -> list[dict[str, Any]]:
    return [{"name": name, "what": what, "chosen": name in chosen} for name, what in GROUPS]


@page("GET")
def person(request: HttpRequest, pk: str) -> HttpResponse:
    """`/settings/people/7/`: one person and what can be changed about them."""
    typed = kept(request)
    return _one(request, people.read(actor_of(request), pk), chosen=typed.get("lists", {}).get("groups"))


def _one(request: HttpRequest, user: User, link: str = "", chosen: list[str] | None = None) -> HttpResponse:
    shown = _shown(user)
    context = {
        "person": shown,
        "groups": _groups(shown["groups"] if chosen is None else chosen),
        "is_me": user.pk == request.user.pk,
        "link": request.build_absolute_uri(link) if link else "",
    }
    return render(request, ONE, context)


@page("POST", back=ONE_URL)
def set_groups(request: HttpRequest, pk: str) -> HttpResponse:
    """Exactly the groups that are ticked."""
    actor = actor_of(request)
    user = people.read(actor, pk)
    return _act(request, user, lambda: people.set_groups(actor, user, request.POST.getlist("groups")), "What they may do is changed.")


@page("POST", back=ONE_URL)
def deactivate(request: HttpRequest, pk: str) -> HttpResponse:
    """Keep somebody out."""
    actor = actor_of(request)
    user = people.read(actor, pk)
    said = "They can't get in any more. Their name stays in every history."
    return _act(request, user, lambda: people.set_active(actor, user, False), said)


@page("POST", back=ONE_URL)
def activate(request: HttpRequest, pk: str) -> HttpResponse:
    """Let somebody in again."""
    actor = actor_of(request)
    user = people.read(actor, pk)
    return _act(request, user, lambda: people.set_active(actor, user, True), "They can get in again.")


@page("POST", back=ONE_URL)
def sign_out(request: HttpRequest, pk: str) -> HttpResponse:
    """End every session of this person."""
    actor = actor_of(request)
    user = people.read(actor, pk)
    return _act(request, user, lambda: people.sign_out_everywhere(actor, user), "They are signed out everywhere.")


@page("POST", back=ONE_URL)
def password_link(request: HttpRequest, pk: str) -> HttpResponse:
    """A link by which this person chooses a new password; shown on the answer, and never again."""
    actor = actor_of(request)
    user = people.read(actor, pk)
    try:
        return _one(request, user, link=people.password_link(actor, user))
    except Problem as refused:
        if refused.status == 403:
            raise
        messages.warning(request, refused.detail)
        return redirect(ONE_URL.format(pk=user.pk))


def _act(request: HttpRequest, user: User, verb: Callable[[], object], said: str) -> HttpResponse:
    try:
        verb()
        messages.info(request, said)
    except Problem as refused:
        if refused.status == 403:
            raise
        messages.warning(request, refused.detail)
    return redirect(ONE_URL.format(pk=user.pk))
