"""Adapters to the systems that effects reach, one file or folder each, and the registry that makes them.

No adapter imports Django or anything above this folder; `docs/providers.md` is the checklist for adding one.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ledger.providers.base import Provider, ProviderConfigError
from ledger.providers.http import Http
from ledger.providers.smtp import Smtp
from ledger.providers.stripe import Stripe
from ledger.providers.supplier import Supplier

KINDS: dict[str, Callable[[Mapping[str, Any]], Provider]] = {
    "http": Http,
    "smtp": Smtp,
    "stripe": Stripe,
    "supplier": Supplier,
}


def load(config: Mapping[str, Any]) -> Provider:
    """The adapter that `config` describes, by its `kind`; ProviderConfigError says what is wrong with it."""
    kind = config.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ProviderConfigError(f"kind: {kind!r} is no provider kind. Known: {', '.join(sorted(KINDS))}.")
    return KINDS[kind](config)
