"""The one table of who may do what: every door, and what it needs. `docs/permissions.md` is written from it (`manage.py permissions`), and
a test walks every route as everybody and holds the answers against it.

It gives nobody a right: the domain checks each act again. A new route needs a line here; its test says which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLResolver, get_resolver
from django.views.generic import RedirectView
from rest_framework.views import APIView

from console.people import SCOPES_BY_GROUP
from runs import actors
from runs.actors import (
    APPROVAL_DECIDE,
    AUDIT_READ,
    CASE_READ,
    CASE_SETTLE,
    COMPENSATION_APPROVE,
    COMPENSATION_REQUEST,
    CREDENTIAL_MANAGE,
    DEMO_START,
    MACHINE_SCOPES,
    NOTIFICATION_CHANGE,
    OCCURRENCE_OPEN,
    PEOPLE_MANAGE,
    RULE_CHANGE,
    RUN_CANCEL,
    RUN_READ,
    RUN_TERMINATE,
    RUN_WORK,
)

ANYBODY = "anybody"
SIGNED_IN = "signed in"  # any person with an account, in a group or not
KNOWN = "signed in or a token"

GROUPS = tuple(SCOPES_BY_GROUP)
MACHINE, NO_GROUP, NOBODY = "Agent token", "In no group", "Nobody"
KINDS = (*GROUPS, NO_GROUP, MACHINE, NOBODY)


@dataclass(frozen=True)
class Door:
    """A method and the path of its route, as the urlconf writes it without converters (`/runs/<ref>/cancel`). `*` at its end: all below."""

    method: str
    path: str
    needs: str
    what: str

    def admits(self, kind: str) -> bool:
        """Whether people of a group, somebody in none, a token with every machine scope, or nobody signed in may use it."""
        if self.needs == ANYBODY:
            return True
        if kind == MACHINE:
            return self.path.startswith("/api/") and (self.needs == KNOWN or self.needs in MACHINE_SCOPES)
        if self.needs in (SIGNED_IN, KNOWN):
            return kind != NOBODY
        return self.needs in _scopes(kind)


def _scopes(kind: str) -> frozenset[str]:
    practises = {DEMO_START} if kind in ("Support", "Approver", "Admin") else set()
    return SCOPES_BY_GROUP.get(kind, frozenset()) | practises


def _read(needs: str, what: str, *paths: str) -> list[Door]:
    return [Door("GET", path, needs, what) for path in paths]


def _act(needs: str, what: str, *paths: str) -> list[Door]:
    return [Door("POST", path, needs, what) for path in paths]


def _dialog(needs: str, what: str, *paths: str) -> list[Door]:
    """A page that asks and the act that it asks about."""
    return [door for path in paths for door in (Door("GET", path, needs, what), Door("POST", path, needs, what))]


V1 = "/api/v1"

DOORS: tuple[Door, ...] = (
    # Runs
    *_read(RUN_READ, "read runs", "/runs/", "/runs/<ref>/", "/runs/<ref>/doing", "/runs/<ref>/cancel/plan", "/effects/<ref>"),
    *_read(RUN_READ, "read accounts", "/runs/<ref>/account.json", "/runs/<ref>/account.csv"),
    *_dialog(RUN_CANCEL, "cancel a run", "/runs/<ref>/cancel"),
    *_dialog(RUN_TERMINATE, "terminate a run", "/runs/<ref>/terminate"),
    *_dialog(RUN_CANCEL, "cancel many runs", "/bulk/cancel"),
    *_read(RUN_READ, "follow a bulk cancel", "/bulk/<pk>/"),
    *_read(RUN_READ, "search what one may read", "/search/"),
    *_read(RUN_READ, "see the metrics", "/metrics/"),
    *_dialog(OCCURRENCE_OPEN, "do an action again on purpose", "/effects/<ref>/again"),
    # Cases
    *_dialog(CASE_SETTLE, "open a case before its time", "/effects/<ref>/case"),
    *_read(CASE_READ, "read cases", "/cases/", "/cases/<ref>/", "/cases/<ref>/files/<pk>"),
    *_read(CASE_READ, "see how providers stand", "/cases/providers"),
    *_act(CASE_SETTLE, "claim a case", "/cases/<ref>/claim"),
    *_read(CASE_READ, "look at who holds a case", "/cases/<ref>/take-over"),
    *_act(CASE_SETTLE, "take a case over", "/cases/<ref>/take-over"),
    *_act(CASE_SETTLE, "settle a case", "/cases/<ref>/finding", "/cases/<ref>/confirm"),
    *_act(CASE_READ, "ask a provider now", "/cases/<ref>/check"),
    # Approvals
    *_read(RUN_READ, "read approvals", "/approvals/", "/approvals/<pk>/approve", "/approvals/<pk>/reject"),
    *_act(APPROVAL_DECIDE, "decide an approval", "/approvals/<pk>/approve", "/approvals/<pk>/reject"),
    # Audit
    *_read(AUDIT_READ, "read the audit trail", "/audit/", "/audit/runs/<ref>/"),
    *_dialog(AUDIT_READ, "export events", "/audit/export"),
    # Undoing
    *_read(RUN_READ, "read undo requests", "/effects/<ref>/undo", "/undo/<ref>/"),
    *_read(RUN_READ, "read undo requests", "/undo/<ref>/approve", "/undo/<ref>/reject", "/undo/<ref>/withdraw"),
    *_act(COMPENSATION_REQUEST, "ask for an undo, withdraw one", "/effects/<ref>/undo", "/undo/<ref>/withdraw"),
    *_act(COMPENSATION_APPROVE, "decide on an undo", "/undo/<ref>/approve", "/undo/<ref>/reject"),
    *_read(RUN_READ, "read the rules of undoing", "/settings/undo-rules/"),
    *_act(RULE_CHANGE, "change the rules of undoing", "/settings/undo-rules/"),
    # Settings and people
    *_read(PEOPLE_MANAGE, "see the settings", "/settings/"),
    *_read(PEOPLE_MANAGE, "look at people", "/settings/people/", "/settings/people/<pk>/"),
    *_dialog(PEOPLE_MANAGE, "add a person", "/settings/people/new"),
    *_act(PEOPLE_MANAGE, "change what somebody may do", "/settings/people/<pk>/groups"),
    *_act(PEOPLE_MANAGE, "keep somebody out, let them in", "/settings/people/<pk>/deactivate", "/settings/people/<pk>/activate"),
    *_act(PEOPLE_MANAGE, "sign somebody out everywhere", "/settings/people/<pk>/sign-out"),
    *_act(PEOPLE_MANAGE, "let somebody choose a password", "/settings/people/<pk>/password-link"),
    *_read(CREDENTIAL_MANAGE, "look at machine credentials", "/settings/machines/"),
    *_dialog(CREDENTIAL_MANAGE, "add a machine", "/settings/machines/new"),
    *_act(CREDENTIAL_MANAGE, "replace or revoke a secret", "/settings/machines/<pk>/rotate", "/settings/machines/<pk>/revoke"),
    *_read(NOTIFICATION_CHANGE, "look at notifications", "/settings/notifications/"),
    *_dialog(NOTIFICATION_CHANGE, "change notifications", "/settings/notifications/new", "/settings/notifications/<pk>/"),
    *_act(NOTIFICATION_CHANGE, "change notifications", "/settings/notifications/<pk>/secret", "/settings/notifications/<pk>/<verb>"),
    # Everybody who is signed in
    *_read(SIGNED_IN, "read the help", "/help/"),
    *_dialog(SIGNED_IN, "their own profile", "/profile/"),
    *_read(SIGNED_IN, "what one may do to what a page shows", "/live/actions"),
    *_read(RUN_READ, "what is new, without a socket", "/live/poll"),
    Door("SOCKET", "/ws/ui/", RUN_READ, "what is new, at once"),
    # Practice; these exist only where nothing is real
    *_read(DEMO_START, "the practice ground", "/demo/", "/demo/components/", "/demo/components/<name>"),
    *_act(DEMO_START, "start practice runs", "/demo/start", "/demo/orders", "/demo/release"),
    *_act(DEMO_START, "try a sample of a dialog, which does nothing", "/demo/components/<name>"),
    # Getting in and out (pages of allauth)
    *_dialog(ANYBODY, "sign in and out", "/accounts/login/", "/accounts/logout/"),
    *_dialog(ANYBODY, "what leads nowhere without a link or sign-in of one's own", "/accounts/*"),
    *_read(ANYBODY, "the start, which leads to the runs", "/"),
    *_dialog(
        SIGNED_IN,
        "prove again who one is",
        "/accounts/reauthenticate/",
        "/accounts/2fa/reauthenticate/",
        "/accounts/2fa/webauthn/reauthenticate/",
    ),
    *_dialog(SIGNED_IN, "their own password", "/accounts/password/change/"),
    *_read(SIGNED_IN, "their own second factor", "/accounts/2fa/"),
    *_dialog(SIGNED_IN, "their own second factor", "/accounts/2fa/totp/*", "/accounts/2fa/recovery-codes/*"),
    *_dialog(SIGNED_IN, "their own sessions", "/accounts/sessions/"),
    # For machines that look after this one
    *_read(ANYBODY, "metrics, with the secret of the settings", "/internal/metrics"),
    *_read(ANYBODY, "whether it lives", "/healthz", "/readyz", "/health/live/", "/health/ready/"),
    # The API: reading and stopping
    *_read(RUN_READ, "read runs", f"{V1}/runs", f"{V1}/runs/<run>", f"{V1}/runs/<run>/events"),
    *_read(
        RUN_READ,
        "read effects and accounts",
        f"{V1}/runs/<run>/effects",
        f"{V1}/runs/<run>/account",
        f"{V1}/effects",
        f"{V1}/effects/<effect>",
    ),
    *_read(RUN_READ, "look at what a cancel would meet", f"{V1}/runs/<run>/cancellation"),
    *_act(RUN_CANCEL, "cancel a run", f"{V1}/runs/<run>/cancellation", f"{V1}/cancellations", f"{V1}/cancellations/bulk"),
    *_read(RUN_READ, "follow a bulk cancel", f"{V1}/cancellations/bulk/<job>"),
    *_read(RUN_READ, "read approvals", f"{V1}/approvals"),
    *_act(APPROVAL_DECIDE, "decide an approval", f"{V1}/approvals/<approval>/decision"),
    *_read(CASE_READ, "read cases", f"{V1}/cases", f"{V1}/cases/<case>"),
    *_act(CASE_SETTLE, "claim a case, give it back", f"{V1}/cases/<case>/claim", f"{V1}/cases/<case>/pass"),
    *_act(CASE_SETTLE, "settle a case", f"{V1}/cases/<case>/settlement", f"{V1}/cases/<case>/confirmation"),
    *_act(CASE_SETTLE, "keep a file with a case", f"{V1}/cases/<case>/files"),
    *_act(CASE_SETTLE, "open a case before its time", f"{V1}/effects/<effect>/case"),
    *_act(CASE_READ, "ask a provider now", f"{V1}/effects/<effect>/look"),
    *_act(CASE_SETTLE, "decide that something is left in place", f"{V1}/effects/<effect>/left-in-place"),
    *_act(OCCURRENCE_OPEN, "do an action again on purpose", f"{V1}/occurrences"),
    *_read(RUN_READ, "read undo requests", f"{V1}/compensations", f"{V1}/compensations/<compensation>"),
    *_act(COMPENSATION_REQUEST, "ask for an undo, withdraw one", f"{V1}/compensations", f"{V1}/compensations/<compensation>/withdrawal"),
    Door("PATCH", f"{V1}/compensations/<compensation>", COMPENSATION_REQUEST, "change an undo request"),
    *_act(COMPENSATION_APPROVE, "decide on an undo", f"{V1}/compensations/<compensation>/decision"),
    # The API: working
    *_act(RUN_WORK, "make and claim runs", f"{V1}/runs", f"{V1}/runs/claim"),
    *_read(RUN_WORK, "hear directives", f"{V1}/directives"),
    *_act(
        RUN_WORK,
        "carry out a run",
        *(f"{V1}/runs/<run>/{verb}" for verb in ("heartbeat", "heard", "steps", "suspend", "stopped", "release", "finish", "approvals")),
        *(f"{V1}/runs/<run>/{verb}" for verb in ("steps/<key>/finish", "effects", "cleanups")),
        f"{V1}/effects/<operation_id>/begin",
        f"{V1}/effects/<operation_id>/outcome",
        f"{V1}/cleanups/claim",
        f"{V1}/cleanups/<cleanup>/heartbeat",
        f"{V1}/cleanups/<cleanup>/finish",
        f"{V1}/workers/<holder>/gone",
    ),
    *_act(ANYBODY, "tell what a provider knows, with its signature", f"{V1}/webhooks/<provider>"),
    *_read(KNOWN, "read how the API is described", "/api/schema/", "/api/docs/"),
    *_read(ANYBODY, "be told that there is no such path", "/api/<rest>"),
)


@dataclass(frozen=True)
class Route:
    """A route of the urlconf and the methods that its view answers."""

    path: str
    methods: tuple[str, ...]


def routes() -> list[Route]:
    """Every route there is."""
    return [Route(path, _methods(callback)) for path, callback in _walk(get_resolver().url_patterns, "/")]


def _walk(patterns: Any, before: str) -> Iterator[tuple[str, Any]]:
    for pattern in patterns:
        path = before + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern.url_patterns, path)
        else:
            yield _plain(path), pattern.callback


def _plain(path: str) -> str:
    path = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", path.replace("^", "").removesuffix("$"))
    return re.sub(r"<(?:str|int|slug|uuid|path):", "<", path)


def _methods(callback: Any) -> tuple[str, ...]:
    calls = getattr(getattr(callback, "cls", None), "calls", None)
    if calls:
        return tuple(calls)
    if methods := getattr(callback, "methods", None):
        return tuple(methods)
    view = getattr(callback, "cls", None) or getattr(callback, "view_class", None)
    if view is None or issubclass(view, RedirectView):
        return ("GET",)
    wanted = ("GET", "POST", "PUT", "PATCH", "DELETE") if issubclass(view, APIView) else ("GET", "POST")  # a form's PUT is its POST
    return tuple(method for method in wanted if hasattr(view, method.lower())) or ("GET",)


def door_of(method: str, path: str) -> Door | None:
    """The line for a route: its own, else the longest that ends in `*` above it."""
    own = [door for door in DOORS if (door.method, door.path) == (method, path)]
    above = [door for door in DOORS if door.method == method and door.path.endswith("*") and path.startswith(door.path[:-1])]
    return (own or sorted(above, key=lambda door: -len(door.path)) or [None])[0]


def as_markdown() -> str:
    """The table for people to read."""
    lines = [
        "# Who may do what",
        "",
        "Written from `console/permissions.py` by `manage.py permissions`. A test walks every route, call and socket as each of these and",
        "holds the answers against it. What is allowed here can still be refused by a rule that knows the thing itself: nobody approves",
        "what they asked for, a token works only for its own agents, and approving, terminating and settling money need a recent proof of",
        "who is asking.",
        "",
        f"| | {' | '.join(KINDS)} | needs | doors |",
        f"| --- {'| :-: ' * len(KINDS)}| --- | --- |",
    ]
    for (what, needs), doors in _grouped().items():
        marks = " | ".join("yes" if doors[0].admits(kind) else "–" for kind in KINDS)
        paths = "<br>".join(f"`{door.method} {door.path}`" for door in doors)
        lines.append(f"| {what} | {marks} | {f'`{needs}`' if ':' in needs else needs} | {paths} |")
    lines += [
        "",
        "A token has the scopes that it was given, of " + ", ".join(f"`{scope}`" for scope in sorted(actors.MACHINE_SCOPES)) + ".",
        f"With `{RUN_WORK}` it also reads the runs of its own agents, as it would with `{RUN_READ}`.",
    ]
    return "\n".join(lines) + "\n"


def _grouped() -> dict[tuple[str, str], list[Door]]:
    found: dict[tuple[str, str], list[Door]] = {}
    for door in DOORS:
        where = "api" if door.path.startswith("/api/") else ""
        found.setdefault((door.what + (", by the API" if where else ""), door.needs), []).append(door)
    return found
