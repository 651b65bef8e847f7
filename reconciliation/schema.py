"""What the calls about cases and webhooks take (strictly) and answer, as the OpenAPI schema shows it."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from reconciliation import states
from runs.fields import Amount, Currency, Flag, JsonObject, Many, Moment, Name, Shape, Text, Word, Words
from runs.schema import PageOf, PageQuery, Who, search, when

VERDICTS = tuple(dict.fromkeys(verdict for verdicts in states.VERDICTS.values() for verdict in verdicts))


class CasesQuery(PageQuery):
    state = Words(required=False, choices=states.STATES, help_text=f"Any of: {', '.join(states.STATES)}. Unsettled unless said otherwise.")
    kind = Words(required=False, choices=states.KINDS)
    provider = Words(required=False)
    run = serializers.CharField(required=False, max_length=60, help_text="A run's id or reference.")
    q = search()


class ClaimCaseBody(Shape):
    take_over = Flag(default=False, help_text="Take it from whoever has it; they are told.")


class EvidenceGiven(Shape):
    external_id = Name(max_length=200, required=False, allow_null=True, help_text="The provider's own reference of what happened.")
    amount = Amount(required=False, allow_null=True, help_text="What was really moved, in minor units.")
    currency = Currency(max_length=3, required=False, allow_null=True)
    seen_where = Word(choices=states.WHERE_SEEN, required=False, allow_null=True)
    seen_at = Moment(required=False, allow_null=True, help_text="When, by the provider's clock.")
    notes = Text(max_length=5000, allow_blank=True, required=False, allow_null=True)


class SettlementBody(Shape):
    verdict = Word(choices=VERDICTS)
    evidence = EvidenceGiven(required=False, allow_null=True)
    sender_gone = Text(max_length=2000, allow_blank=True, required=False, allow_null=True, help_text="How you know that it is gone.")
    surplus = Many(
        child=Name(max_length=200),
        max_length=100,
        required=False,
        allow_null=True,
        help_text="Of a duplicated one: the provider's ids that are too many.",
    )
    files = Many(child=Name(max_length=60), max_length=20, required=False, allow_null=True, help_text="Ids of files kept with the case.")
    belongs_to = Name(max_length=60, required=False, allow_null=True, help_text="Of an orphan: our effect, by reference or operation id.")


class FileGiven(serializers.Serializer[Any]):
    file = serializers.FileField(help_text="png, jpg, pdf, txt, csv, eml or json, unless the installation says otherwise; 5 MiB at most.")


class ConfirmationBody(Shape):
    agree = Flag()


class OpenCaseBody(Shape):
    why = Text(max_length=2000, allow_blank=True, default="", help_text="What a person should find out.")


class PassBody(Shape):
    notes = Text(max_length=5000, allow_blank=True)


# What is answered


class ClaimHeld(serializers.Serializer[Any]):
    by = serializers.CharField()
    name = serializers.CharField()
    until = when()


class CaseShown(serializers.Serializer[Any]):
    """Something that a person must settle."""

    id = serializers.UUIDField()
    ref = serializers.CharField()
    kind = serializers.CharField()
    state = serializers.CharField()
    version = serializers.IntegerField()
    run = serializers.CharField(allow_null=True)
    effect = serializers.CharField(allow_null=True)
    operation_id = serializers.UUIDField(allow_null=True)
    provider = serializers.CharField(allow_null=True)
    business_ref = serializers.CharField(allow_null=True)
    amount = serializers.IntegerField(allow_null=True, help_text="Minor units.")
    currency = serializers.CharField(allow_null=True)
    why = serializers.CharField(help_text="What could not be settled, and why.")
    facts = JsonObject()
    verdicts = serializers.ListField(child=serializers.CharField(), help_text="What may be found; empty: it settles itself.")
    opened_at = serializers.DateTimeField()
    reopened = serializers.IntegerField()
    claim = ClaimHeld(allow_null=True)
    finding = JsonObject(allow_null=True)
    settled_at = when()
    settled_by = serializers.CharField(allow_null=True)


class CasePage(PageOf):
    results = CaseShown(many=True)


class CaseAct(serializers.Serializer[Any]):
    kind = serializers.CharField()
    actor = Who()
    data = JsonObject()  # type: ignore[assignment]
    at = serializers.DateTimeField()


class FileKept(serializers.Serializer[Any]):
    """A file kept with a case. `url` hands it out to people who may read cases, as a download."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    size = serializers.IntegerField(help_text="Bytes.")
    sha256 = serializers.CharField()
    by = serializers.CharField()
    at = serializers.DateTimeField()
    url = serializers.CharField()


class CaseDetail(CaseShown):
    """A case with every act on it: an earlier verdict stays visible for ever."""

    acts = CaseAct(many=True)
    files = FileKept(many=True)


class CaseSettled(serializers.Serializer[Any]):
    outcome = serializers.CharField(help_text="settled, kept (as evidence; the case stays open) or awaiting_second")
    why = serializers.CharField(allow_null=True)
    case = CaseShown()


class LookAsked(serializers.Serializer[Any]):
    asked = serializers.BooleanField(help_text="false: there is nothing to look for, or nobody to ask.")


class WebhookStored(serializers.Serializer[Any]):
    stored = serializers.BooleanField()
