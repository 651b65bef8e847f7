"""Who is asking: turns a bearer token or a session into an `Actor`. It finds out identity and scopes, and judges nothing.

Every request looks the credential up, so that a revoked one is refused at once."""

from datetime import datetime, timedelta
from typing import Any

from channels.db import database_sync_to_async
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from rest_framework import authentication, exceptions
from rest_framework.request import Request

from console.models import Credential
from console.people import scopes_of
from console.recent import is_stale
from runs.actors import Actor

USE_NOTED_EVERY = timedelta(minutes=1)  # a write per request would cost more than the request
TOKEN_LENGTH_MAX = 200


class TokenRefused(Exception):
    """The token cannot be used; the message says why, without telling a stranger whether the credential exists."""


class Machine(AnonymousUser):
    """`request.user` of a machine: authenticated, but no person, so every check of a person's rights fails."""

    def __init__(self, name: str) -> None:
        self.username = name

    @property
    def is_authenticated(self) -> bool:  # type: ignore[override]
        return True

    @property
    def is_anonymous(self) -> bool:  # type: ignore[override]
        return False

    def __str__(self) -> str:
        return self.username


def credential_for(token: str) -> Credential:
    """The live credential of a `cm_<id>_<secret>` token. Raises TokenRefused."""
    prefix, _, rest = token.partition("_")
    identifier, _, secret = rest.partition("_")
    if prefix != "cm" or not secret or len(token) > TOKEN_LENGTH_MAX or not identifier.isalnum():
        raise TokenRefused("This is not a Countermand token: it should look like cm_<id>_<secret>.")
    credential = Credential.objects.filter(id=identifier).first()
    if credential is None or not credential.matches(secret):
        raise TokenRefused("This token is not known.")
    now = timezone.now()
    if credential.revoked_at is not None:
        raise TokenRefused(f"This token was revoked at {credential.revoked_at:%Y-%m-%d %H:%M} UTC.")
    if credential.expires_at <= now:
        raise TokenRefused(f"This token expired at {credential.expires_at:%Y-%m-%d %H:%M} UTC. Issue a new one.")
    if credential.last_used_at is None or credential.last_used_at < now - USE_NOTED_EVERY:
        _note_use(credential, now)
    return credential


def _note_use(credential: Credential, now: datetime) -> None:
    """The guard lets one of many simultaneous calls write."""
    unnoted = Q(last_used_at=None) | Q(last_used_at__lt=now - USE_NOTED_EVERY)
    Credential.objects.filter(unnoted, id=credential.id).update(last_used_at=now)


def machine_actor(credential: Credential, channel: str = "api") -> Actor:
    """The machine, by its name: replacing its secret does not make it another machine."""
    return Actor(
        type="machine",
        id=credential.name,
        name=credential.name,
        channel=channel,
        scopes=frozenset(credential.scopes),
        agents=frozenset(credential.agents),
    )


def person_actor(user: AbstractUser, channel: str = "web", stale: bool = False) -> Actor:
    """The person, with the scopes that their groups give them now."""
    name = user.get_full_name() or user.username
    return Actor(type="person", id=str(user.pk), name=name, channel=channel, scopes=scopes_of(user), stale=stale)


def signed_in(request: HttpRequest, user: AbstractUser, channel: str = "web") -> Actor:
    """The person of this request's session, who may have proved who they are too long ago."""
    return person_actor(user, channel, stale=is_stale(request, user))


def bearer_token(request: HttpRequest | Request) -> str | None:
    """The token of an `Authorization: Bearer` header; None without one. Raises TokenRefused for bytes that are no token."""
    scheme, _, token = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "bearer":
        return None
    token = token.strip()
    if not token.isascii() or not token.isprintable():
        raise TokenRefused("This is not a Countermand token: it should look like cm_<id>_<secret>.")
    return token


def actor_of(request: HttpRequest, channel: str = "web") -> Actor | None:
    """Who asks, for views that are not DRF's: the bearer of the token, else the person signed in, else None.
    Raises TokenRefused: a bad token is never taken for its session."""
    token = bearer_token(request)
    if token is not None:
        return machine_actor(credential_for(token), "api")
    return signed_in(request, request.user, channel) if request.user.is_authenticated else None  # type: ignore[arg-type]


def machine_of(request: HttpRequest) -> Actor | None:
    """The bearer of the token only, for views that are exempt from the CSRF check. None without a token."""
    token = bearer_token(request)
    return machine_actor(credential_for(token)) if token is not None else None


# For asynchronous views: the query runs in a thread of its own and its connection goes back to the pool.
aactor_of = database_sync_to_async(actor_of, thread_sensitive=False)
amachine_of = database_sync_to_async(machine_of, thread_sensitive=False)


class BearerAuthentication(authentication.BaseAuthentication):
    """Machines. Sets `request.user` (a `Machine`), `request.auth` (its credential) and `request.actor`."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        try:
            token = bearer_token(request)
            if token is None:
                return None
            credential = credential_for(token)
        except TokenRefused as error:
            raise exceptions.AuthenticationFailed(str(error)) from None
        _name_actor(request, machine_actor(credential))
        return Machine(credential.name), credential

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="countermand"'


class PersonAuthentication(authentication.SessionAuthentication):
    """People, by their session and with the CSRF check. Sets `request.actor`."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        found = super().authenticate(request)
        if found is not None:
            _name_actor(request, signed_in(request._request, found[0], "api"))
        return found


def _name_actor(request: Request, actor: Actor) -> None:
    # On both, because middleware and DRF's wrapper look at different objects.
    request.actor = request._request.actor = actor
