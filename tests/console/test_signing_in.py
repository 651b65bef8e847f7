"""Getting in and out, as this product has allauth do it: closed sign-up, limits, sessions, second factors, single sign-on, events."""

import time

import pytest
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.mfa.totp.internal import auth as totp
from allauth.socialaccount.models import SocialAccount, SocialLogin
from django.contrib.auth.models import Group, User
from django.contrib.messages.storage.fallback import FallbackStorage
from django.test import Client, RequestFactory

from console.recent import is_stale
from console.signing_in import DirectorySignup
from runs.models import Event
from tests.console.browsing import person, text
from tests.signing import prove

pytestmark = pytest.mark.usefixtures("database")

PASSWORD = "correct horse battery"


def sam(**options) -> User:
    user = User.objects.create_user("sam", password=PASSWORD, first_name="Sam", last_name="Support", **options)
    user.groups.set([Group.objects.get(name="Support")])
    return user


def log_in(client: Client | None = None, password: str = PASSWORD, **more):
    client = client or Client()
    return client, client.post("/accounts/login/", {"login": "sam", "password": password, **more})


def kinds() -> list[str]:
    return list(Event.objects.filter(kind__startswith="people.").order_by("id").values_list("kind", flat=True))


def test_signing_in_and_out_is_written_down_and_leads_back():
    sam()
    client, answer = log_in(next="/cases/")
    assert answer.url == "/cases/" and client.get("/cases/").status_code == 200
    client.post("/accounts/logout/")
    assert client.get("/cases/").url == "/accounts/login/?next=%2Fcases%2F"
    assert kinds() == ["people.signed_in", "people.signed_out"]


def test_no_other_site_is_led_to():
    sam()
    assert log_in(next="https://evil.example/")[1].url == "/runs/"
    client = Client()
    log_in(client)
    answer = client.post("/accounts/reauthenticate/?next=//evil.example/", {"password": PASSWORD, "next": "//evil.example/"})
    assert answer.url == "/runs/"


def test_failed_tries_are_written_down_without_what_was_typed_and_limited():
    sam()
    for _ in range(5):
        _, answer = log_in(password="wrong wrong wrong")
        assert answer.status_code == 200 and "are not correct" in text(answer)
    _, refused = log_in()
    assert "Too many failed" in text(refused), "the right password is not taken either, for a while"
    Client().post("/accounts/login/", {"login": "hunter2 my password", "password": "x"})
    events = Event.objects.filter(kind="people.sign_in_failed")
    assert events.count() == 5 and events[0].data == {"username": "sam", "ip": "127.0.0.1"}
    assert "wrong" not in str(list(Event.objects.values())) and "hunter2" not in str(list(Event.objects.values()))


def test_nobody_signs_up():
    assert "Nobody signs up here" in text(Client().get("/accounts/signup/"))
    assert Client().post("/accounts/signup/", {"username": "eve", "password1": PASSWORD, "password2": PASSWORD}).status_code == 200
    assert not User.objects.exists()


@pytest.mark.parametrize("path", ["email/", "password/set/", "password/reset/", "reauthenticate/code/", "3rdparty/", "social/signup/"])
def test_what_this_product_does_not_have_is_no_page(path):
    sam()
    client, _ = log_in()
    assert client.get(f"/accounts/{path}").status_code == client.post(f"/accounts/{path}").status_code == 404


def test_somebody_deactivated_is_told_so():
    sam(is_active=False)
    client, answer = log_in()
    assert answer.status_code == 302 and "This account is deactivated" in text(client.get(answer.url))
    assert client.get("/runs/").status_code == 302


def test_the_sessions_of_a_person_are_listed_and_ended_from_one_of_them():
    sam()
    here, _ = log_in(Client(headers={"user-agent": "Firefox at the desk"}))
    there, _ = log_in(Client(headers={"user-agent": "<b>Phone</b>"}))
    page = here.get("/accounts/sessions/")
    assert "Firefox at the desk" in text(page) and "This one" in text(page) and "<b>Phone" not in page.content.decode()
    assert there.get("/runs/").status_code == 200
    said = here.post("/accounts/sessions/", follow=True)
    assert "You are signed out everywhere but here." in text(said) and "Nowhere else." in text(said)
    assert (here.get("/runs/").status_code, there.get("/runs/").status_code) == (200, 302)
    assert Event.objects.get(kind="people.signed_out_elsewhere").data == {"username": "sam", "sessions": 1}


def test_a_new_password_ends_other_sessions_and_keeps_this_one():
    sam()
    (here, _), (there, _) = log_in(), log_in()
    new = "another long password"
    answer = here.post("/accounts/password/change/", {"oldpassword": PASSWORD, "password1": new, "password2": new}, follow=True)
    assert "Other browsers that were signed in are signed out." in text(answer)
    assert (here.get("/runs/").status_code, there.get("/runs/").status_code) == (200, 302)
    assert "people.password_changed" in kinds()


def test_a_second_factor_is_asked_for_at_the_door_and_counts_as_a_proof(monkeypatch, settings):
    settings.MFA_TOTP_TOLERANCE = 1
    sam()
    client, _ = log_in()
    assert client.get("/accounts/2fa/totp/activate/").url.startswith("/accounts/reauthenticate/?next=")
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    page = client.get("/accounts/2fa/totp/activate/")
    secret = page.context["form"].secret
    assert "data:image/svg+xml" in page.content.decode() and secret in page.content.decode()

    def code() -> str:
        now = int(time.time()) // 30
        return totp.format_hotp_value(totp.hotp_value(secret, now))

    assert client.post("/accounts/2fa/totp/activate/", {"code": code()}).status_code == 302
    assert Event.objects.get(kind="people.second_factor_changed").data["change"] == "totp_activated"
    for path in ("", "recovery-codes/", "recovery-codes/generate/", "totp/deactivate/", "reauthenticate/"):
        assert client.get(f"/accounts/2fa/{path}").status_code == 200, path

    monkeypatch.setattr("allauth.mfa.totp.internal.auth.TOTP._mark_code_used", lambda *args: True)  # one code serves several times here
    other, answer = log_in()
    assert answer.url.startswith("/accounts/2fa/authenticate/") and other.get("/runs/").status_code == 302
    assert other.get(answer.url).status_code == 200
    assert other.post(answer.url, {"code": code()}).url == "/runs/" and other.get("/runs/").status_code == 200
    prove(other, 3600)
    assert is_stale(other.get("/help/").wsgi_request, User.objects.get())
    assert other.post("/accounts/2fa/reauthenticate/", {"code": code()}).status_code == 302
    assert not is_stale(other.get("/help/").wsgi_request, User.objects.get())


# Single sign-on


def come_back(client: Client, user: User, auth_time: float | None):
    """The provider sends the browser back with an id token that says when it last asked."""
    request = RequestFactory().get("/accounts/oidc/sso/login/callback/")
    request.session, request.user = client.session, user
    request._messages = FallbackStorage(request)  # type: ignore[attr-defined]
    claims = {"id_token": {"sub": "7", **({"auth_time": auth_time} if auth_time else {})}}
    account = SocialAccount(user=user, provider="sso", uid="7", extra_data=claims)
    login = SocialLogin(user=user, account=account)
    login.state = {"process": "login", "next": "/runs/R-1/terminate"}
    with pytest.raises(ImmediateHttpResponse) as answer:
        DirectorySignup().pre_social_login(request, login)
    return request, answer.value.response


def test_a_provider_that_has_just_asked_proves_it_in_the_same_session(settings):
    settings.OIDC = {"client_id": "x"}
    client = person(proved_s_ago=3600)
    user = User.objects.get()
    request, answer = come_back(client, user, time.time() - 5)
    assert answer.url == "/runs/R-1/terminate" and not is_stale(request, user)
    assert request.session["_auth_user_id"] == str(user.pk) and kinds() == ["people.proved"]


@pytest.mark.parametrize("auth_time", [None, 1.0])
def test_a_provider_that_did_not_ask_proves_nothing(auth_time):
    client = person(proved_s_ago=3600)
    user = User.objects.get()
    request, answer = come_back(client, user, auth_time)
    assert answer.url == "/" and is_stale(request, user) and kinds() == []


def test_who_has_no_password_is_led_to_their_provider(settings):
    settings.OIDC = {"client_id": "x"}
    client = person(proved_s_ago=3600)
    user = User.objects.get()
    user.set_unusable_password()
    user.save()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get("/accounts/reauthenticate/?next=/cases/").status_code == 403, "no way to prove it at all"
    SocialAccount.objects.create(user=user, provider="sso", uid="7")
    way = client.get("/accounts/reauthenticate/?next=/cases/").url
    assert way.startswith("/accounts/oidc/sso/login/?") and "max_age%3D0" in way and "next=%2Fcases%2F" in way


def test_the_providers_origin_may_be_led_to_from_a_form():
    from console import env

    assert env.origins("https://login.example.org/realms/x", "") == ["https://login.example.org"]


def test_a_path_into_the_django_admin_is_none():
    assert Client().get("/admin/").status_code == 404
    from django.apps import apps

    assert not apps.is_installed("django.contrib.admin")
