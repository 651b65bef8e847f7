"""Names for things: UUIDv7 keys, short human references, digests of canonical JSON."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import uuid
from typing import Any

from uuid_utils.compat import uuid7

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 10
_LOOKALIKES = str.maketrans("ILO", "110")
_REF = re.compile(rf"^([A-Z])([{ALPHABET}]{{{LENGTH}}})$")


def new_id() -> uuid.UUID:
    """A UUIDv7: unique, and ordered by the time it was made."""
    return uuid7()


def new_ref(prefix: str) -> str:
    """A short human reference such as `R-7K2M9Q4TXA` (50 random bits, Crockford base32). The unique index is the judge of clashes."""
    return f"{prefix}-" + "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def parse_ref(text: str, prefix: str) -> str | None:
    """The canonical form of a reference typed by a person (any case, with or without dashes, I/L/O read as 1/1/0), or None."""
    bare = text.strip().upper().replace("-", "")
    bare = bare[:1] + bare[1:].translate(_LOOKALIKES)
    found = _REF.match(bare)
    return f"{prefix}-{found[2]}" if found and found[1] == prefix else None


def parse_uuid(text: str) -> uuid.UUID | None:
    """The UUID a text names (any case, with or without dashes), or None."""
    try:
        return uuid.UUID(text.strip())
    except (ValueError, AttributeError):
        return None


def canonical(value: Any) -> bytes:
    """Canonical JSON of a JSON value: sorted keys, no spaces, UTF-8."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON, 64 hexadecimal digits."""
    return hashlib.sha256(canonical(value)).hexdigest()
