"""From what a stranger sent to values a domain function may be given. It refuses by name and remedy; it knows no rule of the domain."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from django.http import QueryDict
from rest_framework import serializers

from runs.errors import Invalid

Given = dict[str, Any]
DEPTH_MAX = 64


def parse(takes: type[serializers.Serializer[Any]], given: Any) -> Given:
    """What was given, checked and converted. Raises `Invalid` with `field` (the first wrong one), the remedy, and all `errors`."""
    check_text(given)
    form = takes(data={} if given is None else given)
    if not form.is_valid():
        raise invalid(form.errors)
    return dict(form.validated_data)


def invalid(errors: Any) -> Invalid:
    """The problem for a serializer's errors, naming the field and the remedy."""
    lines = list(_lines(errors))
    name, text = lines[0]
    detail = f"{name}: {text}" if name else text
    return Invalid(detail, field=name or "body", errors=[{"field": name or "body", "detail": text} for name, text in lines])


def _lines(errors: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(errors, dict):
        for key, value in errors.items():
            inner = f"[{key}]" if isinstance(key, int) else f".{key}" if path else str(key)
            yield from _lines(value, path if key == "non_field_errors" else path + inner)
    elif isinstance(errors, list):
        for position, value in enumerate(errors):
            yield from _lines(value, f"{path}[{position}]" if isinstance(value, dict) and value else path)
    else:
        yield path, str(errors)


def check_text(value: Any, path: str = "") -> None:
    """Refuse what is JSON but cannot be kept: NUL characters, half surrogates, numbers without end, nesting without end."""
    _check(value, path, 0)


def _check(value: Any, path: str, depth: int) -> None:
    if depth > DEPTH_MAX:
        raise Invalid(f"{path[:60]}…: nested deeper than {DEPTH_MAX} levels. Flatten it.", field=path[:200] or "body")
    if isinstance(value, str):
        if "\x00" in value:
            raise Invalid(f"{path or 'body'}: contains a NUL character. Remove it.", field=path or "body")
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            raise Invalid(f"{path or 'body'}: contains half of a surrogate pair. Send valid Unicode.", field=path or "body")
    elif isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{path or 'body'}: is too large for a number. Send it as a string if it is no quantity.", field=path or "body")
    elif isinstance(value, dict):
        for key, inner in value.items():
            _check(key, path or "body", depth)
            _check(inner, f"{path}.{key}" if path else str(key), depth + 1)
    elif isinstance(value, list | tuple):
        for position, inner in enumerate(value):
            _check(inner, f"{path}[{position}]", depth + 1)


def read_json(raw: bytes) -> Any:
    """The JSON value of a body, or None for an empty one. Raises `Invalid` for bytes that are not UTF-8, not JSON, or ambiguous."""
    if not raw:
        return None
    try:
        return json.loads(raw.decode(), object_pairs_hook=_no_twins, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise Invalid(f"The body is not UTF-8 (byte {error.start}). Encode it as UTF-8.", field="body") from None
    except RecursionError:
        raise Invalid(f"The body is nested deeper than {DEPTH_MAX} levels. Flatten it.", field="body") from None
    except ValueError as error:
        raise Invalid(f"The body is not JSON: {error}.", field="body") from None


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Invalid(f"{key[:60]}: given twice. Send it once.", field=key[:200])
        found[key] = value
    return found


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is not a JSON number")


def read_query(query: QueryDict) -> Given:
    """The parameters of a query: a text each, a list where one was repeated."""
    return {name: values[0] if len(values) == 1 else values for name, values in query.lists()}
