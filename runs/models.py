"""The tables of a run's life. Rows change only through `runs/transition.py` (and the hot paths it names); history tables never change."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import ExpressionWrapper, F, Q
from django.db.models.functions import Upper

from runs import states
from runs.ids import new_id, new_ref


class Xid8Field(models.BigIntegerField):
    """PostgreSQL's 64-bit transaction id (`xid8`), read as int."""

    def db_type(self, connection: Any) -> str:
        return "xid8"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        return None if value is None else str(value)

    def from_db_value(self, value: Any, expression: Any, connection: Any) -> int | None:
        return None if value is None else int(value)


class CurrentTransaction(models.Func):
    """`pg_current_xact_id()`: the transaction that writes the row."""

    function = "pg_current_xact_id"
    arity = 0
    output_field = Xid8Field()


class ClockTimestamp(models.Func):
    """`clock_timestamp()`: the database's clock now, not at the start of the transaction."""

    function = "clock_timestamp"
    arity = 0
    output_field = models.DateTimeField()


def run_ref() -> str:
    return new_ref("R")


class ReadOnlyUpdates(models.Model):
    """A row that is inserted once; `save()` on an existing row is refused, so that every change goes through its one door."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise TypeError(f"{type(self).__name__} rows change through their own verbs, never by save()")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{type(self).__name__} rows are never deleted")


TIME_TO_QUIET = ExpressionWrapper(F("quiet_at") - F("asked_at"), output_field=models.DurationField())
"""How long after the cancel a run was quiet, as its index says it."""


class Run(ReadOnlyUpdates):
    """One execution of an agent. `version` is the seq of its last event; counters speak of effects that this app does not know."""

    id = models.UUIDField(primary_key=True, default=new_id)
    ref = models.CharField(max_length=12, unique=True, default=run_ref)
    agent = models.CharField(max_length=100)
    title = models.CharField(max_length=300)
    business_ref = models.CharField(max_length=200, blank=True, default="")
    client_key = models.CharField(max_length=200, blank=True, default="")
    content_digest = models.CharField(max_length=64)
    input = models.JSONField(default=dict)
    labels = models.JSONField(default=dict)
    plan = models.JSONField(default=list, help_text="Step keys known beforehand.")
    owner = models.CharField(max_length=100, help_text="The credential or person that created it.")
    owner_name = models.CharField(max_length=200, default="")
    runtime = models.CharField(max_length=40, blank=True, default="")
    runtime_ref = models.CharField(max_length=200, blank=True, default="")

    parent = models.ForeignKey("self", models.PROTECT, null=True, related_name="children")
    root = models.ForeignKey("self", models.PROTECT, null=True, related_name="+")
    depth = models.IntegerField(default=0)

    state = models.CharField(max_length=20, choices=[(s, s) for s in states.STATES], default=states.SCHEDULED)
    version = models.BigIntegerField(default=0)
    waits_for = models.JSONField(null=True)
    wake_at = models.DateTimeField(null=True)

    lease_token = models.CharField(max_length=64, null=True)  # noqa: DJ001 - null says "no lease", and the index skips it
    lease_holder = models.CharField(max_length=200, null=True)  # noqa: DJ001
    lease_epoch = models.IntegerField(default=0)
    lease_expires_at = models.DateTimeField(null=True)
    lease_ttl_s = models.FloatField(default=30)
    heartbeat_at = models.DateTimeField(null=True)

    in_flight = models.IntegerField(default=0)
    in_doubt = models.IntegerField(default=0)
    unknowable = models.IntegerField(default=0)
    needs_person = models.IntegerField(default=0)
    landed = models.IntegerField(default=0)
    effects_total = models.IntegerField(default=0)
    doubted = models.IntegerField(default=0)
    children_open = models.IntegerField(default=0)
    children_unsettled = models.IntegerField(default=0)
    refused_after_cancel = models.IntegerField(default=0)

    settlement = models.GeneratedField(expression=states.settlement_case(), output_field=models.CharField(max_length=20), db_persist=True)
    status = models.GeneratedField(expression=states.status_case(), output_field=models.CharField(max_length=40), db_persist=True)

    cancel_position = models.BigIntegerField(null=True)
    cancel_mode = models.CharField(max_length=10, blank=True, default="")
    created_at = models.DateTimeField(db_default=ClockTimestamp())
    started_at = models.DateTimeField(null=True)
    asked_at = models.DateTimeField(null=True)
    heard_at = models.DateTimeField(null=True)
    quiet_at = models.DateTimeField(null=True)
    quiet_basis = models.CharField(max_length=10, blank=True, default="")
    settled_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(db_default=ClockTimestamp())
    deadline_at = models.DateTimeField(null=True)
    result = models.JSONField(null=True)
    error = models.TextField(blank=True, default="")
    cost_before_cancel = models.JSONField(default=dict, help_text="Sums of whole numbers by name, as model calls reported them.")
    cost_after_cancel = models.JSONField(default=dict)
    cleanup_seconds_max = models.FloatField(default=300)
    cleanup_calls_max = models.IntegerField(default=20)
    cleanup_calls = models.IntegerField(default=0)
    cleanup_started_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="run_closed_has_closed_at",
                condition=Q(state__in=sorted(states.CLOSED), closed_at__isnull=False)
                | (~Q(state__in=sorted(states.CLOSED)) & Q(closed_at__isnull=True)),
            ),
            models.CheckConstraint(name="run_closed_nothing_in_flight", condition=~Q(state__in=sorted(states.CLOSED)) | Q(in_flight=0)),
            models.CheckConstraint(
                name="run_lease_whole",
                condition=Q(lease_holder__isnull=True, lease_expires_at__isnull=True, lease_token__isnull=True)
                | Q(lease_holder__isnull=False, lease_expires_at__isnull=False, lease_token__isnull=False),
            ),
            models.CheckConstraint(
                name="run_lease_where_due",
                condition=Q(state=states.RUNNING, lease_token__isnull=False)
                | Q(state__in=[states.CANCELLING, states.FAILING])
                | (~Q(state__in=sorted(states.LEASED)) & Q(lease_token__isnull=True)),
            ),
            models.CheckConstraint(
                name="run_cancel_has_position",
                condition=~Q(state__in=[states.CANCELLING, states.CANCELLED, states.TERMINATED]) | Q(cancel_position__isnull=False),
            ),
            models.CheckConstraint(
                name="run_counters_not_negative",
                condition=Q(
                    in_flight__gte=0,
                    in_doubt__gte=0,
                    unknowable__gte=0,
                    needs_person__gte=0,
                    landed__gte=0,
                    effects_total__gte=0,
                    doubted__gte=0,
                    children_open__gte=0,
                    children_unsettled__gte=0,
                ),
            ),
        ]
        indexes = [
            models.Index(fields=["agent", "created_at"], condition=Q(state=states.SCHEDULED), name="run_claimable"),
            models.Index(fields=["lease_expires_at"], condition=Q(lease_expires_at__isnull=False), name="run_lease_expiry"),
            models.Index(
                fields=["deadline_at"],
                condition=Q(deadline_at__isnull=False, closed_at__isnull=True),
                name="run_deadline",
            ),
            models.Index(fields=["state"], condition=Q(closed_at__isnull=True), name="run_open_state"),
            models.Index(fields=["id"], condition=Q(waits_for__isnull=False), name="run_waiting"),
            models.Index(fields=["-created_at", "-id"], name="run_newest"),
            models.Index(fields=["status", "-created_at", "-id"], name="run_status_newest"),
            models.Index(fields=["agent", "-created_at", "-id"], name="run_agent_newest"),
            models.Index(
                fields=["business_ref"],
                include=["created_at", "id"],  # those that begin alike are sorted within the index
                opclasses=["varchar_pattern_ops"],
                name="run_business_ref_newest",
            ),
            GinIndex(fields=["labels"], condition=~Q(labels={}), name="run_labels"),
            models.Index(
                fields=["asked_at"],
                include=["agent", "heard_at", "quiet_at", "quiet_basis", "refused_after_cancel"],  # what is measured of a month's cancels
                condition=Q(asked_at__isnull=False),
                name="run_asked_measured",
            ),
            models.Index(fields=["started_at"], condition=Q(started_at__isnull=False), name="run_started"),
            models.Index(
                TIME_TO_QUIET,
                include=["id", "asked_at", "quiet_at"],  # so that which runs took long is read from the index alone
                condition=Q(asked_at__isnull=False, quiet_at__isnull=False),
                name="run_by_time_to_quiet",
            ),
            models.Index(
                fields=["agent", "-asked_at"],
                include=["quiet_at"],
                condition=Q(asked_at__isnull=False, quiet_at__isnull=False),
                name="run_agent_stopped",
            ),
            models.Index(fields=["id"], condition=Q(refused_after_cancel__gt=0), name="run_refused"),
            models.Index(fields=["parent", "id"], name="run_children"),
            models.Index(fields=["id"], condition=Q(children_open__gt=0) | Q(children_unsettled__gt=0), name="run_minds_children"),
            models.Index(
                fields=["parent"],
                condition=Q(parent__isnull=False) & (Q(closed_at__isnull=True) | Q(settlement__in=["pending", "unresolved"])),
                name="run_unsettled_child",
            ),
        ]

    def __str__(self) -> str:
        return self.ref

    @property
    def is_closed(self) -> bool:
        return self.state in states.CLOSED

    @property
    def is_settled(self) -> bool:
        """Every effect of the run and of what is below it is known (what `settlement` says, before the row is written)."""
        open_questions = self.needs_person + self.unknowable + self.in_flight + self.in_doubt
        return open_questions + self.children_open + self.children_unsettled == 0


class ClientKey(models.Model):
    """One row per (agent, key), written first by creation and by a cancel that precedes it: the row lock serialises the two."""

    agent = models.CharField(max_length=100)
    key = models.CharField(max_length=200)
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="+")
    cancel_reason = models.TextField(blank=True, default="")
    cancel_actor = models.JSONField(null=True)
    cancel_asked_at = models.DateTimeField(null=True)
    cancel_expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "key"], name="client_key_once")]
        indexes = [models.Index(fields=["cancel_expires_at"], condition=Q(cancel_expires_at__isnull=False), name="client_key_expiry")]

    def __str__(self) -> str:
        return f"{self.agent}/{self.key}"


class Lease(models.Model):
    """Every lease a run ever gave: what a late fact is recognised by, and whether that epoch's sender is known to be stopped."""

    id = models.UUIDField(primary_key=True, default=new_id)
    run = models.ForeignKey(Run, models.PROTECT, related_name="leases")
    epoch = models.IntegerField()
    kind = models.CharField(max_length=10, default="work")
    token = models.CharField(max_length=64, unique=True)
    holder = models.CharField(max_length=200)
    credential = models.CharField(max_length=100)
    granted_at = models.DateTimeField(db_default=ClockTimestamp())
    ended_at = models.DateTimeField(null=True)
    ended_how = models.CharField(max_length=20, blank=True, default="")
    stopped_at = models.DateTimeField(null=True)
    stopped_how = models.CharField(max_length=10, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "epoch"], name="lease_epoch_once")]
        indexes = [models.Index(fields=["holder"], condition=Q(stopped_at__isnull=True), name="lease_holder_alive")]

    def __str__(self) -> str:
        return f"{self.run_id}:{self.epoch}"


class Step(models.Model):
    """A unit of a run's progress, keyed by (run, key); a finished one keeps its result for the next worker."""

    id = models.UUIDField(primary_key=True, default=new_id)
    run = models.ForeignKey(Run, models.PROTECT, related_name="steps")
    key = models.CharField(max_length=200)
    kind = models.CharField(max_length=20, choices=[(k, k) for k in states.STEP_KINDS], default="tool")
    title = models.CharField(max_length=300, blank=True, default="")
    state = models.CharField(max_length=20, choices=[(s, s) for s in states.STEP_STATES], default="running")
    epoch = models.IntegerField()
    position = models.BigIntegerField(help_text="The run's seq at its latest start.")
    hears_cancel_every_s = models.FloatField(null=True)
    deadline_at = models.DateTimeField(null=True)
    input_digest = models.CharField(max_length=64, blank=True, default="")
    result = models.JSONField(null=True)
    late_result = models.JSONField(null=True)
    error = models.TextField(blank=True, default="")
    cost = models.JSONField(null=True)
    progress = models.FloatField(null=True)
    message = models.CharField(max_length=500, blank=True, default="")
    answered_at = models.DateTimeField(null=True, help_text="Its latest heartbeat.")
    started_at = models.DateTimeField(db_default=ClockTimestamp())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "key"], name="step_key_once")]
        indexes = [models.Index(fields=["deadline_at"], condition=Q(state="running", deadline_at__isnull=False), name="step_deadline")]

    def __str__(self) -> str:
        return self.key


class CancelRequest(ReadOnlyUpdates):
    """One act of asking for a cancel, with the answer it got. History: the receipt is never reworded later."""

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id)
    run = models.ForeignKey(Run, models.PROTECT, related_name="cancel_requests")
    caused_by = models.ForeignKey("self", models.PROTECT, null=True, related_name="+")
    mode = models.CharField(max_length=10)
    answer = models.CharField(max_length=20, help_text="accepted, repeat or already_closed")
    actor_type = models.CharField(max_length=10)
    actor_id = models.CharField(max_length=100)
    actor_name = models.CharField(max_length=200)
    channel = models.CharField(max_length=20, blank=True, default="")
    reason = models.TextField(blank=True, default="")
    version_seen = models.BigIntegerField(null=True)
    position = models.BigIntegerField()
    at = models.DateTimeField(db_default=ClockTimestamp())
    receipt = models.JSONField(null=True)
    # The run's place in lists, written by the database, so that the runs that somebody stopped are found in the order of a list.
    run_created_at = models.DateTimeField(editable=False)

    class Meta:
        indexes = [
            models.Index(fields=["run", "position"], name="cancel_by_run"),
            models.Index(fields=["at"], condition=Q(answer="already_closed"), name="cancel_too_late"),
            models.Index(fields=["actor_id", "-run_created_at", "-run"], condition=Q(answer="accepted"), name="cancel_by_actor_newest"),
            models.Index(
                Upper("actor_name"),
                F("run_created_at").desc(),
                F("run").desc(),
                include=["actor_name"],  # without it the planner does not read the index alone
                condition=Q(answer="accepted"),
                name="cancel_by_name_newest",
            ),
        ]
        constraints = [
            models.UniqueConstraint(fields=["run", "mode"], condition=Q(answer="accepted"), name="cancel_accepted_once_per_mode")
        ]

    def __str__(self) -> str:
        return f"{self.mode} of {self.run_id}"


COMMON_KINDS = (
    "run.created",
    "run.claimed",
    "run.completed",
    "step.started",
    "step.finished",
    "effect.declared",
    "effect.sending",
    "effect.landed",
)
"""What every ordinary run writes, again and again."""


class Event(ReadOnlyUpdates):
    """What happened, in order: `seq` is assigned under the run's lock; `tx` lets the tail read in commit order. Never changed."""

    append_only = True

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="events")
    seq = models.BigIntegerField(null=True)
    tx = Xid8Field(db_default=CurrentTransaction())
    kind = models.CharField(max_length=60)
    subject = models.CharField(max_length=200, blank=True, default="")
    actor_type = models.CharField(max_length=10)
    actor_id = models.CharField(max_length=100)
    actor_name = models.CharField(max_length=200)
    channel = models.CharField(max_length=20, blank=True, default="")
    data = models.JSONField(default=dict)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "seq"], name="event_seq_once")]
        indexes = [
            models.Index(fields=["tx", "id"], name="event_tail"),
            models.Index(fields=["id"], condition=Q(run__isnull=True), name="event_system"),
            models.Index(fields=["at", "id"], name="event_by_time"),
            # What people do is rare, and is found by who they are, by the name that they had, and by itself.
            models.Index(fields=["actor_id", "at", "id"], condition=Q(actor_type="person"), name="event_by_person"),
            models.Index(fields=["actor_name", "at", "id"], condition=Q(actor_type="person"), name="event_by_name"),
            models.Index(fields=["at", "id"], condition=Q(actor_type="person"), name="event_of_people"),
            # What did a machine do whose secret got out? One that did little among many is not found by going through them all.
            models.Index(fields=["actor_id", "at", "id"], condition=~Q(actor_type="person"), name="event_by_machine"),
            # The common acts of machines pay for no index of their own.
            models.Index(fields=["kind", "at", "id"], condition=~Q(kind__in=COMMON_KINDS), name="event_rare_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}#{self.seq} {self.kind}"


class Seal(ReadOnlyUpdates):
    """A stretch of one hash chain: of a run's events, or of the system stream (no run). Written by `runs/sealing.py`, never changed.

    `first` and `last` are places in the chain (a run's seqs); `links` holds 32 bytes for each event, `head` the last of them.
    """

    append_only = True

    id = models.BigAutoField(primary_key=True)
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="seals")
    first = models.BigIntegerField()
    last = models.BigIntegerField()
    events = ArrayField(models.BigIntegerField(), default=list, help_text="Of the system stream: the ids of its events, in order.")
    previous = models.CharField(max_length=64)
    links = models.BinaryField()
    head = models.CharField(max_length=64)
    sealed_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "first"], condition=Q(run__isnull=False), name="seal_follows_once"),
            models.UniqueConstraint(fields=["first"], condition=Q(run__isnull=True), name="seal_system_follows_once"),
            models.CheckConstraint(name="seal_not_empty", condition=Q(first__gte=1, last__gte=models.F("first"))),
        ]

    def __str__(self) -> str:
        return f"{self.run_id or 'system'} {self.first}-{self.last}"


class SealPlace(models.Model):
    """How far the sealing has read, in commit order. One row; whoever seals holds its lock."""

    id = models.IntegerField(primary_key=True, default=1)
    tx = Xid8Field(default=0)
    event_id = models.BigIntegerField(default=0)
    after_id = models.BigIntegerField(default=0, help_text="Events up to this id were written in an earlier cluster.")

    class Meta:
        constraints = [models.CheckConstraint(name="seal_place_one", condition=Q(id=1))]

    def __str__(self) -> str:
        return f"{self.tx}/{self.event_id}"


class Anchor(models.Model):
    """The heads of the chains that grew since the last anchor, as the line that is kept outside this database."""

    number = models.BigIntegerField(primary_key=True)
    line = models.TextField()
    through = models.BigIntegerField(help_text="The id of the last seal that it speaks of.")
    made_at = models.DateTimeField(db_default=ClockTimestamp())
    posted_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["number"], condition=Q(posted_at__isnull=True), name="anchor_to_post")]

    def __str__(self) -> str:
        return str(self.number)


class Approval(models.Model):
    """A question that a run waits on, bound by digest to the action it allows. Decided once, by a person; spent once, inside the fence."""

    STATES = ("requested", "approved", "rejected", "expired", "withdrawn")

    id = models.UUIDField(primary_key=True, default=new_id)
    run = models.ForeignKey(Run, models.PROTECT, related_name="approvals")
    key = models.CharField(max_length=200)
    question = models.CharField(max_length=1000)
    details = models.JSONField(null=True)
    action = models.JSONField(null=True, help_text="Provider, action, business_ref, occurrence, amount, currency, request.")
    digest = models.CharField(max_length=64)
    state = models.CharField(max_length=10, choices=[(s, s) for s in STATES], default="requested")
    requested_at = models.DateTimeField(db_default=ClockTimestamp())
    expires_at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True)
    decided_by = models.CharField(max_length=100, blank=True, default="")
    decided_name = models.CharField(max_length=200, blank=True, default="")
    comment = models.TextField(blank=True, default="")
    spent_on = models.UUIDField(null=True, help_text="The operation id that it was spent on.")
    spent_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key"], name="approval_key_once"),
            models.UniqueConstraint(fields=["spent_on"], condition=Q(spent_on__isnull=False), name="approval_spent_once"),
            models.CheckConstraint(name="approval_spent_only_approved", condition=Q(spent_on__isnull=True) | Q(state="approved")),
            models.CheckConstraint(
                name="approval_decided_by_someone",
                condition=~Q(state__in=["approved", "rejected"]) | (~Q(decided_by="") & Q(decided_at__isnull=False)),
            ),
        ]
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(state="requested"), name="approval_to_decide"),
            models.Index(fields=["decided_at"], condition=Q(decided_at__isnull=False), name="approval_decided"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.key}"


class Cleanup(models.Model):
    """Tidying registered before it is needed: run after quiet, each item at most once, under its own lease and the run's cleanup budget."""

    STATES = ("registered", "claimed", "done", "left_behind", "voided")

    id = models.UUIDField(primary_key=True, default=new_id)
    run = models.ForeignKey(Run, models.PROTECT, related_name="cleanups")
    key = models.CharField(max_length=200)
    handler = models.CharField(max_length=100)
    arguments = models.JSONField(default=dict)
    order = models.IntegerField(default=0)
    cleans = models.UUIDField(null=True, help_text="The operation id of the effect that it cleans.")
    state = models.CharField(max_length=12, choices=[(s, s) for s in STATES], default="registered")
    epoch = models.IntegerField(null=True)
    calls = models.IntegerField(default=0)
    why = models.CharField(max_length=500, blank=True, default="", help_text="Why it was left behind.")
    detail = models.JSONField(null=True)
    registered_at = models.DateTimeField(db_default=ClockTimestamp())
    claimed_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "key"], name="cleanup_key_once")]
        indexes = [
            models.Index(fields=["handler"], condition=Q(state="registered"), name="cleanup_to_do"),
            models.Index(fields=["run"], condition=Q(state="left_behind"), name="cleanup_left_behind"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.key}"


class Delivery(models.Model):
    """The native cancel of a run's runtime, as a recorded hint. The fence does not depend on it."""

    STATES = ("pending", "delivered", "acknowledged", "unsupported", "failed")

    run = models.OneToOneField(Run, models.PROTECT, related_name="delivery")
    runtime = models.CharField(max_length=40)
    state = models.CharField(max_length=14, choices=[(s, s) for s in STATES], default="pending")
    why = models.CharField(max_length=500, blank=True, default="")
    tries = models.IntegerField(default=0)
    made_at = models.DateTimeField(db_default=ClockTimestamp())
    changed_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        verbose_name_plural = "deliveries"

    def __str__(self) -> str:
        return f"{self.runtime} {self.state}"


class BulkCancel(models.Model):
    """One job that cancels many runs, each with its own answer. The runs are fixed at the click; later ones are not included."""

    id = models.UUIDField(primary_key=True, default=new_id)
    actor = models.JSONField()
    reason = models.TextField(blank=True, default="")
    selection = models.JSONField(help_text="What was asked for: ids or a filter.")
    total = models.IntegerField()
    asked_at = models.DateTimeField(db_default=ClockTimestamp())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.CheckConstraint(name="bulk_never_empty", condition=Q(total__gt=0))]
        indexes = [models.Index(fields=["asked_at"], condition=Q(finished_at__isnull=True), name="bulk_unfinished")]

    def __str__(self) -> str:
        return str(self.id)


class BulkLine(models.Model):
    """One run of a bulk cancel, with its answer."""

    job = models.ForeignKey(BulkCancel, models.PROTECT, related_name="lines")
    number = models.IntegerField()
    run = models.ForeignKey(Run, models.PROTECT, null=True, related_name="+")
    asked_for = models.CharField(max_length=100, help_text="The id or reference as it was given.")
    answer = models.CharField(max_length=20, blank=True, default="")
    detail = models.CharField(max_length=500, blank=True, default="")
    answered_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="bulk_line_once")]
        indexes = [models.Index(fields=["job", "number"], condition=Q(answer=""), name="bulk_line_open")]

    def __str__(self) -> str:
        return f"{self.job_id}/{self.number}"
