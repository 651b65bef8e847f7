"""What administrators do with endpoints. Every act has its event in the system stream, in the same commit."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction

from console.notifications import secrets, sending, states, telling
from console.notifications.models import Delivery, Endpoint, Message
from console.notifications.telling import Told
from ledger.providers.guard import Forbidden
from runs import actors, hints, timeline, transition
from runs.actors import Actor
from runs.errors import Invalid, NotFound, Stale

RESOLVE_S = 5.0


@dataclass(frozen=True)
class Wanted:
    """An endpoint as somebody wants it."""

    name: str
    medium: str
    target: str
    kinds: tuple[str, ...]


def add(actor: Actor, wanted: Wanted) -> Endpoint:
    """A new endpoint; a webhook's first secret waits to be shown. Raises `Invalid`, naming the field."""
    _may(actor)
    _check(wanted)
    salts = [secrets.new_salt()] if wanted.medium == states.WEBHOOK else []
    with transaction.atomic(durable=True):
        endpoint = Endpoint.objects.create(**_values(wanted), salts=salts, unseen=bool(salts), made_by=actor.name)
        _record(endpoint, "added", actor, _told(endpoint))
    return endpoint


def change(actor: Actor, pk: uuid.UUID, wanted: Wanted, version: int) -> Endpoint:
    """Alter an endpoint that is still at `version`. Its medium stays. Raises `Invalid`, `Stale`."""
    _may(actor)
    _check(wanted)
    with transaction.atomic(durable=True):
        endpoint = _lock(pk)
        if endpoint.version != version:
            raise Stale("Somebody changed this endpoint while you were reading. Look at it again.")
        if endpoint.medium != wanted.medium:
            raise Invalid("An endpoint stays what it is. Add another one.", field="medium")
        before = _told(endpoint)
        for name, value in _values(wanted).items():
            setattr(endpoint, name, value)
        endpoint.paused_until = None
        _save(endpoint)
        _record(endpoint, "changed", actor, {"before": before, "after": _told(endpoint)})
    return endpoint


def rotate(actor: Actor, pk: uuid.UUID) -> Endpoint:
    """A second live secret: messages carry a signature of each until the old one is retired. Raises `Invalid` for a third."""
    _may(actor)
    with transaction.atomic(durable=True):
        endpoint = _webhook(pk)
        if len(endpoint.salts) >= states.SECRETS_MAX:
            raise Invalid("Two secrets are live already. Retire the old one first.", field="secret")
        endpoint.salts = [secrets.new_salt(), *endpoint.salts]
        endpoint.unseen = True
        _save(endpoint)
        _record(endpoint, "secret_rotated", actor, {})
    return endpoint


def retire(actor: Actor, pk: uuid.UUID) -> Endpoint:
    """The old secret signs nothing any more. Raises `Invalid` when there is only one."""
    _may(actor)
    with transaction.atomic(durable=True):
        endpoint = _webhook(pk)
        if len(endpoint.salts) < states.SECRETS_MAX:
            raise Invalid("Only one secret is live. Make a new one first.", field="secret")
        endpoint.salts = endpoint.salts[:1]
        _save(endpoint)
        _record(endpoint, "secret_retired", actor, {})
    return endpoint


def reveal(actor: Actor, pk: uuid.UUID) -> str | None:
    """The newest secret, to whoever asks first; None ever after."""
    _may(actor)
    with transaction.atomic(durable=True):
        endpoint = _webhook(pk)
        if not endpoint.unseen:
            return None
        endpoint.unseen = False
        _save(endpoint)
        _record(endpoint, "secret_shown", actor, {})
    return secrets.of(endpoint)[0]


def enable(actor: Actor, pk: uuid.UUID) -> Endpoint:
    """Messages go there again, from now on."""
    _may(actor)
    with transaction.atomic(durable=True):
        endpoint = _lock(pk)
        if not endpoint.enabled:
            endpoint.enabled, endpoint.disabled_why = True, ""
            endpoint.failures, endpoint.failing_since, endpoint.paused_until = 0, None, None
            _save(endpoint)
            _record(endpoint, "enabled", actor, {})
    return endpoint


def disable(actor: Actor, pk: uuid.UUID) -> Endpoint:
    """Nothing goes there any more; what was waiting is dropped, and says so in the log. One that failed is seen to by this, too."""
    _may(actor)
    with transaction.atomic(durable=True):
        endpoint = _lock(pk)
        if endpoint.enabled or endpoint.failures:
            endpoint.failures, endpoint.failing_since = 0, None
            _disable(endpoint, f"Disabled by {actor.name}.", transition.clock())
            _record(endpoint, "switched_off", actor, {})
    return endpoint


def disable_failed(endpoint: Endpoint, actor: Actor, why: str, now: datetime) -> None:
    """Disable a locked endpoint that has failed for too long. Its event is told to everybody else."""
    _disable(endpoint, why, now)
    _record(endpoint, "endpoint_disabled", actor, {"why": why})


def test(actor: Actor, pk: uuid.UUID) -> Message:
    """Send a message that says nothing, to this endpoint only. Raises `Invalid` for a disabled one."""
    _may(actor)
    with transaction.atomic(durable=True):
        endpoint = _lock(pk)
        if not endpoint.enabled:
            raise Invalid("It is disabled, so nothing can be sent there. Enable it first.", field="enabled")
        told = Told(states.TEST, "This is a test. Nothing happened.", str(endpoint.pk), endpoint.version, f"/settings/notifications/{pk}/")
        message = Message.objects.create(kind=told.kind, reference=told.reference, body=telling.body(told, transition.clock()))
        Delivery.objects.create(message=message, endpoint=endpoint)
        Endpoint.objects.filter(pk=pk).update(paused_until=None)
        _record(endpoint, "tested", actor, {"message": message.webhook_id})
        hints.nudge("notification.made")
    return message


def _may(actor: Actor) -> None:
    actor.require(actors.NOTIFICATION_CHANGE, None, "change notifications")


def _lock(pk: uuid.UUID) -> Endpoint:
    endpoint = Endpoint.objects.select_for_update().filter(pk=pk).first()
    if endpoint is None:
        raise NotFound("No such endpoint.")
    return endpoint


def _webhook(pk: uuid.UUID) -> Endpoint:
    endpoint = _lock(pk)
    if endpoint.medium != states.WEBHOOK:
        raise Invalid("E-mails are not signed.", field="medium")
    return endpoint


def _save(endpoint: Endpoint) -> None:
    endpoint.version += 1
    endpoint.save()


def _disable(endpoint: Endpoint, why: str, now: datetime) -> None:
    endpoint.enabled, endpoint.disabled_why = False, why[:300]
    _save(endpoint)
    Delivery.objects.filter(endpoint=endpoint, state=states.PENDING).update(state=states.DROPPED, done_at=now, taken_until=None)


def _record(endpoint: Endpoint, what: str, actor: Actor, data: dict[str, Any]) -> None:
    timeline.append_system(f"notification.{what}", actor, str(endpoint.pk), {"name": endpoint.name, **data})


def _values(wanted: Wanted) -> dict[str, Any]:
    return {"name": wanted.name, "medium": wanted.medium, "target": wanted.target, "kinds": list(wanted.kinds)}


def _told(endpoint: Endpoint) -> dict[str, Any]:
    return {"medium": endpoint.medium, "target": endpoint.target, "kinds": endpoint.kinds}


def _check(wanted: Wanted) -> None:
    if not wanted.name or len(wanted.name) > 100 or not wanted.name.isprintable():
        raise Invalid("Give it a name of 1 to 100 characters.", field="name")
    if wanted.medium not in states.MEDIA:
        raise Invalid("Choose a webhook or an e-mail address.", field="medium")
    if not wanted.kinds or set(wanted.kinds) - set(states.KINDS):
        raise Invalid("Choose at least one of the kinds listed.", field="kinds")
    if not wanted.target or len(wanted.target) > 500:
        raise Invalid("Say where to: a URL or an address of at most 500 characters.", field="target")
    if wanted.medium == states.MAIL:
        _check_address(wanted.target)
    else:
        _check_url(wanted.target)


def _check_address(address: str) -> None:
    if not settings.MAIL_WORKS:
        raise Invalid("No mail server is configured (EMAIL_HOST), so no e-mail can be sent.", field="target")
    try:
        validate_email(address)
    except ValidationError:
        raise Invalid("That is no e-mail address.", field="target") from None


def _check_url(url: str) -> None:
    """Refuse what would never be reached; every send checks again, because names move."""
    guard = sending.guard()
    try:
        parts = guard.check_url(url)
        guard.addresses(parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme], RESOLVE_S)
    except Forbidden as refused:
        raise Invalid(f"Nothing may be sent there: {refused}", field="target") from None
    except OSError as error:
        raise Invalid(f"Its host cannot be found: {error}. Check the URL.", field="target") from None
