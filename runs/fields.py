"""Strict fields for what the API takes: exact JSON types, no silent conversion, and messages that say what to send instead."""

from __future__ import annotations

import math
import re
import uuid
from datetime import UTC, datetime
from typing import Any

import iso4217
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from runs.ids import parse_uuid

INT4_MAX = 2**31 - 1
INT8_MAX = 2**63 - 1
AMOUNT_MAX = 10**15
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Shape(serializers.Serializer[Any]):
    """A JSON object whose fields are all known: an unknown one is refused by its name, and so is anything that is no object."""

    default_error_messages = {
        "invalid": "Send a JSON object.",
        "unknown": "Unknown field. Remove it; this call knows {known}.",
    }

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict):
            known = ", ".join(sorted(self.fields)) or "no fields"
            unknown = {str(name): [self.error_messages["unknown"].format(known=known)] for name in data if name not in self.fields}
            if unknown:
                raise serializers.ValidationError(unknown)
        return super().to_internal_value(data)


class Text(serializers.CharField):
    """A string, kept as it is. Lengths are in characters."""

    default_error_messages = {"invalid": "Send a string."}

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"trim_whitespace": False, **options})

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class Name(Text):
    """A string that names something: one line, without spaces around it, because `PO-1` and `PO-1 ` would be two things."""

    default_error_messages = {
        "not_a_name": "Send one line of text without control characters and without spaces around it.",
        "slash": "A key may not contain '/'.",
    }

    def __init__(self, *, slash: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.slash = slash

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        if text != text.strip() or _CONTROL.search(text):
            self.fail("not_a_name")
        if not self.slash and "/" in text:
            self.fail("slash")
        return text


class Word(serializers.ChoiceField):
    """One of a few words."""

    default_error_messages = {"invalid_choice": "Send one of: {choices}."}

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str) or data not in self.choices:
            self.fail("invalid_choice", choices=", ".join(self.choices))
        return data


class Whole(serializers.IntegerField):
    """A whole JSON number: not a string, not true or false, not 12.0."""

    default_error_messages = {"invalid": "Send a whole JSON number, such as 12; not a string, a fraction, true or false."}

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"max_value": INT4_MAX, **options})

    def to_internal_value(self, data: Any) -> int:
        if not isinstance(data, int) or isinstance(data, bool):
            self.fail("invalid")
        return data


class Amount(Whole):
    """An integer of minor units."""

    default_error_messages = {
        "invalid": "Send a whole JSON number of minor units, such as 12500 for 125.00 EUR; not a string, a fraction, true or false.",
        "min_value": "Send 0 or more minor units; direction is the action's, not the sign's.",
    }

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"min_value": 0, "max_value": AMOUNT_MAX, **options})


class Currency(Name):
    """An ISO 4217 code that money can be counted in."""

    default_error_messages = {"unknown": "{code} is not an ISO 4217 code in capitals, such as EUR, JPY or KWD."}

    def to_internal_value(self, data: Any) -> str:
        code = super().to_internal_value(data)
        try:
            known = iso4217.Currency(code).exponent is not None
        except ValueError:
            known = False
        if not known:
            self.fail("unknown", code=repr(code[:10]))
        return code


class Number(serializers.FloatField):
    """A finite JSON number: not a string, not true or false."""

    default_error_messages = {"invalid": "Send a JSON number, such as 2.5; not a string, true or false."}

    def to_internal_value(self, data: Any) -> float:
        if not isinstance(data, int | float) or isinstance(data, bool) or abs(data) > 1e15 or not math.isfinite(data):
            self.fail("invalid")
        return float(data)


class Flag(serializers.BooleanField):
    """true or false: not 1, not "yes"."""

    default_error_messages = {"invalid": "Send true or false."}

    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid")
        return data


class Moment(serializers.DateTimeField):
    """A time as ISO 8601 with its offset; read as UTC."""

    default_error_messages = {"invalid": "Send a time as ISO 8601 with its offset, such as 2026-03-02T14:02:07Z."}

    def to_internal_value(self, value: Any) -> datetime:
        try:
            at = datetime.fromisoformat(value)
            if at.tzinfo is None:
                self.fail("invalid")
            return at.astimezone(UTC)
        except (TypeError, ValueError, OverflowError):
            self.fail("invalid")


class Uid(serializers.UUIDField):
    """A UUID in any case, with or without dashes."""

    default_error_messages = {"invalid": "Send a UUID, such as 01890a5d-ac96-774b-bcce-b302099a8057."}

    def to_internal_value(self, data: Any) -> uuid.UUID:
        found = parse_uuid(data) if isinstance(data, str) else None
        if found is None:
            self.fail("invalid")
        return found


@extend_schema_field({})
class Json(serializers.JSONField):
    """Any JSON value, null included."""

    def validate_empty_values(self, data: Any) -> tuple[bool, Any]:
        return (True, None) if data is None else super().validate_empty_values(data)


@extend_schema_field({"type": "object", "additionalProperties": {}})
class JsonObject(serializers.JSONField):
    """A JSON object with fields of the caller's own."""

    default_error_messages = {"not_an_object": 'Send a JSON object, such as {{"key": "value"}}.'}

    def to_internal_value(self, data: Any) -> dict[str, Any]:
        if not isinstance(data, dict):
            self.fail("not_an_object")
        return data


class Many(serializers.ListField):
    """A JSON list."""

    default_error_messages = {"not_a_list": "Send a JSON list."}


@extend_schema_field({"type": "array", "items": {"type": "string"}})
class Words(serializers.Field[Any, Any, Any, Any]):
    """In a query: several words, repeated (`status=a&status=b`) or separated by commas. `choices` limits them."""

    default_error_messages = {"invalid_choice": "{word} is not known. Use: {choices}."}

    def __init__(self, *, choices: tuple[str, ...] = (), **options: Any) -> None:
        super().__init__(**options)
        self.choices = choices

    def to_internal_value(self, data: Any) -> list[str]:
        given = data if isinstance(data, list) else [data]
        words = [word.strip() for part in given for word in str(part).split(",") if word.strip()]
        for word in words:
            if self.choices and word not in self.choices:
                self.fail("invalid_choice", word=word, choices=", ".join(self.choices))
        return words


@extend_schema_field({"type": "string", "format": "date-time"})
class Day(serializers.Field[Any, Any, Any, Any]):
    """In a query: a time as ISO 8601 with its offset, or a day (its beginning in UTC)."""

    default_error_messages = {"invalid": "Use a day such as 2026-03-02, or a time such as 2026-03-02T14:02:07Z."}

    def to_internal_value(self, data: Any) -> datetime:
        text = str(data).replace(" ", "+")  # a plus sign that was not encoded
        try:
            at = datetime.fromisoformat(f"{text}T00:00:00Z" if len(text) == 10 else text)
            if at.tzinfo is None:
                self.fail("invalid")
            return at.astimezone(UTC)
        except (ValueError, OverflowError):
            self.fail("invalid")
