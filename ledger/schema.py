"""What the calls about effects and accounts take (strictly) and answer, as the OpenAPI schema shows it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from ledger import states
from ledger.operations import ANSWER_WITHIN_S, SEND_WITHIN_S, WITHIN_S_MAX
from runs.fields import Amount, Currency, Flag, Json, JsonObject, Moment, Name, Number, Shape, Text, Whole, Word, Words
from runs.schema import Lines, PageOf, PageQuery, Who, lease, step_key, when


def nonce() -> Name:
    return Name(min_length=16, max_length=64, help_text="Random, made in memory by the process that will send, for this one call.")


class EffectBody(Shape):
    lease = lease()
    nonce = nonce()
    step = step_key(help_text="The running step that it belongs to.")
    ordinal = Whole(min_value=0, help_text="Tells several effects of one step apart, the same on every worker.")
    provider = Name(max_length=60)
    action = Name(max_length=100)
    business_ref = Name(max_length=200, help_text="Stable, and meaningful at the provider, such as PO-1042.")
    occurrence = Whole(min_value=1, default=1)
    if_exists = Word(choices=("refuse", "reuse"), default="refuse")
    amount = Amount(required=False, allow_null=True, help_text="Minor units of `currency`.")
    currency = Currency(max_length=3, required=False, allow_null=True)
    request = JsonObject(help_text="The canonical business payload.")
    send_within_s = Number(default=SEND_WITHIN_S, min_value=0.1, max_value=WITHIN_S_MAX, help_text="Writing must begin within it.")
    answer_within_s = Number(default=ANSWER_WITHIN_S, min_value=0.1, max_value=WITHIN_S_MAX, help_text="After it, silence means unknown.")
    begin = Flag(default=True, help_text="false: declare only.")
    approval = Name(max_length=200, required=False, allow_null=True, help_text="The approval's id, or its key in this run.")
    role = Word(choices=(states.WORK, states.CLEANUP), default=states.WORK)


class BeginBody(Shape):
    lease = lease()
    nonce = nonce()
    approval = Name(max_length=200, required=False, allow_null=True, help_text="The approval's id, or its key in this run.")


class OutcomeBody(Shape):
    attempt = Whole(min_value=1, help_text="The number that the go-ahead named.")
    verdict = Word(choices=states.REPORTABLE)
    external_id = Name(max_length=200, required=False, allow_null=True, help_text="The provider's id.")
    amount = Amount(required=False, allow_null=True, help_text="What landed, in minor units.")
    currency = Currency(max_length=3, required=False, allow_null=True)
    response = Json(required=False, help_text="Kept masked, at most 4 KB, with the hash of the whole.")
    observed_at = Moment(required=False, allow_null=True)


class OccurrenceBody(Shape):
    provider = Name(max_length=60)
    action = Name(max_length=100)
    business_ref = Name(max_length=200)
    reason = Text(max_length=2000, help_text="Why it is done again; seen by auditors.")


class ReasonBody(Shape):
    reason = Text(max_length=2000, help_text="Seen by auditors.")


class EffectsQuery(PageQuery):
    state = Words(required=False, choices=states.STATES, help_text=f"Any of: {', '.join(states.STATES)}.")
    provider = Words(required=False)
    action = Words(required=False)
    run = serializers.CharField(required=False, max_length=60, help_text="A run's id or reference.")
    business_ref = serializers.CharField(required=False, max_length=200)
    external_id = serializers.CharField(required=False, max_length=200)
    q = serializers.CharField(
        required=False, max_length=200, help_text="A reference, the start of a business reference, or a provider's id."
    )


class RunEffectsQuery(PageQuery):
    state = Words(required=False, choices=states.STATES)


class AccountQuery(Shape):
    format = serializers.ChoiceField(choices=("json", "csv"), default="json")


# What is answered


class EvidenceLine(serializers.Serializer[Any]):
    source = serializers.CharField(help_text="sender, look, webhook, supervisor, person or system")  # type: ignore[assignment]
    verdict = serializers.CharField()
    used_as = serializers.CharField()
    attempt = serializers.IntegerField(allow_null=True)
    external_id = serializers.CharField(allow_null=True)
    amount = serializers.IntegerField(allow_null=True)
    currency = serializers.CharField(allow_null=True)
    provider_time = when()
    at = serializers.DateTimeField()
    http_status = serializers.IntegerField(allow_null=True)
    body_sha256 = serializers.CharField(allow_null=True)
    by = Who()
    body = serializers.CharField(allow_null=True, required=False, help_text="A masked excerpt; not in lists.")


class EffectShown(serializers.Serializer[Any]):
    """An effect. `sentence` is the one that the page shows."""

    operation_id = serializers.UUIDField()
    ref = serializers.CharField()
    run = serializers.CharField()
    step = serializers.CharField()
    ordinal = serializers.IntegerField()
    provider = serializers.CharField()
    action = serializers.CharField()
    business_ref = serializers.CharField()
    occurrence = serializers.IntegerField()
    reference = serializers.CharField(help_text="What the provider was given as our reference.")
    amount = serializers.IntegerField(allow_null=True, help_text="Minor units.")
    currency = serializers.CharField(allow_null=True)
    role = serializers.CharField()
    state = serializers.CharField()
    version = serializers.IntegerField()
    unknowable = serializers.BooleanField()
    confirmed_relative_to_cancel = serializers.CharField(allow_null=True, help_text="before, after or null")
    landed_amount = serializers.IntegerField(allow_null=True)
    how_we_know = serializers.CharField(allow_null=True, help_text="sender, look, webhook, person or null")
    known_by = serializers.CharField(allow_null=True)
    known_at = when()
    external_id = serializers.CharField(allow_null=True)
    provider_message = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    sent_at = when()
    answer_by = when()
    attempts = serializers.IntegerField()
    next_look_at = when()
    looks = serializers.IntegerField()
    left_in_place_by = serializers.CharField(allow_null=True, help_text="Who decided not to undo it.")
    surplus = serializers.ListField(child=serializers.CharField(), help_text="Happened more than once: the ids that are too many.")
    response = Json(help_text="What its sender last reported, masked.")
    evidence = EvidenceLine(many=True)
    sentence = serializers.CharField()
    detail = serializers.CharField(allow_null=True)


class EffectPage(PageOf):
    results = EffectShown(many=True)


class Permitted(serializers.Serializer[Any]):
    """The go-ahead (`sending`), or an effect that is declared."""

    operation_id = serializers.UUIDField()
    ref = serializers.CharField()
    idempotency_key = serializers.CharField(help_text="Send it to the provider.")
    reference = serializers.CharField(help_text="Give it to the provider as our reference.")
    occurrence = serializers.IntegerField()
    state = serializers.CharField(help_text="sending or declared")
    attempt = serializers.IntegerField(required=False)
    send_by = serializers.DateTimeField(required=False)
    answer_by = serializers.DateTimeField(required=False)
    send_within_s = serializers.FloatField(required=False, help_text="Seconds left; count them from when you asked.")
    answer_within_s = serializers.FloatField(required=False)


class OccurrenceOpened(serializers.Serializer[Any]):
    """One more time of a business action. The first effect that names this `occurrence` spends it."""

    provider = serializers.CharField()
    action = serializers.CharField()
    business_ref = serializers.CharField()
    occurrence = serializers.IntegerField()
    reference = serializers.CharField(help_text="What the provider is given as our reference.")
    reason = serializers.CharField()
    opened_by = serializers.CharField()
    opened_at = serializers.DateTimeField()


class OutcomeUsed(serializers.Serializer[Any]):
    used_as = serializers.CharField(help_text="applied, agrees, late_evidence or conflicts")
    effect = EffectShown()


class AccountTotals(serializers.Serializer[Any]):
    stopped = serializers.IntegerField()
    landed = serializers.IntegerField()
    undone = serializers.IntegerField()
    cleaned_up = serializers.IntegerField()
    did_not_happen = serializers.IntegerField()
    unknown = serializers.IntegerField()
    not_sent_yet = serializers.IntegerField(required=False, help_text="Drafts only.")
    in_flight = serializers.IntegerField(required=False, help_text="Drafts only.")
    effects_total = serializers.IntegerField()


class AccountShown(serializers.Serializer[Any]):
    """What a run closed with; every work effect stands in exactly one list. Version 0 is a draft of a run that is open."""

    run = serializers.CharField()
    id = serializers.UUIDField()
    state = serializers.CharField()
    version = serializers.IntegerField()
    issued_at = serializers.DateTimeField()
    final = serializers.BooleanField()
    stopped = Lines()
    landed = Lines()
    undone = Lines()
    cleaned_up = Lines()
    did_not_happen = Lines()
    unknown = Lines()
    not_sent_yet = Lines(required=False)
    in_flight = Lines(required=False)
    relied_on = Lines(help_text="Outcomes of other runs that this one used; not counted.")
    steps = JsonObject()
    cleanups = Lines(help_text="Clean-up steps, with what became of them.")
    children = Lines()
    totals = AccountTotals()
    combined = JsonObject(help_text="The totals with those of all children.")
    cost = JsonObject(help_text="What model calls cost, before and after the cancel.")
