"""The tables of finding out: cases for people, what we know of each provider's reachability, and the inbox of webhooks."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import ExpressionWrapper, F, Q

from ledger.models import Effect
from ledger.outcomes import Fact
from ledger.providers.base import Found
from ledger.reversals import UNDOING
from reconciliation import states
from runs.ids import new_id, new_ref
from runs.models import ClockTimestamp, ReadOnlyUpdates, Run, Xid8Field


def case_ref() -> str:
    return new_ref("Q")


_NO_MONEY = ExpressionWrapper(Q(amount__isnull=True), output_field=models.BooleanField())


class Case(models.Model):
    """Something that a person must settle. One unsettled case for each effect, run or provider and kind."""

    MOST_URGENT = (_NO_MONEY, "currency", F("amount").desc(nulls_last=True), "opened_at", "id")
    """Money at risk first, each currency by itself and the largest first, then age."""

    id = models.UUIDField(primary_key=True, default=new_id)
    ref = models.CharField(max_length=12, unique=True, default=case_ref)
    kind = models.CharField(max_length=30, choices=[(k, k) for k in states.KINDS])
    state = models.CharField(max_length=20, choices=[(s, s) for s in states.STATES], default=states.OPEN)
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="cases")
    effect = models.ForeignKey(Effect, models.PROTECT, null=True, related_name="cases")
    provider = models.CharField(max_length=60, blank=True, default="")
    business_ref = models.CharField(max_length=200, blank=True, default="")
    amount = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=3, blank=True, default="")
    why = models.TextField(help_text="The sentence that says what could not be settled, and why.")
    facts = models.JSONField(default=dict)
    opened_at = models.DateTimeField(db_default=ClockTimestamp())
    reopened = models.IntegerField(default=0)
    claimed_by = models.CharField(max_length=100, blank=True, default="")
    claimed_name = models.CharField(max_length=200, blank=True, default="")
    claimed_until = models.DateTimeField(null=True)
    finding = models.JSONField(null=True, help_text="The finding that waits for a second person, or the one that settled it.")
    settled_at = models.DateTimeField(null=True)
    settled_by = models.CharField(max_length=200, blank=True, default="")
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["effect", "kind"],
                condition=Q(effect__isnull=False) & ~Q(state=states.SETTLED),
                name="case_effect_kind_once",
            ),
            models.UniqueConstraint(
                fields=["run", "kind"],
                condition=Q(effect__isnull=True, run__isnull=False) & ~Q(state=states.SETTLED),
                name="case_run_kind_once",
            ),
            models.UniqueConstraint(
                fields=["provider"],
                condition=Q(kind=states.PROVIDER_DOWN) & ~Q(state=states.SETTLED),
                name="case_provider_down_once",
            ),
            models.CheckConstraint(
                name="case_claim_whole",
                condition=(Q(state=states.CLAIMED, claimed_until__isnull=False) & ~Q(claimed_by="")) | ~Q(state=states.CLAIMED),
            ),
        ]
        indexes = [
            models.Index(
                _NO_MONEY,
                "currency",
                F("amount").desc(nulls_last=True),
                "opened_at",
                "id",
                condition=~Q(state=states.SETTLED),
                name="case_urgent",
            ),
            models.Index(fields=["-opened_at", "-id"], condition=~Q(state=states.SETTLED), name="case_opened"),
            models.Index(fields=["-settled_at", "id"], condition=Q(state=states.SETTLED), name="case_settled"),
            models.Index(fields=["claimed_until"], condition=Q(state=states.CLAIMED), name="case_claims"),
            models.Index(fields=["business_ref"], name="case_business_ref", opclasses=["varchar_pattern_ops"]),
        ]

    def __str__(self) -> str:
        return self.ref


class CaseEvent(ReadOnlyUpdates):
    """Every act on a case: the earlier verdict stays visible for ever."""

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id)
    case = models.ForeignKey(Case, models.PROTECT, related_name="events")
    kind = models.CharField(max_length=30)
    actor_type = models.CharField(max_length=10)
    actor_id = models.CharField(max_length=100)
    actor_name = models.CharField(max_length=200)
    data = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        indexes = [models.Index(fields=["case", "at"], name="case_event_order")]

    def __str__(self) -> str:
        return f"{self.case_id} {self.kind}"


class CaseFile(ReadOnlyUpdates):
    """A file that a person kept as evidence of a case: its bytes are in the evidence storage, their hash is here."""

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id)
    case = models.ForeignKey(Case, models.PROTECT, related_name="files")
    name = models.CharField(max_length=200, help_text="As it was called where it came from; never a path here.")
    content_type = models.CharField(max_length=60)
    size = models.IntegerField(help_text="Bytes.")
    sha256 = models.CharField(max_length=64)
    stored_as = models.CharField(max_length=200)
    kept_by = models.CharField(max_length=100)
    kept_name = models.CharField(max_length=200)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["case", "sha256"], name="case_file_once")]
        indexes = [models.Index(fields=["case", "at"], name="case_file_order")]

    def __str__(self) -> str:
        return f"{self.case_id} {self.name}"


class ProviderHealth(models.Model):
    """Whether a provider can be asked at present: one row each, and with it the one alert."""

    provider = models.CharField(max_length=60, primary_key=True)
    unreachable_since = models.DateTimeField(null=True)
    last_answer_at = models.DateTimeField(null=True)
    failures = models.IntegerField(default=0)
    alerted_at = models.DateTimeField(null=True)
    detail = models.CharField(max_length=500, blank=True, default="")
    looks_taken_at = models.DateTimeField(null=True, help_text="The rate limit: when the next look may be taken.")

    def __str__(self) -> str:
        return self.provider


class WebhookRefusal(models.Model):
    """How many webhooks of a provider were not believed on a day, and why: one row each, so that nobody can fill the database with them."""

    provider = models.CharField(max_length=60)
    reason = models.CharField(max_length=20)
    day = models.DateField()
    count = models.IntegerField(default=1)
    last_at = models.DateTimeField(db_default=ClockTimestamp())
    last_detail = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["provider", "reason", "day"], name="webhook_refusal_once")]

    def __str__(self) -> str:
        return f"{self.provider}: {self.reason} on {self.day}"


class WebhookEvent(models.Model):
    """One believed webhook, stored raw before it is answered; deduplicated on *processed*, not on *seen*."""

    id = models.UUIDField(primary_key=True, default=new_id)
    provider = models.CharField(max_length=60)
    event_id = models.CharField(max_length=200)
    kind = models.CharField(max_length=100, blank=True, default="")
    operation_id = models.UUIDField(null=True)
    reference = models.CharField(max_length=200, blank=True, default="")
    found = models.JSONField(null=True)
    raw = models.BinaryField()
    raw_sha256 = models.CharField(max_length=64)
    headers = models.JSONField(default=dict)
    received_at = models.DateTimeField(db_default=ClockTimestamp())
    received = models.IntegerField(default=1)
    processed_at = models.DateTimeField(null=True)
    used_as = models.CharField(max_length=20, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["provider", "event_id"], name="webhook_event_once")]
        indexes = [models.Index(fields=["received_at"], condition=Q(processed_at__isnull=True), name="webhook_unprocessed")]

    def __str__(self) -> str:
        return f"{self.provider}:{self.event_id}"

    def as_fact(self) -> Fact:
        """What it says of an effect, as evidence."""
        assert self.found is not None
        at = self.found["at"]
        found = Found(**(self.found | {"at": datetime.fromisoformat(at) if at else None}))
        return Fact(
            source="webhook",
            verdict=found.state,
            external_id=found.external_id,
            amount=found.amount,
            currency=found.currency or "",
            reference=found.reference,
            provider_time=found.at,
            body=bytes(self.raw)[:4096].decode("utf-8", "replace"),
            body_sha256=self.raw_sha256,
            request_id=self.event_id,
            signature="verified",
            detail={"kind": self.kind} | {name: told for name in UNDOING if (told := getattr(found, name)) is not None},
        )


def incident_ref() -> str:
    return new_ref("INC")


class Discrepancy(models.Model):
    """Records that disagree: one invariant broken by one run (or by the history as a whole). Open until it is cleared or set aside."""

    id = models.UUIDField(primary_key=True, default=new_id)
    ref = models.CharField(max_length=14, unique=True, default=incident_ref)
    invariant = models.CharField(max_length=10)
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="+")
    sentence = models.TextField()
    found_at = models.DateTimeField(db_default=ClockTimestamp())
    seen_at = models.DateTimeField(db_default=ClockTimestamp(), help_text="When it was found last.")
    cleared_at = models.DateTimeField(null=True)
    cleared_by = models.CharField(max_length=200, blank=True, default="", help_text="Who set it aside; nobody when a later check passed.")
    cleared_why = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["invariant", "run"], condition=Q(cleared_at__isnull=True, run__isnull=False), name="discrepancy_open_once"
            ),
            models.UniqueConstraint(
                fields=["invariant"], condition=Q(cleared_at__isnull=True, run__isnull=True), name="discrepancy_global_open_once"
            ),
        ]
        indexes = [models.Index(fields=["found_at"], condition=Q(cleared_at__isnull=True), name="discrepancy_open")]
        verbose_name_plural = "discrepancies"

    def __str__(self) -> str:
        return self.ref


class IntegrityCheck(models.Model):
    """One check of the records: of what, when, how many runs, what it found. `tx` and `event_id` say how far it had read."""

    KINDS = ("recent", "all", "chains")

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=10, choices=[(k, k) for k in KINDS])
    began_at = models.DateTimeField()
    finished_at = models.DateTimeField(db_default=ClockTimestamp())
    checked = models.IntegerField(help_text="Runs, or chains.")
    found = models.IntegerField()
    tx = Xid8Field(null=True)
    event_id = models.BigIntegerField(null=True)

    class Meta:
        indexes = [models.Index(fields=["kind", "-id"], name="integrity_check_latest")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.found} of {self.checked}"
