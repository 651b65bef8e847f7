"""People: how they get in, and what each group may do. Accounts are made by an administrator or arrive from single
sign-on, never by signing up; no group and no superuser is exempt from a rule of the domain.

What takes rights away is a `people.…` event of the system stream, in the same commit: it ends what open pages show at once."""

from collections.abc import Iterable
from dataclasses import replace

from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib.auth.models import AbstractUser, Group, User
from django.db import transaction
from django.http import HttpRequest

from runs import actors, timeline
from runs.actors import Actor

READS = frozenset({actors.RUN_READ, actors.CASE_READ})
STOPS = frozenset({actors.RUN_CANCEL, actors.RUN_TERMINATE})

SCOPES_BY_GROUP: dict[str, frozenset[str]] = {
    "Support": READS | STOPS | {actors.CASE_SETTLE, actors.OCCURRENCE_OPEN, actors.COMPENSATION_REQUEST},
    "Approver": READS | STOPS | {actors.APPROVAL_DECIDE, actors.COMPENSATION_REQUEST, actors.COMPENSATION_APPROVE},
    "Auditor": READS,
    "Admin": READS | STOPS | {actors.POLICY_CHANGE, actors.RULE_CHANGE, actors.NOTIFICATION_CHANGE},
}
PRACTISES = frozenset({"Support", "Approver", "Admin"})  # may start the situations of the demo page


def scopes_of(user: AbstractUser) -> frozenset[str]:
    """Everything that the groups of this person allow. One query; nothing for somebody who is deactivated."""
    if not user.is_active:
        return frozenset()
    groups = {group.name for group in user.groups.all()}
    allowed = frozenset().union(*(SCOPES_BY_GROUP.get(group, frozenset()) for group in groups))
    return allowed | {actors.DEMO_START} if settings.PRACTICE and groups & PRACTISES else allowed


def set_groups(actor: Actor, user: User, names: Iterable[str]) -> None:
    """The person belongs to exactly these groups from now on. Raises Group.DoesNotExist."""
    with transaction.atomic(durable=True):
        user.groups.set([Group.objects.get(name=name) for name in sorted(set(names))])
        _record("groups_changed", actor, user, groups=sorted(set(names)))


def set_active(actor: Actor, user: User, active: bool) -> None:
    """Let somebody in again, or keep them out: their sessions are worth nothing from the commit on."""
    with transaction.atomic(durable=True):
        user.is_active = active
        user.save(update_fields=["is_active"])
        _record("activated" if active else "deactivated", actor, user)


def _record(what: str, actor: Actor, user: AbstractUser, **data: object) -> None:
    timeline.append_system(f"people.{what}", actor, str(user.pk), {"username": user.get_username(), **data})


def _themselves(user: AbstractUser) -> Actor:
    return Actor("person", str(user.pk), user.get_full_name() or user.get_username(), "web")


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
    return replace(_themselves(user), scopes=scopes_of(user))


def teams_with(scope: str) -> str:
    """The groups that may do something, as a sentence names them: `Support, Approver and Admin`."""
    teams = [group for group, scopes in SCOPES_BY_GROUP.items() if scope in scopes]
    return " and ".join(filter(None, [", ".join(teams[:-1]), *teams[-1:]])) or "Nobody here"


class ClosedSignup(DefaultAccountAdapter):
    """Log-in works; the sign-up page says that it is closed."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def login(self, request: HttpRequest, user: User) -> None:
        with transaction.atomic():
            super().login(request, user)
            _record("signed_in", _themselves(user), user)

    def logout(self, request: HttpRequest) -> None:
        user = request.user
        with transaction.atomic():
            super().logout(request)
            if user.is_authenticated:
                _record("signed_out", _themselves(user), user)

    def set_password(self, user: User, password: str) -> None:
        with transaction.atomic():
            super().set_password(user, password)
            _record("password_changed", _themselves(user), user)


class DirectorySignup(DefaultSocialAccountAdapter):
    """Single sign-on lets in whom the organisation's own directory lets in; they belong to no group at first."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: object) -> bool:
        return True
