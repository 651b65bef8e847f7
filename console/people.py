"""People: what each group may do, and the verbs of whoever looks after their accounts. No group and no superuser is exempt from a rule
of the domain.

Each verb is a `people.…` event of the system stream, in the same commit: what takes rights away ends what open pages show at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from allauth.account import app_settings as allauth_settings
from allauth.account.utils import user_pk_to_url_str
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import AbstractUser, Group, User
from django.contrib.sessions.models import Session
from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from runs import actors, timeline
from runs.actors import Actor
from runs.errors import Conflict, Invalid, NotFound, SamePerson

READS = frozenset({actors.RUN_READ, actors.CASE_READ})
STOPS = frozenset({actors.RUN_CANCEL, actors.RUN_TERMINATE})

SCOPES_BY_GROUP: dict[str, frozenset[str]] = {
    "Support": READS | STOPS | {actors.CASE_SETTLE, actors.OCCURRENCE_OPEN, actors.COMPENSATION_REQUEST},
    "Approver": READS | STOPS | {actors.APPROVAL_DECIDE, actors.COMPENSATION_REQUEST, actors.COMPENSATION_APPROVE},
    "Auditor": READS | {actors.AUDIT_READ},
    "Admin": READS
    | STOPS
    | {actors.POLICY_CHANGE, actors.RULE_CHANGE, actors.NOTIFICATION_CHANGE, actors.PEOPLE_MANAGE, actors.CREDENTIAL_MANAGE},
}
ADMIN = "Admin"
PRACTISES = frozenset({"Support", "Approver", "Admin"})  # may start the situations of the demo page
USERNAME = re.compile(r"[\w.@+-]{1,150}")
NAME_MAX = 150


class LastAdmin(Conflict):
    code, title = "last_admin", "Somebody must be left to manage people"


def scopes_of(user: AbstractUser) -> frozenset[str]:
    """Everything that the groups of this person allow. One query; nothing for somebody who is deactivated."""
    if not user.is_active:
        return frozenset()
    groups = {group.name for group in user.groups.all()}
    allowed = frozenset().union(*(SCOPES_BY_GROUP.get(group, frozenset()) for group in groups))
    return allowed | {actors.DEMO_START} if settings.PRACTICE and groups & PRACTISES else allowed


def teams_with(scope: str) -> str:
    """The groups that may do something, as a sentence names them: `Support, Approver and Admin`."""
    teams = [group for group, scopes in SCOPES_BY_GROUP.items() if scope in scopes]
    return " and ".join(filter(None, [", ".join(teams[:-1]), *teams[-1:]])) or "Nobody here"


# Reading


def everyone(actor: Actor) -> list[User]:
    """All people, those who may get in first, with their groups."""
    _require(actor)
    return list(User.objects.prefetch_related("groups").order_by("-is_active", "first_name", "last_name", "username"))


def read(actor: Actor, pk: str) -> User:
    """One person. Raises `NotAllowed` and `NotFound`."""
    _require(actor)
    found = User.objects.prefetch_related("groups").filter(pk=int(pk)).first() if pk.isascii() and pk.isdigit() and len(pk) < 10 else None
    if found is None:
        raise NotFound("There is no such person.")
    return found


# Verbs


def create(actor: Actor, username: str, first_name: str, last_name: str, groups: Iterable[str]) -> User:
    """Make an account that nobody can use yet: `password_link` lets its person in. Raises `Invalid` with the field."""
    _require(actor)
    names = _known(groups)
    if not USERNAME.fullmatch(username):
        raise Invalid("Use 1 to 150 letters, digits and . @ + - _ for the user name.", field="username")
    for field, value in (("first_name", first_name), ("last_name", last_name)):
        if not value.isprintable() or len(value) > NAME_MAX:
            raise Invalid("Use a name of at most 150 characters on one line.", field=field)
    if not (first_name + last_name).strip():
        raise Invalid("Give a name: histories show it.", field="first_name")
    actor.require_recent("make an account")
    try:
        with transaction.atomic(durable=True):
            if User.objects.filter(username__iexact=username).exists():
                raise Invalid(f"There is a person with the user name {username} already.", field="username")
            user = User(username=username, first_name=first_name.strip(), last_name=last_name.strip())
            user.set_unusable_password()
            user.save()
            user.groups.set(_groups(names))
            record("created", actor, user, groups=names)
    except IntegrityError:
        raise Invalid(f"There is a person with the user name {username} already.", field="username") from None
    return user


def set_groups(actor: Actor, user: User, groups: Iterable[str]) -> None:
    """The person belongs to exactly these groups from now on. Nobody changes their own. Raises `SamePerson`, `LastAdmin`, `Invalid`."""
    _require(actor, user)
    names = _known(groups)
    actor.require_recent("change what somebody may do")
    with transaction.atomic(durable=True):
        _take_turn()
        before = sorted(user.groups.values_list("name", flat=True))
        user.groups.set(_groups(names))
        _somebody_is_left(before=ADMIN in before)
        record("groups_changed", actor, user, groups=names, before=before)


def set_active(actor: Actor, user: User, active: bool) -> None:
    """Let somebody in again, or keep them out: their sessions are worth nothing from the commit on. Raises as `set_groups`."""
    _require(actor, user)
    actor.require_recent("change who may get in")
    with transaction.atomic(durable=True):
        _take_turn()
        user.is_active = active
        user.save(update_fields=["is_active"])
        _somebody_is_left(before=not active and user.groups.filter(name=ADMIN).exists())
        if not active:
            end_sessions(user)
        record("activated" if active else "deactivated", actor, user)


def sign_out_everywhere(actor: Actor, user: User) -> int:
    """End every session of this person, wherever they are signed in; returns how many there were."""
    _require(actor)
    with transaction.atomic(durable=True):
        ended = end_sessions(user)
        record("signed_out_everywhere", actor, user, sessions=ended)
    return ended


def password_link(actor: Actor, user: User) -> str:
    """The path at which this person chooses a password, once, within `PASSWORD_RESET_TIMEOUT`. Shown to the actor alone, and recorded:
    whoever holds it can get in. Raises `Invalid` for somebody who is deactivated."""
    _require(actor, user)
    if not user.is_active:
        raise Invalid(f"{user} is deactivated: let them in again first.", field="user")
    actor.require_recent("let somebody choose a new password")
    with transaction.atomic(durable=True):
        record("password_link_made", actor, user)
    key = allauth_settings.PASSWORD_RESET_TOKEN_GENERATOR().make_token(user)
    return reverse("account_reset_password_from_key", kwargs={"uidb36": user_pk_to_url_str(user), "key": key})


def record(what: str, actor: Actor, user: AbstractUser, **data: object) -> None:
    """The event `people.<what>` about this person, in the caller's transaction."""
    timeline.append_system(f"people.{what}", actor, str(user.pk), {"username": user.get_username(), **data})


def themselves(user: AbstractUser) -> Actor:
    """The person as the actor of what they do to their own account."""
    return Actor("person", str(user.pk), user.get_full_name() or user.get_username(), "web")


def end_sessions(user: User) -> int:
    """Delete the sessions of this person; how many. Every live one is opened: a session does not say in its row whose it is."""
    mine = [
        session.session_key
        for session in Session.objects.filter(expire_date__gt=timezone.now()).iterator()
        if session.get_decoded().get(SESSION_KEY) == str(user.pk)
    ]
    return Session.objects.filter(session_key__in=mine).delete()[0]


def _require(actor: Actor, user: User | None = None) -> None:
    actor.require(actors.PEOPLE_MANAGE, None, "manage people")
    if user is not None and actor.is_person and actor.id == str(user.pk):
        raise SamePerson("This is your own account, so another administrator must do it.")


def _known(groups: Iterable[str]) -> list[str]:
    names = sorted(set(groups))
    if unknown := set(names) - SCOPES_BY_GROUP.keys():
        raise Invalid(f"There is no group {sorted(unknown)[0]!r}. Groups are {', '.join(SCOPES_BY_GROUP)}.", field="groups")
    return names


def _groups(names: list[str]) -> list[Group]:
    return list(Group.objects.filter(name__in=names))


def _take_turn() -> None:
    """Two administrators who remove each other at once come one after the other."""
    Group.objects.select_for_update().get(name=ADMIN)


def _somebody_is_left(before: bool) -> None:
    if before and not User.objects.filter(is_active=True, groups__name=ADMIN).exists():
        raise LastAdmin("This is the last administrator who may get in. Make another one first.")


# What the domain asks about people


class Directory:
    """Implements `runs.people.Directory` over the accounts of this installation."""

    def person(self, person_id: str) -> Actor | None:
        user = User.objects.filter(pk=int(person_id)).first() if person_id.isascii() and person_id.isdigit() else None
        return _as_actor(user) if user is not None else None

    def who_may(self, scope: str) -> list[Actor]:
        people = (
            User.objects.filter(is_active=True, groups__isnull=False).distinct().prefetch_related("groups").order_by("first_name", "pk")
        )
        return [actor for actor in map(_as_actor, people) if actor.may(scope)]


def _as_actor(user: AbstractUser) -> Actor:
    return replace(themselves(user), scopes=scopes_of(user))
