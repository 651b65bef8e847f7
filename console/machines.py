"""Machine credentials: making, replacing and revoking them. Their token is returned once and kept nowhere.

The API finds out who bears a token in `console.auth`; nothing here decides what a machine may do with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from console.models import LIFE_DAYS_MAX, LIVE_SECRETS_MAX, Credential
from runs import actors, timeline
from runs.actors import ANY_AGENT, MACHINE_SCOPES, Actor
from runs.errors import AlreadyDecided, Invalid, NotFound

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
AGENT = re.compile(r"[\w.:-]{1,80}")
AGENTS_MAX = 100


@dataclass(frozen=True)
class Machine:
    """A machine with its secrets, the newest first."""

    name: str
    secrets: list[Credential] = field(default_factory=list)

    def live(self, now: datetime) -> list[Credential]:
        return [one for one in self.secrets if one.revoked_at is None and one.expires_at > now]


def machines(actor: Actor) -> list[Machine]:
    """Every machine, by name. Raises `NotAllowed`."""
    _require(actor)
    found: dict[str, Machine] = {}
    for one in Credential.objects.order_by("name", "-created_at"):
        found.setdefault(one.name, Machine(one.name)).secrets.append(one)
    return list(found.values())


def read(actor: Actor, pk: str) -> Credential:
    """One secret. Raises `NotAllowed` and `NotFound`."""
    _require(actor)
    found = Credential.objects.filter(pk=pk[:12]).first()
    if found is None:
        raise NotFound("There is no such credential.")
    return found


def issue(actor: Actor, name: str, scopes: Iterable[str], agents: Iterable[str], days: int = LIFE_DAYS_MAX) -> tuple[Credential, str]:
    """Make a machine's first secret; the credential and its token. Raises `Invalid` with the field."""
    _require(actor)
    wanted, works_for = sorted(set(scopes)), sorted(set(agents))
    if not NAME.fullmatch(name):
        raise Invalid("Use letters, digits and . _ - for the name, at most 80.", field="name")
    if not wanted or set(wanted) - MACHINE_SCOPES:
        raise Invalid(f"Choose what it may do: {', '.join(sorted(MACHINE_SCOPES))}.", field="scopes")
    if not works_for or len(works_for) > AGENTS_MAX or any(one != ANY_AGENT and not AGENT.fullmatch(one) for one in works_for):
        raise Invalid(f"Name the agents it acts for, one a line, or {ANY_AGENT} for any.", field="agents")
    if not 1 <= days <= LIFE_DAYS_MAX:
        raise Invalid(f"It lives from 1 to {LIFE_DAYS_MAX} days.", field="days")
    if Credential.objects.filter(name=name, revoked_at=None, expires_at__gt=timezone.now()).exists():
        raise Invalid(f"{name} has a live secret: rotate that one, so that it keeps what it may do.", field="name")
    return _make(actor, "issued", name, wanted, works_for, days)


def rotate(actor: Actor, credential: Credential, days: int = LIFE_DAYS_MAX) -> tuple[Credential, str]:
    """A second live secret with the same rights; the old one works until it is revoked. A third is refused (`Invalid`)."""
    _require(actor)
    return _make(actor, "rotated", credential.name, list(credential.scopes), list(credential.agents), days, replaces=credential.pk)


def revoke(actor: Actor, credential: Credential) -> None:
    """From the commit on nobody is let in by this secret. Raises `AlreadyDecided`."""
    _require(actor)
    with transaction.atomic(durable=True):
        if not Credential.objects.filter(pk=credential.pk, revoked_at=None).update(revoked_at=timezone.now()):
            raise AlreadyDecided(f"{credential} was revoked already.", state="revoked")
        _record("revoked", actor, credential)


def _make(actor: Actor, what: str, name: str, scopes: list[str], agents: list[str], days: int, **more: Any) -> tuple[Credential, str]:
    actor.require_recent("hand out a machine credential")
    try:
        with transaction.atomic(durable=True):
            credential, token = Credential.issue(name, scopes, agents, actor.name, days)
            _record(what, actor, credential, scopes=scopes, agents=agents, expires_at=credential.expires_at.isoformat(), **more)
    except ValidationError:
        raise Invalid(
            f"{name} has {LIVE_SECRETS_MAX} live secrets already: revoke the one that is not used any more.", field="name"
        ) from None
    return credential, token


def _record(what: str, actor: Actor, credential: Credential, **data: Any) -> None:
    timeline.append_system(f"credential.{what}", actor, credential.pk, {"machine": credential.name, **data})


def _require(actor: Actor) -> None:
    actor.require(actors.CREDENTIAL_MANAGE, None, "manage machine credentials")
