"""People: how they get in, and what each group may do. Accounts are made by an administrator or arrive from single
sign-on, never by signing up; no group and no superuser is exempt from a rule of the domain."""

from allauth.account.adapter import DefaultAccountAdapter
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.http import HttpRequest

from runs import actors

READS = frozenset({actors.RUN_READ, actors.CASE_READ})
STOPS = frozenset({actors.RUN_CANCEL, actors.RUN_TERMINATE})

SCOPES_BY_GROUP: dict[str, frozenset[str]] = {
    "Support": READS | STOPS | {actors.CASE_SETTLE, actors.OCCURRENCE_OPEN},
    "Approver": READS | STOPS | {actors.APPROVAL_DECIDE},
    "Auditor": READS,
    "Admin": READS | STOPS,
}
PRACTISES = frozenset({"Support", "Approver", "Admin"})  # may start the situations of the demo page


def scopes_of(user: AbstractUser) -> frozenset[str]:
    """Everything that the groups of this person allow. One query; nothing for somebody who is deactivated."""
    if not user.is_active:
        return frozenset()
    groups = set(user.groups.values_list("name", flat=True))
    allowed = frozenset().union(*(SCOPES_BY_GROUP.get(group, frozenset()) for group in groups))
    return allowed | {actors.DEMO_START} if settings.PRACTICE and groups & PRACTISES else allowed


class ClosedSignup(DefaultAccountAdapter):
    """Log-in works; the sign-up page says that it is closed."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False


class DirectorySignup(DefaultSocialAccountAdapter):
    """Single sign-on lets in whom the organisation's own directory lets in; they belong to no group at first."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: object) -> bool:
        return True
