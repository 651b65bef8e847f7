"""How people get in and out: what allauth is told to do differently, and its acts as `people.…` events: in the same commit, but for
second factors, of which allauth tells only afterwards.

Accounts are made by an administrator or arrive from single sign-on, never by signing up. Nothing here gives anybody a right.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import record_authentication
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialLogin
from allauth.usersessions.adapter import DefaultUserSessionsAdapter
from allauth.usersessions.models import UserSession
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from console import profiles
from console.people import record, themselves
from runs.actors import system

PROVE_ANEW = {"prompt": "login", "max_age": "0"}  # OpenID Connect Core 3.1.2.1: with max_age the answer must say auth_time


class ClosedSignup(DefaultAccountAdapter):
    """Log-in works; the sign-up page says that it is closed."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False

    def login(self, request: HttpRequest, user: User) -> None:
        with transaction.atomic():
            super().login(request, user)
            record("signed_in", themselves(user), user)

    def post_login(self, request: HttpRequest, user: User, **kwargs: Any) -> HttpResponse:
        """This browser learns what the person likes."""
        return profiles.tell_browser(super().post_login(request, user, **kwargs), profiles.of(user))

    def logout(self, request: HttpRequest) -> None:
        user = request.user
        with transaction.atomic():
            super().logout(request)
            if user.is_authenticated:
                record("signed_out", themselves(user), user)

    def authentication_failed(self, request: HttpRequest, **credentials: Any) -> None:
        """Somebody tried to get in as a person that there is. What else was typed is kept nowhere: it may be a password."""
        user = User.objects.filter(username__iexact=str(credentials.get("username") or "")).first()
        if user is not None:
            record("sign_in_failed", system("log-in"), user, ip=self.get_client_ip(request))

    def reauthenticate(self, user: User, password: str) -> bool:
        proved = bool(super().reauthenticate(user, password))
        if proved:
            record("proved", themselves(user), user, how="password")
        return proved

    def set_password(self, user: User, password: str) -> None:
        with transaction.atomic():
            super().set_password(user, password)
            record("password_changed", themselves(user), user)

    def send_notification_mail(self, template_prefix: str, user: User, *args: Any, **kwargs: Any) -> None:
        """Allauth calls this whenever something about an account's security has changed; second factors have no other hook."""
        if template_prefix.startswith("mfa/"):
            record("second_factor_changed", themselves(user), user, change=template_prefix.rpartition("/")[2])
        super().send_notification_mail(template_prefix, user, *args, **kwargs)

    def get_reauthentication_methods(self, user: AbstractBaseUser | AnonymousUser) -> list[dict[str, Any]]:
        """Also single sign-on, for people who have no password here."""
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        if settings.OIDC and user.is_authenticated and SocialAccount.objects.filter(user_id=user.pk).exists():
            login = reverse("openid_connect_login", kwargs={"provider_id": settings.OIDC_PROVIDER_ID})
            query = urlencode({"process": "login", "auth_params": urlencode(PROVE_ANEW)})
            methods.append({"id": "single_sign_on", "description": f"Use {settings.OIDC_NAME}", "url": f"{login}?{query}"})
        return methods


class DirectorySignup(DefaultSocialAccountAdapter):
    """Single sign-on lets in whom the organisation's own directory lets in; they belong to no group at first."""

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Somebody signed in who comes back from their provider goes on in the same session, which keeps what they typed. It counts as a
        proof only when the provider says that they have just signed in there."""
        if not request.user.is_authenticated or sociallogin.user != request.user:
            return
        back = sociallogin.get_redirect_url(request) or "/"
        at = _signed_in_at(sociallogin)
        if at is None or time.time() - at >= settings.REAUTHENTICATE_AFTER_S:
            messages.warning(request, f"{settings.OIDC_NAME} did not say that you signed in there just now, so it proves nothing.")
            raise ImmediateHttpResponse(redirect("/"))
        account = sociallogin.account
        record_authentication(request, request.user, "socialaccount", reauthenticated=True, provider=account.provider, uid=account.uid)
        record("proved", themselves(request.user), request.user, how="single sign-on")  # type: ignore[arg-type]
        raise ImmediateHttpResponse(redirect(back))


def _signed_in_at(sociallogin: SocialLogin) -> float | None:
    """When the provider last asked this person who they are, in seconds since 1970, by its id token."""
    at = (sociallogin.account.extra_data.get("id_token") or {}).get("auth_time")
    return float(at) if isinstance(at, int | float) else None


class OwnSessions(DefaultUserSessionsAdapter):
    """Ending other sessions from the list of one's own."""

    def end_sessions(self, sessions: Iterable[UserSession]) -> None:
        ended = list(sessions)
        with transaction.atomic():
            super().end_sessions(ended)
            if ended:
                user = ended[0].user
                record("signed_out_elsewhere", themselves(user), user, sessions=len(ended))
