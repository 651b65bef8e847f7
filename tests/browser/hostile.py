"""What an agent may send that a page must never obey, in every field of the API that takes text. A new field takes it by itself."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from runs.calls import Call
from runs.fields import Currency, Json, JsonObject, Many, Name, Shape, Text

MARK = "hostile"  # whatever these texts would make is called so
TEXTS = (
    '"><script>window.hostile=1</script>',
    "<svg onload=window.hostile=1>",
    "<img src=hostile onerror=window.hostile=1>",
    "<b data-hostile hx-get=hostile hx-trigger=load>b",
    "<a href=javascript:window.hostile=1>go",
    "javascript:window.hostile=1",
    "{{ 7*7 }}{% load hostile %}${7*7}",
    "' onfocus=window.hostile=1 autofocus x='",
    "<style>*{display:none}</style>",
    "</title></textarea></select></template>",
    "hostile\u202etxt.exe\u2066\u200b",
)
CONTROLS = "\x1b[31mred\x1b]0;hostile\x07\x08\u2028"  # a name may hold none of them
LINE = "w" * 300_000  # without a place to break it


def text(most: int, start: int = 0, controls: bool = True, in_path: bool = False) -> str:
    """As many of the texts as fit into `most` characters, beginning with another one each time. What stands in a path has no slash and
    only characters that print."""
    parts = [*TEXTS[start % len(TEXTS) :], *TEXTS[: start % len(TEXTS)]]
    found = CONTROLS if controls and most > 60 else ""
    for part in parts:
        if len(found) + len(part) <= most and not (in_path and ("/" in part or not part.isprintable())):
            found += part
    return found.strip()


class Filler:
    """Makes bodies of calls: every text of the call's own shape is hostile; `filled` are the fields that were."""

    def __init__(self) -> None:
        self.filled: set[str] = set()
        self._count = 0

    def body(self, call: Call, **given: Any) -> dict[str, Any]:
        """The whole body of a call; `given` is what must be as it is, by name."""
        assert call.takes
        return self._shape(call.takes(), call.name, given)

    def _shape(self, shape: Shape, path: str, given: dict[str, Any]) -> dict[str, Any]:
        values = dict(given)
        for name, value in given.items():
            self._note(f"{path}.{name}", value)
        for name, field in shape.fields.items():
            if name not in given and (value := self._value(field, f"{path}.{name}")) is not None:
                values[name] = value
        return values

    def _value(self, field: serializers.Field[Any, Any, Any, Any], path: str) -> Any:
        self._count += 1
        match field:
            case Currency():
                return None
            case Name():
                return self._kept(path, text(field.max_length or 200, self._count, controls=False, in_path=not field.slash))
            case Text():
                return self._kept(path, text(field.max_length or 200, self._count))
            case Json() | JsonObject():
                return self._kept(path, {text(200, self._count): [text(2000, self._count), {"a": text(500)}], "line": LINE[:20_000]})
            case Many(child=child):
                return None if isinstance(child, Shape) else [self._value(child, path)]
        return None  # a number, a word of a few, an id, a time: nothing hostile is taken for one

    def _note(self, path: str, value: Any) -> None:
        """What was given is hostile too where it says so."""
        match value:
            case dict():
                for name, one in value.items():
                    self._note(f"{path}.{name}", one)
            case list():
                for one in value:
                    self._note(path, one)
        if MARK in repr(value):
            self.filled.add(path)

    def _kept(self, path: str, value: Any) -> Any:
        self.filled.add(path)
        return value


def texts_of(call: Call) -> set[str]:
    """The fields of a call that take text of the caller's own."""
    return set(_texts(call.takes(), call.name)) if call.takes else set()


def _texts(shape: Shape, path: str) -> list[str]:
    found: list[str] = []
    for name, field in shape.fields.items():
        child = field.child if isinstance(field, Many) else field
        if isinstance(child, Shape):
            found += _texts(child, f"{path}.{name}")
        elif isinstance(child, Text | Json | JsonObject) and not isinstance(child, Currency):
            found.append(f"{path}.{name}")
    return found
