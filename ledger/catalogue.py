"""Which providers there are and what each can do: the adapters that `settings.PROVIDERS` describes, made once for each process."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from functools import cache

from django.conf import settings

from ledger.providers import Provider, load
from ledger.providers.base import LOOK_JITTER, Capability
from runs.errors import ProviderUnknown


@cache
def _load(name: str) -> Provider:
    return load(settings.PROVIDERS[name])


def provider(name: str) -> Provider:
    """The adapter of that name. Raises `ProviderUnknown`."""
    if name not in settings.PROVIDERS:
        raise ProviderUnknown(
            f"No provider is called {name!r}. Known: {', '.join(sorted(settings.PROVIDERS)) or 'none'}.",
            field="provider",
        )
    return _load(name)


def capability(name: str) -> Capability:
    """What the provider of that name promises. Raises `ProviderUnknown`."""
    return provider(name).capability


def look_due(record: Capability, doubt_began: datetime, looks: int) -> datetime | None:
    """When look number `looks` (from 0) is due: the provider's schedule, ±10 %; None when the schedule is over or there is no lookup."""
    if record.lookup == "none" or looks >= len(record.look_schedule_s):
        return None
    spread = 1 + random.uniform(-LOOK_JITTER, LOOK_JITTER)  # noqa: S311 - jitter, not a secret
    return doubt_began + timedelta(seconds=record.look_schedule_s[looks] * spread)


def forget() -> None:
    """Drop the adapters that were made (after the settings changed, in tests)."""
    _load.cache_clear()
