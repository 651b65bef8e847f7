"""`/settings/`: the places where an installation is looked after. Each is a line here and a page of its own."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.pages.guard import page
from console.pages.runs import actor_of
from runs import actors
from runs.errors import NotAllowed

# (address, name, what it is for, what seeing it needs)
PLACES = (
    ("/settings/people/", "People", "Who may get in, and what each of them may do.", actors.PEOPLE_MANAGE),
    ("/settings/machines/", "Machine credentials", "Tokens of agents and other programs: make, replace, revoke.", actors.CREDENTIAL_MANAGE),
    ("/settings/undo-rules/", "Rules of undoing", "What may be undone, up to which amount, and how many must approve.", actors.RULE_CHANGE),
    (
        "/settings/notifications/",
        "Notifications",
        "Whom to tell at once what cannot wait until somebody looks.",
        actors.NOTIFICATION_CHANGE,
    ),
)
NEEDED = frozenset(needs for *_, needs in PLACES)


@page("GET")
def index(request: HttpRequest) -> HttpResponse:
    """The places that this person may go to."""
    actor = actor_of(request)
    places = [{"url": url, "name": name, "what": what} for url, name, what, needs in PLACES if actor.may(needs)]
    if not places:
        raise NotAllowed("Settings are looked after by administrators.", needs=actors.PEOPLE_MANAGE)
    return render(request, "settings/index.html", {"places": places})
