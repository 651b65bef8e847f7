"""What of a provider's answer may be kept for ever: a masked excerpt of at most 4 KB, and the hash of the whole."""

from __future__ import annotations

from typing import Any

from ledger.providers import wire
from runs.ids import canonical, digest


def excerpt(value: Any) -> str:
    """A masked excerpt of a JSON value ('' for None)."""
    if value is None:
        return ""
    raw = canonical(value)
    return wire.excerpt(raw, value if isinstance(value, dict) else None)


def sha256(value: Any) -> str:
    """SHA-256 of the canonical JSON ('' for None)."""
    return "" if value is None else digest(value)
