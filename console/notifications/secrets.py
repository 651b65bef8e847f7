"""The signing secrets of an endpoint. None is stored: each follows from SECRET_KEY, the endpoint and a random salt."""

from __future__ import annotations

import base64
import secrets
from datetime import datetime

from django.utils.crypto import salted_hmac
from standardwebhooks import Webhook

from console.notifications.models import Endpoint

_PURPOSE = "console.notifications.secret"


def new_salt() -> str:
    return secrets.token_hex(16)


def of(endpoint: Endpoint) -> list[str]:
    """The live secrets (`whsec_…`, 32 bytes), the newest first."""
    return [_secret(endpoint, salt) for salt in endpoint.salts]


def signature(endpoint: Endpoint, webhook_id: str, at: datetime, body: str) -> str:
    """The `webhook-signature` header: one signature for each live secret, so that a receiver may hold either."""
    return " ".join(Webhook(secret).sign(webhook_id, at, body) for secret in of(endpoint))


def _secret(endpoint: Endpoint, salt: str) -> str:
    key = salted_hmac(_PURPOSE, f"{endpoint.pk}:{salt}", algorithm="sha256").digest()
    return f"whsec_{base64.b64encode(key).decode()}"
