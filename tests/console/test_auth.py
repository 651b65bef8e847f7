"""Who is asking: tokens, sessions, and everything that is neither."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db import IntegrityError
from django.test import RequestFactory
from django.utils import timezone
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from console.auth import BearerAuthentication, TokenRefused, aactor_of, actor_of, credential_for, person_actor
from console.models import Credential

pytestmark = pytest.mark.usefixtures("database")


def issue(**given: Any) -> tuple[Credential, str]:
    return Credential.issue(**{"name": "refunds", "scopes": ["run:work"], "agents": ["refund"], **given})


def asked_with(token: str) -> Any:
    return RequestFactory().get("/", headers={"Authorization": f"Bearer {token}"})


def test_a_token_names_its_machine_and_what_it_may_do() -> None:
    _, token = issue()
    request = asked_with(token)
    user, _ = BearerAuthentication().authenticate(Request(request)) or (None, None)
    assert user is not None and user.is_authenticated and not user.has_perm("runs.anything")
    assert request.actor.type == "machine" and request.actor.id == "refunds"
    assert request.actor.may("run:work", "refund") and not request.actor.may("run:work", "payout")
    assert not request.actor.may("run:read")


def test_the_secret_is_not_stored() -> None:
    credential, token = issue()
    stored = " ".join(str(value) for value in Credential.objects.values_list().get(id=credential.id))
    assert token.split("_", 2)[2] not in stored


@pytest.mark.parametrize(
    "token", ["", "x", "cm_", "cm__", "cm_a_b", "CM_a_b", "cm_' OR 1=1_b", "cm_\x00_b", "cm_a_" + "b" * 10_000, "kø_a_b"]
)
def test_what_is_no_token_is_refused(token: str) -> None:
    request = RequestFactory().get("/", HTTP_AUTHORIZATION=f"Bearer {token}")
    with pytest.raises(AuthenticationFailed):
        BearerAuthentication().authenticate(Request(request))


def test_another_secret_is_refused() -> None:
    credential, _ = issue()
    with pytest.raises(TokenRefused, match="not known"):
        credential_for(f"cm_{credential.id}_{'x' * 43}")


def test_a_revoked_token_is_refused_at_once() -> None:
    credential, token = issue()
    credential_for(token)
    Credential.objects.filter(id=credential.id).update(revoked_at=timezone.now())
    with pytest.raises(TokenRefused, match="revoked"):
        credential_for(token)


def test_an_expired_token_is_refused() -> None:
    credential, token = issue()
    now = timezone.now()
    Credential.objects.filter(id=credential.id).update(created_at=now - timedelta(days=2), expires_at=now)
    with pytest.raises(TokenRefused, match="expired"):
        credential_for(token)


def test_nothing_lives_longer_than_90_days() -> None:
    with pytest.raises(IntegrityError):
        issue(days=91)


def test_two_secrets_of_one_machine_live_side_by_side_and_no_third() -> None:
    (_, old), (_, new) = issue(), issue()
    assert actor_of(asked_with(old)) == actor_of(asked_with(new))
    with pytest.raises(ValidationError):
        issue()


def test_no_machine_may_approve() -> None:
    with pytest.raises(ValidationError, match="approval:decide"):
        issue(scopes=["approval:decide"])


def test_a_bad_token_is_never_taken_for_its_session() -> None:
    request = asked_with("cm_a_b")
    request.user = User.objects.create_user("someone")
    with pytest.raises(TokenRefused):
        actor_of(request)


def test_a_person_may_what_their_groups_may() -> None:
    user = User.objects.create_user("sam", first_name="Sam", last_name="Support")
    assert person_actor(user).scopes == frozenset()
    user.groups.add(Group.objects.get(name="Support"))
    actor = person_actor(user)
    assert actor.name == "Sam Support" and actor.may("run:cancel") and not actor.may("approval:decide")
    user.is_active = False
    assert person_actor(user).scopes == frozenset()


def test_a_superuser_is_exempt_from_nothing() -> None:
    assert person_actor(User.objects.create_superuser("root")).scopes == frozenset()


async def test_asynchronous_views_ask_the_same_way() -> None:
    from asgiref.sync import sync_to_async

    _, token = await sync_to_async(issue)()
    actor = await aactor_of(asked_with(token))
    assert actor is not None and actor.id == "refunds"
