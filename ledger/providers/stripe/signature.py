"""Stripe's own webhook signatures: `t=…,v1=…` over the time, a dot and the raw bytes, with up to two live secrets.

The SDK's check reads this machine's clock; the window here is judged by the caller's (the database's).
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from ledger.providers.base import ProviderConfigError, SignatureRefused

WINDOW = timedelta(minutes=5)
SECRETS_MAX = 2
HEADER = "stripe-signature"


def keys(secrets: object) -> tuple[bytes, ...]:
    """The signing keys of an endpoint's live secrets (`whsec_…`); ProviderConfigError when one cannot be one."""
    if not isinstance(secrets, list | tuple) or not all(isinstance(one, str) and re.fullmatch(r"whsec_\S{8,}", one) for one in secrets):
        raise ProviderConfigError("stripe: webhook_secrets is a list of the endpoint's signing secrets, each beginning with whsec_.")
    if len(secrets) > SECRETS_MAX:
        raise ProviderConfigError(f"stripe: webhook_secrets: at most {SECRETS_MAX} live at once, the new one and the old one.")
    return tuple(one.encode() for one in secrets)


def verify(keys: Sequence[bytes], headers: Mapping[str, str], raw: bytes, now: datetime) -> None:
    """SignatureRefused unless one of the keys signed exactly these bytes, within five minutes of `now`."""
    header = next((value for name, value in headers.items() if name.lower() == HEADER), "")
    parts = [part.partition("=") for part in header.split(",")]
    stamps = [value for name, _, value in parts if name == "t"]
    signatures = [value for name, _, value in parts if name == "v1"]
    if len(stamps) != 1 or not re.fullmatch(r"\d{1,11}", stamps[0], re.ASCII) or not signatures:
        raise SignatureRefused("A Stripe-Signature header with one t= and a v1= is needed.", "headers")
    signed_at = datetime.fromtimestamp(int(stamps[0]), UTC)
    if abs(now - signed_at) > WINDOW:
        raise SignatureRefused(f"Signed at {signed_at:%Y-%m-%d %H:%M:%S} UTC, which is not within 5 minutes of now.", "time")
    expected = [hmac.new(key, stamps[0].encode() + b"." + raw, hashlib.sha256).hexdigest().encode() for key in keys]
    if not any(hmac.compare_digest(one.encode(), good) for one in signatures for good in expected):
        raise SignatureRefused("No live secret made this signature over these bytes.")
