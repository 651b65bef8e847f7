"""Verify webhooks in the Standard Webhooks format over the raw bytes, with up to two live secrets.

The time window is judged by the caller's clock (the database's), so that a host with a wrong clock refuses nothing.
"""

import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from standardwebhooks import Webhook

from ledger.providers.base import ProviderConfigError, SignatureRefused

WINDOW = timedelta(minutes=5)
SECRETS_MAX = 2


def signers(secrets: Sequence[str]) -> tuple[Webhook, ...]:
    """Signers for the live secrets ("whsec_…"); ProviderConfigError when one is malformed."""
    if len(secrets) > SECRETS_MAX:
        raise ProviderConfigError(f"webhook_secrets: at most {SECRETS_MAX} live at once, the new one and the old one.")
    try:
        return tuple(Webhook(secret) for secret in secrets)
    except Exception as error:
        raise ProviderConfigError("webhook_secrets: each is whsec_ followed by base64.") from error


def verified(signers: Sequence[Webhook], headers: Mapping[str, str], raw: bytes, now: datetime) -> tuple[str, dict[str, Any]]:
    """(event id, the JSON object) of a webhook that one of the live secrets signed; SignatureRefused otherwise."""
    given = {name.lower(): value for name, value in headers.items()}
    event_id, stamp = given.get("webhook-id", ""), given.get("webhook-timestamp", "")
    signatures = given.get("webhook-signature", "").split()
    if not (event_id and stamp and signatures):
        raise SignatureRefused("The webhook-id, webhook-timestamp and webhook-signature headers are needed.", "headers")
    if not stamp.isascii() or not stamp.isdigit() or len(stamp) > 11:
        raise SignatureRefused("webhook-timestamp is not a whole number of seconds.", "headers")
    signed_at = datetime.fromtimestamp(int(stamp), UTC)
    if abs(now - signed_at) > WINDOW:
        raise SignatureRefused(f"Signed at {signed_at:%Y-%m-%d %H:%M:%S} UTC, which is not within 5 minutes of now.", "time")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise SignatureRefused("The body is not UTF-8.", "content") from None
    expected = [signer.sign(event_id, signed_at, text).encode() for signer in signers]
    if not any(hmac.compare_digest(one.encode(), good) for one in signatures for good in expected):
        raise SignatureRefused("No live secret made this signature over these bytes.")
    try:
        body = json.loads(text)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise SignatureRefused("The signed body is not a JSON object.", "content")
    return event_id, body
