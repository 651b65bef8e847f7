"""Everybody who may knock: people of each group, tokens of each scope, and those who should not get in."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.contrib.auth.models import User
from django.utils import timezone
from django.utils.crypto import get_random_string

from console.models import Credential
from console.people import SCOPES_BY_GROUP
from console.permissions import ANYBODY, KNOWN, SIGNED_IN
from runs.actors import MACHINE_SCOPES, RUN_READ, RUN_WORK
from tests.console.browsing import person
from tests.makers import WORKER
from tests.wire import token

LONG_AGO_S = 24 * 3600
FORMS_TOKEN = get_random_string(32)


@dataclass(frozen=True)
class Caller:
    """Somebody with what they send along. `scopes` is None for who is not known at all."""

    name: str
    scopes: frozenset[str] | None
    headers: dict[str, str] = field(default_factory=dict)
    cookies: dict[str, str] = field(default_factory=dict)
    is_person: bool = False

    def may(self, needs: str) -> bool:
        """Whether the table of permissions lets them in, by what a door needs."""
        if needs == ANYBODY:
            return True
        if self.scopes is None:
            return False
        if needs == RUN_READ and RUN_WORK in self.scopes:
            return True  # who works for an agent reads its runs
        return needs == KNOWN or (needs == SIGNED_IN and self.is_person) or needs in self.scopes


def everybody() -> list[Caller]:
    """Makes them all. The token `all scopes` is the one that holds the leases of tests/makers.py."""
    return [
        *(_person(group.lower(), group) for group in SCOPES_BY_GROUP),
        _person("in no group", ""),
        _person("approver of yesterday", "Approver", LONG_AGO_S),
        _machine("all scopes", WORKER.name, sorted(MACHINE_SCOPES)),
        *(_machine(f"token {scope}", f"only {scope}", [scope]) for scope in sorted(MACHINE_SCOPES)),
        _machine("token of another agent", "stranger", sorted(MACHINE_SCOPES), ["refunds"]),
        Caller("signed out", None),
        Caller("no such token", None, _bearer("cm_0000000000_nothing")),
        _revoked(),
    ]


def support() -> User:
    """The account of the caller `support`."""
    return User.objects.get(username="support")


def _person(name: str, group: str, proved_s_ago: float = 0) -> Caller:
    session = person(name.title(), group, proved_s_ago).cookies["sessionid"].value
    cookies = {"sessionid": session, "csrftoken": FORMS_TOKEN}
    return Caller(name, SCOPES_BY_GROUP.get(group, frozenset()), {"X-CSRFToken": FORMS_TOKEN}, cookies, is_person=True)


def _machine(name: str, machine: str, scopes: list[str], agents: list[str] | None = None) -> Caller:
    return Caller(name, frozenset(scopes), _bearer(token(machine, scopes, agents)))


def _revoked() -> Caller:
    text = token("revoked")
    Credential.objects.filter(name="revoked").update(revoked_at=timezone.now())
    return Caller("revoked token", None, _bearer(text))


def _bearer(text: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {text}"}
