"""What the calls about approvals, clean-up steps and bulk cancels take (strictly) and answer, as the OpenAPI schema shows it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from runs import states
from runs.bulk import RUNS_MAX
from runs.fields import INT4_MAX, Amount, Currency, Json, JsonObject, Many, Moment, Name, Number, Shape, Text, Uid, Whole, Word, Words
from runs.models import Approval
from runs.schema import LIMIT_MAX, LeaseGiven, PageOf, PageQuery, Who, lease, step_key, when


class AllowedAction(Shape):
    provider = Name(max_length=60)
    action = Name(max_length=100)
    business_ref = Name(max_length=200)
    occurrence = Whole(min_value=1, default=1)
    amount = Amount(required=False, allow_null=True, help_text="Minor units of `currency`.")
    currency = Currency(max_length=3, required=False, allow_null=True)
    request = JsonObject()

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        if (given.get("amount") is None) != (given.get("currency") is None):
            raise serializers.ValidationError({"currency": ["amount and currency go together."]})
        return {**given, "amount": given.get("amount"), "currency": given.get("currency") or ""}


class ApprovalBody(Shape):
    lease = lease()
    key = step_key()
    question = Text(max_length=1000, help_text="What the person reads.")
    action = AllowedAction(required=False, allow_null=True, help_text="Exactly what is allowed. Without it nothing is.")
    details = JsonObject(required=False, allow_null=True)
    expires_at = Moment(required=False, allow_null=True, help_text="72 hours from now unless said otherwise.")


class DecisionBody(Shape):
    decision = Word(choices=("approved", "rejected"))
    comment = Text(max_length=5000, allow_blank=True, default="", help_text="Needed to reject.")
    digest = Name(max_length=64, help_text="Of what was seen; refused when that is not what is asked now.")


class ApprovalsQuery(PageQuery):
    state = Words(required=False, choices=Approval.STATES)


class CleanupBody(Shape):
    lease = lease()
    key = step_key()
    handler = Name(max_length=100, help_text="Registered in the worker with @cm.cleanup.")
    arguments = JsonObject()
    order = Whole(min_value=-INT4_MAX, default=0, help_text="Lower first.")
    cleans = Uid(required=False, allow_null=True, help_text="The operation id of the effect that must be known first.")


class CleanupClaimBody(Shape):
    holder = Name(max_length=200)
    handlers = Many(child=Name(max_length=100), min_length=1, max_length=100)
    ttl_s = Number(default=30.0, min_value=0.1, max_value=600)


class CleanupFinishBody(Shape):
    lease = lease()
    outcome = Word(choices=("done", "failed"))
    detail = Json(required=False)


class BulkFilter(Shape):
    status = Many(child=Word(choices=states.STATUSES), required=False, max_length=50)
    agent = Many(child=Name(max_length=100), required=False, max_length=50)
    q = Text(max_length=200, required=False)
    business_ref = Name(max_length=200, required=False)
    started_from = Moment(required=False)
    started_to = Moment(required=False)
    cancelled_by = Text(max_length=200, required=False)


class BulkBody(Shape):
    runs = Many(child=Name(max_length=100), required=False, min_length=1, max_length=RUNS_MAX, help_text="Ids or references.")
    filter = BulkFilter(required=False, help_text="Instead of runs: all that match now and have not ended.")
    reason = Text(max_length=2000, allow_blank=True)

    def validate(self, given: dict[str, Any]) -> dict[str, Any]:
        if ("runs" in given) == ("filter" in given):
            raise serializers.ValidationError({"runs": ["Send either runs or filter."]})
        return given


class LinesQuery(Shape):
    after = serializers.IntegerField(default=0, min_value=0, max_value=INT4_MAX, help_text="The line number after which to go on.")
    limit = serializers.IntegerField(default=LIMIT_MAX, min_value=1, max_value=LIMIT_MAX)


# What is answered


class ApprovalShown(serializers.Serializer[Any]):
    """A question to a person, and what became of it."""

    id = serializers.UUIDField(help_text="What an effect then names as `approval`.")
    run = serializers.CharField()
    key = serializers.CharField()
    question = serializers.CharField()
    action = Json()
    details = Json()
    digest = serializers.CharField()
    decision = serializers.CharField(help_text="requested while it is open; then approved, rejected, expired or withdrawn")
    by = serializers.CharField(allow_null=True)
    comment = serializers.CharField(allow_null=True)
    requested_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    decided_at = when()
    spent_on = serializers.UUIDField(allow_null=True)


class ApprovalPage(PageOf):
    results = ApprovalShown(many=True)


class CleanupRun(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    ref = serializers.CharField()


class CleanupShown(serializers.Serializer[Any]):
    """A clean-up step of a run."""

    id = serializers.UUIDField()
    run = CleanupRun()
    key = serializers.CharField()
    handler = serializers.CharField()
    arguments = JsonObject()
    order = serializers.IntegerField()
    cleans = serializers.UUIDField(allow_null=True)
    state = serializers.CharField(help_text="registered, claimed, done, left_behind or voided")
    why = serializers.CharField(allow_null=True)


class Budget(serializers.Serializer[Any]):
    seconds = serializers.FloatField(help_text="Left for cleaning up this run.")
    calls = serializers.IntegerField()


class CleanupTaken(serializers.Serializer[Any]):
    """One clean-up step with the right to act for it."""

    cleanup = CleanupShown()
    lease = LeaseGiven()
    budget = Budget()


class CleanupBeat(serializers.Serializer[Any]):
    directive = serializers.CharField()
    lease_expires_at = serializers.DateTimeField()
    lease_expires_in_s = serializers.FloatField()


class BulkSums(serializers.Serializer[Any]):
    accepted = serializers.IntegerField()
    repeat = serializers.IntegerField()
    already_closed = serializers.IntegerField()
    not_allowed = serializers.IntegerField()
    not_found = serializers.IntegerField()
    failed = serializers.IntegerField()
    open = serializers.IntegerField()
    total = serializers.IntegerField()


class BulkLineShown(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    asked_for = serializers.CharField()
    run = serializers.CharField(allow_null=True)
    answer = serializers.CharField(allow_null=True, help_text="Null while it is open.")
    detail = serializers.CharField(allow_null=True)
    answered_at = when()


class BulkJob(serializers.Serializer[Any]):
    """A cancel of many runs: one line each, with its own answer."""

    id = serializers.UUIDField()
    by = Who()
    reason = serializers.CharField(allow_blank=True)
    asked_at = serializers.DateTimeField()
    finished_at = when()
    sums = BulkSums()
    lines = BulkLineShown(many=True)
    next = serializers.IntegerField(allow_null=True, help_text="Send as `after`; null at the end.")
