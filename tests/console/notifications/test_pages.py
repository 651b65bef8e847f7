"""What administrators do with endpoints, on the pages."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.db import transaction

from console.notifications import delivering, endpoints, secrets, states
from console.notifications.models import Endpoint
from runs import actors, transition
from runs.models import Event
from tests.console.browsing import person, text
from tests.console.receiving import Receiver

BASE = "/settings/notifications/"


def admin() -> Any:
    return person("Ada", "Admin")


def form(receiver: Receiver, **values: Any) -> dict[str, Any]:
    return {"name": "Pager", "medium": "webhook", "target": receiver.url, "kinds": [states.NEEDS_PERSON]} | values


@pytest.fixture(autouse=True)
def allowed(log, receiver, settings):
    settings.NOTIFICATIONS_GUARD = receiver.guard


def add(receiver: Receiver, **values: Any) -> Endpoint:
    response = admin().post(f"{BASE}new", form(receiver, **values))
    assert response.status_code == 302, text(response)
    return Endpoint.objects.get(pk=uuid.UUID(response.headers["Location"].split("/")[-2]))


def kinds() -> list[str]:
    return list(Event.objects.filter(run__isnull=True).order_by("id").values_list("kind", flat=True))


def test_adding_showing_the_secret_once_and_sending_a_test(receiver):
    endpoint = add(receiver)
    page = f"{BASE}{endpoint.pk}/"
    assert "Show the new secret, once" in text(admin().get(page))
    shown = admin().post(f"{page}secret")
    secret = re.search(r"whsec_[A-Za-z0-9+/=]+", shown.content.decode())[0]
    assert secret == secrets.of(endpoint)[0]
    again = admin().post(f"{page}secret")
    assert again.status_code == 409 and "whsec_" not in again.content.decode()
    assert "whsec_" not in admin().get(page).content.decode()
    assert admin().post(f"{page}test").status_code == 302
    assert delivering.deliver_due() == 1
    assert receiver.got[0].verified(secret)["type"] == "test"
    said = text(admin().get(page))
    assert "Delivered" in said and receiver.got[0].id in said and "arrived, HTTP 204" in said
    assert kinds() == ["notification.added", "notification.secret_shown", "notification.tested"]


def test_two_secrets_at_most_and_the_old_one_is_retired(receiver):
    endpoint = add(receiver)
    page = f"{BASE}{endpoint.pk}/"
    first = secrets.of(endpoint)
    assert admin().post(f"{page}retire").status_code == 400
    assert admin().post(f"{page}rotate").status_code == 302
    refused = admin().post(f"{page}rotate")
    assert refused.status_code == 400 and "Retire the old one first" in text(refused)
    assert admin().post(f"{page}retire").status_code == 302
    assert secrets.of(Endpoint.objects.get()) != first and len(secrets.of(Endpoint.objects.get())) == 1


def test_changing_disabling_and_enabling(receiver):
    endpoint = add(receiver)
    page = f"{BASE}{endpoint.pk}/"
    changed = form(receiver, name="Siren", kinds=[states.UNDO_FAILED, states.PROVIDER_DOWN], version=endpoint.version)
    assert admin().post(page, changed).status_code == 302
    stale = admin().post(page, changed)
    assert stale.status_code == 409 and "Somebody changed this endpoint" in text(stale)
    assert Endpoint.objects.get().kinds == [states.UNDO_FAILED, states.PROVIDER_DOWN]
    admin().post(f"{page}disable")
    said = text(admin().get(page))
    assert "Disabled by Ada Admin." in said and "Send a test" not in said
    assert admin().post(f"{page}test").status_code == 400
    admin().post(f"{page}enable")
    assert Endpoint.objects.get().enabled
    assert kinds() == ["notification.added", "notification.changed", "notification.switched_off", "notification.enabled"]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"target": "http://169.254.169.254/latest/meta-data"}, "Nothing may be sent there"),
        ({"target": "http://10.0.0.1:{port}/"}, "is no public address"),
        ({"target": "http://[::1]:{port}/"}, "is no public address"),
        ({"target": "file:///etc/passwd"}, "Nothing may be sent there"),
        ({"target": "http://user:pw@127.0.0.1:{port}/"}, "no user name or password"),
        ({"target": "http://nowhere.invalid:{port}/"}, "cannot be found"),
        ({"target": ""}, "Say where to"),
        ({"name": ""}, "Give it a name"),
        ({"kinds": []}, "Choose at least one"),
        ({"kinds": ["everything"]}, "Choose at least one"),
        ({"medium": "pigeon"}, "Choose a webhook"),
        ({"medium": "mail", "target": "nobody"}, "no e-mail address"),
        ({"medium": "mail", "target": "a@b.example\nBcc: x@y.example"}, "no e-mail address"),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_reason(receiver, values, said):
    values = {name: value.format(port=receiver.port) if isinstance(value, str) else value for name, value in values.items()}
    response = admin().post(f"{BASE}new", form(receiver, **values))
    assert response.status_code == 400 and said in text(response)
    assert not Endpoint.objects.exists() and receiver.got == []


def test_without_a_mail_server_no_address_can_be_added(receiver, settings):
    settings.MAIL_WORKS = False
    response = admin().post(f"{BASE}new", form(receiver, medium="mail", target="a@example.com"))
    assert response.status_code == 400 and "EMAIL_HOST" in text(response)


@pytest.mark.parametrize("group", ["Support", "Approver", "Auditor", ""])
def test_nobody_else_sees_or_changes_anything(receiver, group):
    endpoint = add(receiver)
    client, page = person("Eve", group), f"{BASE}{endpoint.pk}/"
    assert client.get(BASE).status_code == client.get(page).status_code == client.get(f"{BASE}new").status_code == 403
    for verb in ("secret", "rotate", "retire", "disable", "enable", "test"):
        assert client.post(f"{page}{verb}").status_code == 403
    assert client.post(f"{BASE}new", form(receiver)).status_code == 403
    assert client.post(page, form(receiver, version=1)).status_code == 403
    assert kinds() == ["notification.added"]


def test_hostile_names_are_shown_as_text(receiver):
    add(receiver, name="<script>alert(1)</script>", target=f"{receiver.url}?<b>")
    for path in (BASE, f"{BASE}{Endpoint.objects.get().pk}/"):
        assert "<script>alert" not in admin().get(path).content.decode()


def test_an_unknown_endpoint_or_act_is_not_found(receiver):
    endpoint = add(receiver)
    assert admin().get(f"{BASE}{uuid.uuid4()}/").status_code == 404
    assert admin().post(f"{BASE}{uuid.uuid4()}/rotate").status_code == 404
    assert admin().post(f"{BASE}{endpoint.pk}/explode").status_code == 404


def test_nothing_yet_says_so():
    assert "Nobody is told of anything yet." in text(admin().get(BASE))


def test_an_endpoint_that_failed_is_counted_in_the_shell_until_somebody_sees_to_it(receiver):
    endpoint = add(receiver)
    with transaction.atomic(durable=True):
        locked = Endpoint.objects.select_for_update().get(pk=endpoint.pk)
        locked.failures = 12
        endpoints.disable_failed(locked, actors.system("notifications"), "Nothing has arrived there.", transition.clock())
    badge = '<span class="badge" data-count="nav.settings">1</span>'
    assert badge in admin().get("/runs/").content.decode() and badge not in person().get("/runs/").content.decode()
    page = f"{BASE}{endpoint.pk}/"
    assert "Leave it disabled" in text(admin().get(page))
    admin().post(f"{page}disable")
    assert badge not in admin().get("/runs/").content.decode() and "Leave it disabled" not in text(admin().get(page))
    assert not Endpoint.objects.get().enabled
