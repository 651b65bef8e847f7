"""What the calls about undoing take (strictly) and answer, as the OpenAPI schema shows it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from ledger import undo_states
from runs.fields import Amount, Currency, JsonObject, Name, Shape, Text, Whole, Word, Words
from runs.schema import PageOf, PageQuery, Who, when

NOTE_MAX = 2000


def _amount(**options: Any) -> Amount:
    return Amount(min_value=1, help_text="Minor units of `currency`; left out for what moved no money.", **options)


class AskBody(Shape):
    effect = Name(max_length=60, help_text="The landed effect, by operation id or reference.")
    external_id = Name(max_length=200, required=False, allow_null=True, help_text="One named surplus object of a duplicated effect.")
    amount = _amount(required=False, allow_null=True)
    currency = Currency(max_length=3, required=False, allow_null=True)
    reason = Word(choices=tuple(undo_states.REASONS))
    note = Text(max_length=NOTE_MAX, required=False, allow_blank=True, default="")


class EditBody(Shape):
    version = Whole(min_value=1, help_text="The version that you saw.")
    amount = _amount(required=False)
    reason = Word(choices=tuple(undo_states.REASONS), required=False)
    note = Text(max_length=NOTE_MAX, required=False, allow_blank=True)


class UndoDecisionBody(Shape):
    decision = Word(choices=undo_states.DECISIONS)
    version = Whole(min_value=1, help_text="The version that you saw.")
    comment = Text(max_length=NOTE_MAX, required=False, allow_blank=True, default="", help_text="Needed to reject.")


class WithdrawalBody(Shape):
    reason = Text(max_length=NOTE_MAX)


class CompensationsQuery(PageQuery):
    state = Words(required=False, choices=undo_states.STATES)
    run = serializers.CharField(required=False, max_length=60, help_text="A run's id or reference.")
    effect = serializers.CharField(required=False, max_length=60, help_text="The original, by operation id or reference.")


class DecisionShown(serializers.Serializer[Any]):
    decision = serializers.CharField()
    version = serializers.IntegerField()
    by = Who()
    comment = serializers.CharField(allow_null=True)
    at = serializers.DateTimeField()


class CompensationShown(serializers.Serializer[Any]):
    """A request to undo. Once it is on its way, what becomes of it is the state of `effect`."""

    id = serializers.UUIDField()
    ref = serializers.CharField()
    state = serializers.CharField(help_text=", ".join(undo_states.STATES))
    version = serializers.IntegerField()
    run = serializers.CharField()
    original = serializers.CharField(help_text="The effect that is undone.")
    provider = serializers.CharField()
    action = serializers.CharField()
    target = serializers.CharField(help_text="The provider's id of the object to undo.")
    amount = serializers.IntegerField(allow_null=True, help_text="Minor units.")
    currency = serializers.CharField(allow_null=True)
    reason = serializers.CharField()
    note = serializers.CharField(allow_null=True)
    digest = serializers.CharField(help_text="What an approval binds.")
    rule_version = serializers.IntegerField()
    verdict = serializers.ListField(child=JsonObject(), help_text="Every sentence of the rules' verdict.")
    approvals_needed = serializers.IntegerField()
    approvals_given = serializers.IntegerField()
    requested_by = Who()
    requested_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    approved_at = when()
    decisions = DecisionShown(many=True)
    ended = JsonObject(help_text="Who ended it without sending, when and why.", allow_null=True)
    effect = serializers.CharField(allow_null=True, help_text="The effect that carries it out.")
    effect_state = serializers.CharField(allow_null=True)
    says = serializers.CharField(help_text="The sentence that the page shows.")


class CompensationPage(PageOf):
    results = CompensationShown(many=True)
