"""The inbox of webhooks: verified over raw bytes, stored, answered, then processed by a sweep. Evidence, never authority."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.db import connection, transaction
from django.db.models import F, Q

from ledger import catalogue, outcomes, reversals
from ledger import states as effect_states
from ledger.models import Effect
from ledger.providers.base import News, SignatureRefused
from reconciliation import orphans
from reconciliation.health import RECONCILER
from reconciliation.models import WebhookEvent
from runs import hints, sweeps, transition
from runs.errors import Invalid
from runs.ids import parse_uuid

KEPT_HEADERS = ("webhook-id", "webhook-timestamp", "stripe-signature", "content-type", "user-agent")
RAW_BYTES_MAX = 256 * 1024


def receive(provider: str, headers: Mapping[str, str], raw: bytes) -> WebhookEvent:
    """Verify and store one webhook; only after that may it be answered 2xx. Raises `Invalid` when it is not believed."""
    adapter = catalogue.provider(provider)
    if len(raw) > RAW_BYTES_MAX:
        _count_refusal(provider, "size", f"larger than {RAW_BYTES_MAX} bytes")
        raise Invalid(f"A webhook is at most {RAW_BYTES_MAX} bytes.", field="body")
    try:
        news = adapter.read_webhook(headers, raw, transition.clock())
    except SignatureRefused as refused:
        _count_refusal(provider, refused.reason, str(refused))
        raise Invalid(f"The webhook is not believed: {refused}", field="signature") from refused
    row, created = WebhookEvent.objects.get_or_create(provider=provider, event_id=news.event_id, defaults=_values(news, headers, raw))
    if not created:
        WebhookEvent.objects.filter(pk=row.pk).update(received=F("received") + 1)
    hints.nudge("webhook.received")
    return row


def _count_refusal(provider: str, reason: str, detail: str) -> None:
    """One statement: whoever sends forgeries adds to a number, never to rows."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO reconciliation_webhookrefusal (provider, reason, day, count, last_at, last_detail)"
            " VALUES (%s, %s, (clock_timestamp() AT TIME ZONE 'UTC')::date, 1, clock_timestamp(), %s)"
            " ON CONFLICT (provider, reason, day) DO UPDATE SET count = reconciliation_webhookrefusal.count + 1,"
            " last_at = clock_timestamp(), last_detail = excluded.last_detail",
            (provider, reason, detail[:300]),
        )


def _values(news: News, headers: Mapping[str, str], raw: bytes) -> dict[str, Any]:
    found = None
    if news.found is not None:
        found = asdict(news.found) | {"at": news.found.at.isoformat() if news.found.at else None}
    return {
        "kind": news.kind,
        "operation_id": parse_uuid(news.operation_id) if news.operation_id else None,
        "reference": news.reference or "",
        "found": found,
        "raw": raw,
        "raw_sha256": hashlib.sha256(raw).hexdigest(),
        "headers": {name: value for name, value in headers.items() if name.lower() in KEPT_HEADERS},
    }


def process_due(limit: int = 100) -> int:
    """Process what is stored and not processed yet; returns how many were used. Order never matters, and one that fails is tried again."""
    ids = list(WebhookEvent.objects.filter(processed_at__isnull=True).order_by("received_at").values_list("pk", flat=True)[:limit])
    return sweeps.each(ids, process)


def process(pk: uuid.UUID) -> bool:
    """Use one stored webhook, once. Returns whether this call did."""
    event = WebhookEvent.objects.get(pk=pk)
    operation_id = _effect_of(event)
    with transaction.atomic(durable=True):
        held = outcomes.lock(operation_id) if operation_id else None
        row = WebhookEvent.objects.select_for_update().get(pk=pk)
        if row.processed_at is not None:
            return False
        used_as = "nothing_in_it"
        if row.found is not None and held is not None:
            used_as = reversals.tell(held, row.as_fact(), RECONCILER)
        elif row.found is not None:
            used_as = "orphan"
            orphans.record(row)
        WebhookEvent.objects.filter(pk=pk).update(processed_at=transition.clock(), used_as=used_as)
        return True


def _effect_of(event: WebhookEvent) -> uuid.UUID | None:
    """The effect a webhook speaks of: by our operation id where the provider hands it back, else by reference (the holder first)."""
    ours = Effect.objects.filter(provider=event.provider)
    if event.operation_id is not None:
        found = ours.filter(pk=event.operation_id).values_list("pk", flat=True).first()
        if found is not None:
            return found
    if undone := (event.found or {}).get("undoes"):
        return ours.filter(external_id=undone).exclude(role=effect_states.COMPENSATION).values_list("pk", flat=True).first()
    if not event.reference:
        return None
    reference, _, number = event.reference.rpartition("#")
    named = Q(business_ref=event.reference, occurrence=1)
    if reference and number.isascii() and number.isdigit() and len(number) < 9:
        named |= Q(business_ref=reference, occurrence=int(number))
    return ours.filter(named).order_by("-holds_action", "-created_at").values_list("pk", flat=True).first()
