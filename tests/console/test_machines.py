"""Machine credentials from the page: shown once, two at a time, revoked at once, and written down."""

import re

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from console import machines
from console.auth import credential_for
from console.models import Credential
from runs import actors
from runs.models import Event
from tests.console.browsing import person, text
from tests.makers import refused

pytestmark = pytest.mark.usefixtures("database")

SHELL = actors.system("test")
FORM = {"name": "refunds", "scopes": ["run:work", "run:read"], "agents": "refund\npayout", "days": "30"}


def ash() -> Client:
    return person("Ash", "Admin")


def token_on(answer) -> str:
    found = re.search(r'id="token">([^<]+)<', answer.content.decode())
    assert found, text(answer)
    return found[1]


def status_with(token: str, path: str = "/api/v1/runs") -> int:
    return Client().get(path, headers={"authorization": f"Bearer {token}"}).status_code


def test_a_token_is_shown_once_and_works():
    client = ash()
    answer = client.post("/settings/machines/new", FORM)
    token = token_on(answer)
    assert "Copy it now: it is kept nowhere and not shown again." in text(answer) and answer.headers["Cache-Control"] == "no-store"
    assert status_with(token) == 200
    secret = token.split("_", 2)[2]
    assert secret not in client.get("/settings/machines/").content.decode()
    assert secret not in str(list(Credential.objects.values())) + str(list(Event.objects.values()))
    event = Event.objects.get(kind="credential.issued")
    assert event.actor_name == "Ash Admin" and event.data["machine"] == "refunds" and event.data["agents"] == ["payout", "refund"]
    page = text(client.get("/settings/machines/"))
    assert "refunds" in page and "run:read, run:work" in page and "by Ash Admin" in page


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"name": "a b"}, "Use letters, digits and . _ - for the name"),
        ({"name": ""}, "Use letters, digits and . _ - for the name"),
        ({"scopes": []}, "Choose what it may do"),
        ({"scopes": ["approval:decide"]}, "Choose what it may do"),
        ({"agents": ""}, "Name the agents it acts for"),
        ({"agents": "a/b"}, "Name the agents it acts for"),
        ({"days": "91"}, "It lives from 1 to 90 days."),
        ({"days": "0"}, "It lives from 1 to 90 days."),
        ({"days": "1e1"}, "It lives from 1 to 90 days."),
    ],
)
def test_what_is_wrong_is_said_by_field_and_nothing_is_made(form, says):
    answer = ash().post("/settings/machines/new", FORM | form)
    assert answer.status_code == 400 and says in text(answer) and not Credential.objects.exists()


def test_two_secrets_live_side_by_side_and_the_old_one_ends_when_it_is_revoked():
    client = ash()
    old = token_on(client.post("/settings/machines/new", FORM))
    first = Credential.objects.get()
    new = token_on(client.post(f"/settings/machines/{first.pk}/rotate"))
    second = Credential.objects.exclude(pk=first.pk).get()
    assert (second.name, second.scopes, second.agents) == (first.name, first.scopes, first.agents)
    assert status_with(old) == status_with(new) == 200
    third = client.post(f"/settings/machines/{first.pk}/rotate", follow=True)
    assert "refunds has 2 live secrets already: revoke the one that is not used any more." in text(third)
    client.post(f"/settings/machines/{first.pk}/revoke")
    assert (status_with(old), status_with(new)) == (401, 200)
    again = client.post(f"/settings/machines/{first.pk}/revoke", follow=True)
    assert "was revoked already" in text(again)
    kinds = list(Event.objects.filter(kind__startswith="credential.").order_by("id").values_list("kind", flat=True))
    assert kinds == ["credential.issued", "credential.rotated", "credential.revoked"]


def test_a_machine_with_a_live_secret_gets_no_other_rights_by_the_side_door():
    machines.issue(SHELL, "refunds", ["run:read"], ["refund"])
    with refused("invalid"):
        machines.issue(SHELL, "refunds", ["run:work"], ["*"])


def test_an_unknown_secret_is_no_page():
    for verb in ("rotate", "revoke"):
        assert ash().post(f"/settings/machines/nothing/{verb}").status_code == 404


def test_handing_out_needs_a_recent_proof_and_revoking_does_not():
    credential, _ = machines.issue(SHELL, "refunds", ["run:read"], ["*"])
    late = person("Ash", "Admin", proved_s_ago=3600)
    for path in ("new", f"{credential.pk}/rotate"):
        assert late.post(f"/settings/machines/{path}", FORM | {"name": "other"}).url.startswith("/accounts/reauthenticate/")
    assert late.post(f"/settings/machines/{credential.pk}/revoke").url == "/settings/machines/", "in an emergency nothing stands in the way"
    credential.refresh_from_db()
    assert credential.revoked_at is not None and Credential.objects.count() == 1


def test_use_is_noted_at_most_once_a_minute():
    credential, token = machines.issue(SHELL, "refunds", ["run:read"], ["*"])
    writes = []

    def note(execute, sql, params, many, context):
        if "UPDATE" in sql and "console_credential" in sql:
            writes.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        for _ in range(5):
            credential_for(token)
    credential.refresh_from_db()
    assert len(writes) == 1 and credential.last_used_at is not None and credential.last_used_at <= timezone.now()
