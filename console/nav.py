"""The shell around every page: where one can go, how much waits there, and which environment this is."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db import DatabaseError
from django.http import HttpRequest
from django.utils.functional import SimpleLazyObject

from console.auth import person_actor
from console.notifications import queries as notifications
from console.notifications.states import RECORDS_DISAGREE
from console.pages.settings import NEEDED as SETTINGS
from ledger import undo_pages
from reconciliation import integrity
from reconciliation import queue as cases
from runs import actors, asking
from runs.actors import Actor

HELP_URL = "/help/"


def shell(request: HttpRequest) -> dict[str, Any]:
    """Context processor. Lazy: a fragment or an error page that shows no shell asks the database nothing."""
    return {
        "nav": SimpleLazyObject(lambda: links(request)),
        "environment": settings.ENVIRONMENT,
        "records_disagree": SimpleLazyObject(lambda: disagreement(request)),
        "help_url": HELP_URL,
    }


def disagreement(request: HttpRequest) -> str:
    """The sentence of the banner on every page while records disagree; '' otherwise, and for who is not signed in."""
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return ""
    try:
        return integrity.banner(told=notifications.somebody_hears(RECORDS_DISAGREE)) if integrity.open_ones(1) else ""
    except DatabaseError:
        return ""


def links(request: HttpRequest) -> list[dict[str, Any]]:
    """The places that this person may go to. A count that cannot be had is left out, not shown as none."""
    if not getattr(request, "user", None) or not request.user.is_authenticated:
        return []
    actor = getattr(request, "actor", None) or person_actor(request.user)  # type: ignore[arg-type]
    counted = counts(actor)
    places = [
        ("runs", "Runs", "/runs/", actors.RUN_READ),
        ("cases", "Needs a person", "/cases/", actors.CASE_READ),
        ("approvals", "Approvals", "/approvals/", actors.RUN_READ),
        ("audit", "Audit", "/audit/", actors.AUDIT_READ),
        ("metrics", "Metrics", "/metrics/", actors.RUN_READ),
        ("settings", "Settings", "/settings/", SETTINGS),
        ("demo", "Practice", "/demo/", actors.DEMO_START),
    ]
    return [
        {"key": key, "label": label, "url": url, "count": counted.get(key), "current": request.path.startswith(url)}
        for key, label, url, scope in places
        if (actor.may(scope) if isinstance(scope, str) else any(map(actor.may, scope)))
    ]


def counts(actor: Actor) -> dict[str, int]:
    """How many cases and approvals wait, and what is broken in the settings, for those who may see them."""
    try:
        told = {"cases": cases.open_count()} if actor.may(actors.CASE_READ) else {}
        if actor.may(actors.NOTIFICATION_CHANGE):
            told["settings"] = notifications.failed_count()
        return told | ({"approvals": asking.open_count() + undo_pages.open_count()} if actor.may(actors.RUN_READ) else {})
    except DatabaseError:
        return {}
