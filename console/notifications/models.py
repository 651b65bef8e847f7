"""The tables of telling: endpoints, how far the event log has been followed, messages, their deliveries, and every try."""

from __future__ import annotations

import uuid

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from console.notifications import states
from runs.ids import new_id
from runs.models import ClockTimestamp, Xid8Field


class Endpoint(models.Model):
    """Where messages go: a URL, or an e-mail address. No secret is stored: each follows from one of `salts` (the newest first)."""

    id = models.UUIDField(primary_key=True, default=new_id)
    name = models.CharField(max_length=100)
    medium = models.CharField(max_length=10, choices=[(m, m) for m in states.MEDIA])
    target = models.CharField(max_length=500)
    kinds = ArrayField(models.CharField(max_length=40))
    salts = ArrayField(models.CharField(max_length=64), default=list)
    unseen = models.BooleanField(default=False, help_text="The newest secret has not been shown to anybody yet.")
    enabled = models.BooleanField(default=True)
    disabled_why = models.CharField(max_length=300, blank=True, default="")
    failing_since = models.DateTimeField(null=True)
    failures = models.IntegerField(default=0, help_text="In a row.")
    paused_until = models.DateTimeField(null=True, help_text="After a failed try: nothing is sent before.")
    made_by = models.CharField(max_length=200)
    made_at = models.DateTimeField(db_default=ClockTimestamp())
    version = models.IntegerField(default=1)

    class Meta:
        constraints = [
            models.CheckConstraint(name="endpoint_webhook_has_secrets", condition=Q(medium=states.MAIL) | Q(salts__len__in=[1, 2])),
        ]

    def __str__(self) -> str:
        return self.name


class Cursor(models.Model):
    """How far the event log has been followed: one row. Its lock makes followers take turns."""

    id = models.IntegerField(primary_key=True, default=1)
    tx = Xid8Field()
    event_id = models.BigIntegerField()

    class Meta:
        constraints = [models.CheckConstraint(name="notification_cursor_once", condition=Q(id=1))]

    def __str__(self) -> str:
        return f"{self.tx}.{self.event_id}"


class Message(models.Model):
    """One thing to tell, made from one event in the commit that moved the cursor past it. Told once to each endpoint, in these words."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    kind = models.CharField(max_length=40)
    event_id = models.BigIntegerField(null=True, help_text="None for a test.")
    reference = models.CharField(max_length=100)
    body = models.JSONField()
    made_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["event_id", "kind"], condition=Q(event_id__isnull=False), name="message_once_per_event")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.reference}"

    @property
    def webhook_id(self) -> str:
        """The same for every try and every endpoint: what a receiver recognises a message by."""
        return f"msg_{self.id.hex}"


class Delivery(models.Model):
    """A message for one endpoint, or for a person's address. Taken for a minute by whoever sends it; `tries` numbers that take."""

    id = models.UUIDField(primary_key=True, default=new_id)
    message = models.ForeignKey(Message, models.PROTECT, related_name="deliveries")
    endpoint = models.ForeignKey(Endpoint, models.PROTECT, null=True, related_name="deliveries")
    address = models.CharField(max_length=254, blank=True, default="")
    state = models.CharField(max_length=10, choices=[(s, s) for s in states.STATES], default=states.PENDING)
    tries = models.IntegerField(default=0)
    next_at = models.DateTimeField(db_default=ClockTimestamp())
    taken_until = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["message", "endpoint"], condition=Q(endpoint__isnull=False), name="delivery_once_per_endpoint"),
            models.UniqueConstraint(fields=["message", "address"], condition=Q(endpoint__isnull=True), name="delivery_once_per_address"),
            models.CheckConstraint(
                name="delivery_goes_somewhere",
                condition=(Q(endpoint__isnull=False, address="") | (Q(endpoint__isnull=True) & ~Q(address=""))),
            ),
        ]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(state=states.PENDING), name="delivery_due"),
            models.Index(fields=["endpoint", "-id"], name="delivery_newest"),
        ]
        verbose_name_plural = "deliveries"

    def __str__(self) -> str:
        return f"{self.message_id} {self.state}"


class Try(models.Model):
    """One time a message may have left. Without an outcome its sender was lost before it could record one."""

    delivery = models.ForeignKey(Delivery, models.PROTECT, related_name="attempts")
    number = models.IntegerField()
    at = models.DateTimeField(db_default=ClockTimestamp())
    ended_at = models.DateTimeField(null=True)
    delivered = models.BooleanField(null=True)
    status = models.IntegerField(null=True, help_text="The HTTP status, when there was one.")
    detail = models.CharField(max_length=300, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["delivery", "number"], name="try_number_once")]
        verbose_name_plural = "tries"

    def __str__(self) -> str:
        return f"{self.delivery_id}/{self.number}"
