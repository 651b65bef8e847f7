"""How each provider stands: whether it answers, and what its webhooks do. Counted from rows; it changes nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Count, Max, Q, Sum

from ledger import states
from ledger.models import Effect
from ledger.naming import provider_name
from reconciliation.models import ProviderHealth, WebhookEvent, WebhookRefusal
from runs import transition

LATELY = timedelta(days=7)
REASONS = {
    "signature": "no live secret made the signature over these bytes",
    "headers": "headers of a signature were missing or malformed",
    "time": "signed too long ago, or in the future",
    "content": "what was signed could not be read",
    "size": "too large",
}


def providers() -> list[dict[str, Any]]:
    """Every configured provider, by name, with the last seven days of its webhooks. Five queries."""
    since = transition.clock() - LATELY
    health = {row.provider: row for row in ProviderHealth.objects.all()}
    doubt = dict(
        Effect.objects.filter(state__in=states.LOOKED_AT, unknowable=False).order_by().values_list("provider").annotate(n=Count("pk"))
    )
    heard = {
        row["provider"]: row
        for row in WebhookEvent.objects.filter(received_at__gte=since)
        .order_by()
        .values("provider")
        .annotate(
            stored=Count("pk"),
            received=Sum("received"),
            waiting=Count("pk", filter=Q(processed_at__isnull=True)),
            orphans=Count("pk", filter=Q(used_as="orphan")),
            last=Max("received_at"),
        )
    }
    refused: dict[str, list[dict[str, Any]]] = {}
    for one in (
        WebhookRefusal.objects.filter(day__gte=since.date())
        .order_by()
        .values("provider", "reason")
        .annotate(count=Sum("count"), last_at=Max("last_at"))
    ):
        refused.setdefault(one["provider"], []).append({**one, "says": REASONS.get(one["reason"], one["reason"])})
    return [
        {
            "key": name,
            "name": provider_name(name),
            "down_since": health[name].unreachable_since if name in health and health[name].alerted_at else None,
            "silent_since": health[name].unreachable_since if name in health else None,
            "detail": health[name].detail if name in health else "",
            "last_answer_at": health[name].last_answer_at if name in health else None,
            "in_doubt": doubt.get(name, 0),
            "webhooks": heard.get(name),
            "refused": sorted(refused.get(name, []), key=lambda one: -one["count"]),
        }
        for name in sorted(settings.PROVIDERS)
    ]
