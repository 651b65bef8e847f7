"""The tables of everything that leaves the building: effects, attempts, evidence, accounts, who relied on whose outcome, and undoing."""

from __future__ import annotations

from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from ledger import states, undo_states
from runs.ids import new_id, new_ref
from runs.models import ClockTimestamp, ReadOnlyUpdates, Run


def effect_ref() -> str:
    return new_ref("E")


def compensation_ref() -> str:
    return new_ref("C")


class Effect(ReadOnlyUpdates):
    """One outside effect. `operation_id` is ours and stable over retries and workers; `business_ref` is meaningful at the provider."""

    operation_id = models.UUIDField(primary_key=True)
    ref = models.CharField(max_length=12, unique=True, default=effect_ref)
    run = models.ForeignKey(Run, models.PROTECT, related_name="effects")
    step_key = models.CharField(max_length=200)
    ordinal = models.IntegerField(default=0)
    role = models.CharField(max_length=20, choices=[(r, r) for r in states.ROLES], default=states.WORK)
    acts_on = models.ForeignKey("self", models.PROTECT, null=True, related_name="acted_on_by", help_text="Cleanup, compensation.")
    approval_id = models.UUIDField(null=True, help_text="The approval that was spent on it.")

    provider = models.CharField(max_length=60)
    action = models.CharField(max_length=100)
    business_ref = models.CharField(max_length=200)
    occurrence = models.IntegerField(default=1)
    holds_action = models.BooleanField(default=True)
    amount = models.BigIntegerField(null=True, help_text="Minor units of `currency`.")
    currency = models.CharField(max_length=3, blank=True, default="")
    request = models.JSONField()
    request_digest = models.CharField(max_length=64)

    state = models.CharField(max_length=20, choices=[(s, s) for s in states.STATES], default=states.DECLARED)
    version = models.IntegerField(default=1)
    unknowable = models.BooleanField(default=False)
    doubted = models.BooleanField(default=False)
    release = models.CharField(
        max_length=10, blank=True, default="", help_text="After absent: '' | asked | resend | released | left | unasked."
    )
    withheld_why = models.CharField(max_length=20, blank=True, default="")
    landed_amount = models.BigIntegerField(null=True)
    landed_currency = models.CharField(max_length=3, blank=True, default="")
    external_id = models.CharField(max_length=200, blank=True, default="")
    how_we_know = models.CharField(max_length=10, blank=True, default="")
    known_by = models.CharField(max_length=200, blank=True, default="")
    known_position = models.BigIntegerField(null=True, help_text="The run's seq at which the present outcome was recorded.")
    known_at = models.DateTimeField(null=True)
    provider_time = models.DateTimeField(null=True)
    provider_message = models.CharField(max_length=500, blank=True, default="")

    left_in_place_by = models.CharField(max_length=200, blank=True, db_default="", help_text="Who decided not to undo it.")
    left_in_place_at = models.DateTimeField(null=True)

    created_at = models.DateTimeField(db_default=ClockTimestamp())
    sent_at = models.DateTimeField(null=True)
    answer_by = models.DateTimeField(null=True, help_text="Of the latest attempt.")
    unknown_since = models.DateTimeField(null=True)
    final_by = models.DateTimeField(null=True)
    person_after = models.DateTimeField(null=True)
    looks = models.IntegerField(default=0)
    next_look_at = models.DateTimeField(null=True)
    look_token = models.UUIDField(null=True)
    look_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["provider", "action", "business_ref", "occurrence"],
                condition=Q(holds_action=True),
                name="effect_action_held_once",
            ),
            models.UniqueConstraint(fields=["run", "step_key", "ordinal"], name="effect_step_ordinal_once"),
            models.CheckConstraint(name="effect_amount_not_negative", condition=Q(amount__isnull=True) | Q(amount__gte=0)),
            models.CheckConstraint(name="effect_sending_holds", condition=~Q(state__in=["declared", "sending"]) | Q(holds_action=True)),
            models.CheckConstraint(
                name="effect_undo_has_its_request",
                condition=~Q(role=states.COMPENSATION) | Q(acts_on__isnull=False, approval_id__isnull=False),
            ),
            models.UniqueConstraint(fields=["approval_id"], condition=Q(role=states.COMPENSATION), name="effect_undo_once"),
        ]
        indexes = [
            models.Index(fields=["next_look_at"], condition=Q(next_look_at__isnull=False), name="effect_next_look"),
            models.Index(fields=["person_after"], condition=Q(state__in=["unknown", "pending"]), name="effect_ceiling"),
            models.Index(fields=["state", "operation_id"], condition=~Q(state__in=["landed", "refused"]), name="effect_unsettled"),
            models.Index(fields=["answer_by"], condition=Q(state="sending"), name="effect_answer_by"),
            models.Index(fields=["known_at"], condition=Q(doubted=True, known_at__isnull=False), name="effect_doubt_known"),
            models.Index(
                fields=["business_ref"],
                include=["run", "operation_id"],  # some that begin alike are read from it alone, sooner than from the whole table
                opclasses=["varchar_pattern_ops"],
                name="effect_by_business_ref",
            ),
            models.Index(
                fields=["run", "known_position"],
                include=["landed_currency", "landed_amount", "amount"],
                condition=Q(role="work", state__in=("landed", "duplicated")),
                name="effect_landed_of_run",
            ),
            models.Index(fields=["external_id"], condition=~Q(external_id=""), name="effect_external_id"),
            models.Index(fields=["-created_at", "-operation_id"], name="effect_newest_first"),
            models.Index(fields=["provider", "-created_at", "-operation_id"], name="effect_by_provider"),
            models.Index(fields=["currency", "amount"], condition=~Q(currency=""), name="effect_by_amount"),
        ]

    def __str__(self) -> str:
        return self.ref

    @property
    def provider_reference(self) -> str:
        """What the provider is given as our reference: the business reference, with `#2` and so on for later occurrences."""
        return self.business_ref if self.occurrence == 1 else f"{self.business_ref}#{self.occurrence}"

    @property
    def idempotency_key(self) -> str:
        return str(self.operation_id)

    @property
    def action_key(self) -> dict[str, Any]:
        return {
            "provider": self.provider,
            "action": self.action,
            "business_ref": self.business_ref,
            "occurrence": self.occurrence,
        }


class Occurrence(models.Model):
    """One more time of a business action, opened by a person with a reason, and spent by the first declare of it. The first needs none."""

    id = models.UUIDField(primary_key=True, default=new_id)
    provider = models.CharField(max_length=60)
    action = models.CharField(max_length=100)
    business_ref = models.CharField(max_length=200)
    number = models.IntegerField()
    reason = models.TextField()
    opened_by = models.CharField(max_length=100)
    opened_name = models.CharField(max_length=200)
    opened_at = models.DateTimeField(db_default=ClockTimestamp())
    spent_on = models.OneToOneField(Effect, models.PROTECT, null=True, related_name="+")
    spent_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "action", "business_ref", "number"], name="occurrence_number_once"),
            models.UniqueConstraint(
                fields=["provider", "action", "business_ref"], condition=Q(spent_on__isnull=True), name="occurrence_one_unspent"
            ),
            models.CheckConstraint(name="occurrence_is_a_later_one", condition=Q(number__gte=2)),
            models.CheckConstraint(
                name="occurrence_spent_whole",
                condition=Q(spent_on__isnull=True, spent_at__isnull=True) | Q(spent_on__isnull=False, spent_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider}.{self.action} {self.business_ref}#{self.number}"


class ActionPolicy(models.Model):
    """What administrators require of an action before it may be sent. Read inside the fence, so a change holds from its commit on."""

    NEEDS = ("never", "always", "over")

    provider = models.CharField(max_length=60)
    action = models.CharField(max_length=100)
    needs_approval = models.CharField(max_length=10, choices=[(n, n) for n in NEEDS], default="never")
    over_major = models.DecimalField(
        max_digits=20, decimal_places=4, null=True, help_text="With `over`: the amount in major units of whatever currency."
    )
    version = models.IntegerField(default=1)
    changed_by = models.CharField(max_length=200, blank=True, default="")
    changed_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "action"], name="action_policy_once"),
            models.CheckConstraint(name="action_policy_over_has_amount", condition=~Q(needs_approval="over") | Q(over_major__gte=0)),
        ]
        verbose_name_plural = "action policies"

    def __str__(self) -> str:
        return f"{self.provider}.{self.action}: {self.needs_approval}"


class Attempt(models.Model):
    """One time an effect's bytes may have left. Since `stopped_at` its sender is known not to act any more; `stopped_how` says how."""

    id = models.UUIDField(primary_key=True, default=new_id)
    effect = models.ForeignKey(Effect, models.PROTECT, related_name="attempts")
    run = models.ForeignKey(Run, models.PROTECT, related_name="+")
    number = models.IntegerField()
    epoch = models.IntegerField()
    holder = models.CharField(max_length=200, blank=True, default="")
    nonce = models.CharField(max_length=64)
    state = models.CharField(max_length=20, choices=[(s, s) for s in states.ATTEMPT_STATES], default=states.SENDING)
    position = models.BigIntegerField(help_text="The run's seq of its durable sending.")
    sent_at = models.DateTimeField(db_default=ClockTimestamp())
    send_by = models.DateTimeField()
    answer_by = models.DateTimeField()
    reported_at = models.DateTimeField(null=True)
    stopped_at = models.DateTimeField(null=True)
    stopped_how = models.CharField(max_length=12, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["effect", "number"], name="attempt_number_once"),
            models.UniqueConstraint(fields=["effect"], condition=Q(state="sending"), name="attempt_one_sending"),
        ]
        indexes = [
            models.Index(fields=["run", "epoch"], condition=Q(stopped_at__isnull=True), name="attempt_sender_alive"),
            models.Index(fields=["answer_by"], condition=Q(state="sending"), name="attempt_answer_by"),
        ]

    def __str__(self) -> str:
        return f"{self.effect_id}/{self.number}"


class Evidence(ReadOnlyUpdates):
    """One observation of what happened. Append-only: it survives a failed request, a wrong guess and a change of mind."""

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id)
    effect = models.ForeignKey(Effect, models.PROTECT, related_name="evidence")
    attempt = models.IntegerField(null=True)
    source = models.CharField(max_length=12, choices=[(s, s) for s in states.SOURCES])
    verdict = models.CharField(max_length=20)
    used_as = models.CharField(max_length=20, default="applied")
    external_id = models.CharField(max_length=200, blank=True, default="")
    amount = models.BigIntegerField(null=True)
    currency = models.CharField(max_length=3, blank=True, default="")
    reference = models.CharField(max_length=200, blank=True, default="")
    provider_time = models.DateTimeField(null=True)
    began_at = models.DateTimeField(null=True, help_text="When the look began.")
    effect_version = models.IntegerField(null=True, help_text="The effect's version when the look began and ended.")
    at = models.DateTimeField(db_default=ClockTimestamp())
    http_status = models.IntegerField(null=True)
    body = models.TextField(blank=True, default="", help_text="Redacted excerpt.")
    body_sha256 = models.CharField(max_length=64, blank=True, default="")
    request_id = models.CharField(max_length=200, blank=True, default="")
    signature = models.CharField(max_length=20, blank=True, default="")
    actor_type = models.CharField(max_length=10)
    actor_id = models.CharField(max_length=100)
    actor_name = models.CharField(max_length=200)
    detail = models.JSONField(default=dict)

    class Meta:
        indexes = [models.Index(fields=["effect", "at"], name="evidence_by_effect")]
        verbose_name_plural = "evidence"

    def __str__(self) -> str:
        return f"{self.source}: {self.verdict}"


class Reliance(ReadOnlyUpdates):
    """A run that used the stored outcome of another run's effect (`if_exists: reuse`): listed in its account, not counted."""

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id)
    run = models.ForeignKey(Run, models.PROTECT, related_name="relied_on")
    effect = models.ForeignKey(Effect, models.PROTECT, related_name="relied_on_by")
    step_key = models.CharField(max_length=200)
    ordinal = models.IntegerField(default=0)
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "step_key", "ordinal"], name="reliance_once")]

    def __str__(self) -> str:
        return f"{self.run_id} on {self.effect_id}"


class Account(ReadOnlyUpdates):
    """What a run closed with. Re-issued as the next version when something settles later, never edited; the database checks the sum."""

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id)
    run = models.ForeignKey(Run, models.PROTECT, related_name="accounts")
    version = models.IntegerField()
    issued_at = models.DateTimeField(db_default=ClockTimestamp())
    final = models.BooleanField()
    effects_total = models.IntegerField()
    stopped = models.IntegerField()
    landed = models.IntegerField()
    undone = models.IntegerField()
    cleaned_up = models.IntegerField()
    did_not_happen = models.IntegerField()
    unknown = models.IntegerField()
    body = models.JSONField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "version"], name="account_version_once"),
            models.CheckConstraint(
                name="account_adds_up",
                condition=Q(effects_total=F("stopped") + F("landed") + F("undone") + F("cleaned_up") + F("did_not_happen") + F("unknown")),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} v{self.version}"


class CompensationRule(ReadOnlyUpdates):
    """One version of what may be undone, of one action in one currency ('' for what moves no money). The highest version holds."""

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id)
    provider = models.CharField(max_length=60)
    action = models.CharField(max_length=100, help_text="The action that is undone.")
    currency = models.CharField(max_length=3, blank=True, default="")
    version = models.IntegerField()
    active = models.BooleanField(default=True)
    max_amount = models.BigIntegerField(null=True, help_text="Minor units, for one undo; null: as much as landed.")
    days_after_landing = models.IntegerField(null=True, help_text="Null: for ever.")
    approvals = models.IntegerField(default=1)
    second_from = models.BigIntegerField(null=True, help_text="Minor units; from this amount on a second person must approve.")
    reason = models.TextField()
    changed_by = models.CharField(max_length=100)
    changed_name = models.CharField(max_length=200)
    changed_at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["provider", "action", "currency", "version"], name="undo_rule_version_once"),
            models.CheckConstraint(name="undo_rule_approvals", condition=Q(approvals__gte=1)),
            models.CheckConstraint(name="undo_rule_maximum", condition=Q(max_amount__isnull=True) | Q(max_amount__gte=1)),
            models.CheckConstraint(name="undo_rule_days", condition=Q(days_after_landing__isnull=True) | Q(days_after_landing__gte=0)),
            models.CheckConstraint(name="undo_rule_has_reason", condition=~Q(reason="")),
        ]

    def __str__(self) -> str:
        return f"{self.provider}.{self.action} {self.currency} v{self.version}"


class Compensation(ReadOnlyUpdates):
    """A request to undo a landed effect: asked by one person, approved by others, carried out once, as an effect of its own.

    `version` rises when what is asked changes; `digest` binds it to the original's outcome and to the rule. What is bound cannot change
    after *requested*, and the database refuses an approval by whoever is excluded (migration 0006).
    """

    id = models.UUIDField(primary_key=True, default=new_id)
    ref = models.CharField(max_length=12, unique=True, default=compensation_ref)
    run = models.ForeignKey(Run, models.PROTECT, related_name="compensations")
    original = models.ForeignKey(Effect, models.PROTECT, related_name="compensations")
    provider = models.CharField(max_length=60)
    action = models.CharField(max_length=100, help_text="The action that undoes the original's.")
    target = models.CharField(max_length=200, help_text="The provider's id of the object to undo.")
    amount = models.BigIntegerField(null=True, help_text="Minor units of `currency`; null: it moved no money.")
    currency = models.CharField(max_length=3, blank=True, default="")
    reason = models.CharField(max_length=40, choices=list(undo_states.REASONS.items()))
    note = models.TextField(blank=True, default="")

    state = models.CharField(max_length=12, choices=[(s, s) for s in undo_states.STATES], default=undo_states.REQUESTED)
    version = models.IntegerField(default=1)
    original_position = models.BigIntegerField(
        null=True, help_text="The seq of the original's outcome: its version, as far as undoing goes."
    )
    rule_version = models.IntegerField()
    verdict = models.JSONField(help_text="Every sentence of the rules' verdict.")
    approvals_needed = models.IntegerField()
    digest = models.CharField(max_length=64)

    requested_by = models.CharField(max_length=100)
    requested_name = models.CharField(max_length=200)
    requested_at = models.DateTimeField(db_default=ClockTimestamp())
    editors = ArrayField(models.CharField(max_length=100), default=list)
    excluded = ArrayField(models.CharField(max_length=100), default=list, help_text="Who may not approve it, beside the requester.")
    expires_at = models.DateTimeField()
    approved_at = models.DateTimeField(null=True)
    effect = models.OneToOneField(Effect, models.PROTECT, null=True, related_name="undoes_for")
    begun_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    ended_by = models.CharField(max_length=100, blank=True, default="")
    ended_name = models.CharField(max_length=200, blank=True, default="")
    ended_why = models.TextField(blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["original"], condition=Q(state=undo_states.REQUESTED), name="compensation_one_undecided"),
            models.CheckConstraint(
                name="compensation_amount", condition=Q(amount__isnull=True, currency="") | (Q(amount__gte=1) & ~Q(currency=""))
            ),
            models.CheckConstraint(
                name="compensation_sent_has_effect",
                condition=Q(state__in=[undo_states.EXECUTING, undo_states.EXECUTED], effect__isnull=False)
                | (~Q(state__in=[undo_states.EXECUTING, undo_states.EXECUTED]) & Q(effect__isnull=True)),
            ),
            models.CheckConstraint(name="compensation_needs_somebody", condition=Q(approvals_needed__gte=1)),
            models.CheckConstraint(
                name="compensation_end_says_who",
                condition=~Q(state__in=undo_states.ENDED_WITHOUT_SENDING)
                | (Q(ended_at__isnull=False) & ~Q(ended_by="") & ~Q(ended_why="")),
            ),
        ]
        indexes = [
            models.Index(fields=["expires_at"], condition=Q(state__in=undo_states.UNDECIDED_OR_DUE), name="compensation_open"),
            models.Index(fields=["approved_at"], condition=Q(state=undo_states.APPROVED), name="compensation_due"),
            models.Index(fields=["requested_by", "requested_at"], name="compensation_by_requester"),
        ]

    def __str__(self) -> str:
        return self.ref


class CompensationDecision(ReadOnlyUpdates):
    """One person's word on a request as it stood (its digest). Kept for ever, with the name as it was."""

    append_only = True

    id = models.UUIDField(primary_key=True, default=new_id)
    compensation = models.ForeignKey(Compensation, models.PROTECT, related_name="decisions")
    decision = models.CharField(max_length=10, choices=[(d, d) for d in undo_states.DECISIONS])
    version = models.IntegerField(help_text="Of the request, as it was shown.")
    digest = models.CharField(max_length=64)
    by = models.CharField(max_length=100)
    by_name = models.CharField(max_length=200)
    channel = models.CharField(max_length=20, blank=True, default="")
    comment = models.TextField(blank=True, default="")
    at = models.DateTimeField(db_default=ClockTimestamp())

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["compensation", "by", "version"], name="decision_once_each"),
            models.CheckConstraint(name="decision_rejecting_says_why", condition=~Q(decision=undo_states.REJECTED) | ~Q(comment="")),
        ]

    def __str__(self) -> str:
        return f"{self.compensation_id}: {self.decision} by {self.by_name}"


class Reversal(ReadOnlyUpdates):
    """A part of an effect that was undone elsewhere (in the provider's own dashboard): counted, not ours."""

    id = models.UUIDField(primary_key=True, default=new_id)
    effect = models.ForeignKey(Effect, models.PROTECT, related_name="reversals")
    external_id = models.CharField(max_length=200, blank=True, default="", help_text="The provider's id of the undo.")
    amount = models.BigIntegerField(help_text="Minor units.")
    currency = models.CharField(max_length=3)
    source = models.CharField(max_length=12)
    seen_at = models.DateTimeField(db_default=ClockTimestamp())
    failed_at = models.DateTimeField(null=True, help_text="It did not last: the provider took it back.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["effect", "external_id"], name="reversal_once"),
            models.CheckConstraint(name="reversal_amount", condition=Q(amount__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.effect_id}: {self.amount} {self.currency}"
