"""One try to tell one receiver: a signed POST through the guard, or an e-mail. It never retries, follows no redirect and keeps no body."""

from __future__ import annotations

import smtplib
from dataclasses import dataclass
from datetime import datetime

import httpx
from django.conf import settings
from django.core.mail import EmailMessage

from console.notifications import secrets, states
from console.notifications.models import Delivery, Endpoint, Message
from ledger.providers.guard import Guard
from runs.ids import canonical

TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Outcome:
    """What came of a try; `gone` when the receiver says that it wants no more (HTTP 410)."""

    delivered: bool
    detail: str = ""
    status: int | None = None

    @property
    def gone(self) -> bool:
        return self.status == 410


def guard() -> Guard:
    """Where webhooks may go, by settings."""
    return Guard.from_settings(settings.NOTIFICATIONS_GUARD)


def send(delivery: Delivery, at: datetime) -> Outcome:
    """Tell it now; `at` is the database's time. Never raises for what the receiver does."""
    if delivery.endpoint is None:
        return _mail(delivery.message, delivery.address)
    if delivery.endpoint.medium == states.MAIL:
        return _mail(delivery.message, delivery.endpoint.target)
    return _post(delivery.message, delivery.endpoint, at)


def _post(message: Message, endpoint: Endpoint, at: datetime) -> Outcome:
    raw = canonical(message.body)
    headers = {
        "content-type": "application/json",
        "user-agent": "Countermand",
        "webhook-id": message.webhook_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": secrets.signature(endpoint, message.webhook_id, at, raw.decode()),
    }
    try:
        with (
            httpx.Client(transport=guard().transport(TIMEOUT_S), timeout=TIMEOUT_S, follow_redirects=False) as client,
            client.stream("POST", endpoint.target, content=raw, headers=headers) as response,
        ):
            status = response.status_code
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Outcome(False, _words(error))
    return Outcome(200 <= status < 300, "" if 200 <= status < 300 else f"It answered HTTP {status}.", status)


def _mail(message: Message, address: str) -> Outcome:
    data = message.body["data"]
    subject = f"Countermand: {states.WORDS[message.kind]} ({message.reference})"
    run = f"Run: {data['run']}\n" if data["run"] else ""
    text = f"{data['says']}\n\nReference: {data['reference']}, version {data['version']}\n{run}{data['url']}\n"
    # The same on every try, so that a mailbox can tell a message that came twice.
    headers = {"Message-ID": f"<{message.webhook_id}@{settings.MAIL_DOMAIN}>", "Auto-Submitted": "auto-generated"}
    try:
        sent = EmailMessage(subject, text, None, [address], headers=headers).send()
    except (OSError, smtplib.SMTPException) as error:
        return Outcome(False, _words(error))
    return Outcome(bool(sent), "" if sent else "The mail server took nothing.")


def _words(error: Exception) -> str:
    """What went wrong, as the log can keep it, whatever the other side had a hand in."""
    return "".join(c if c.isprintable() else "\ufffd" for c in f"{type(error).__name__}: {error}")[:300]
