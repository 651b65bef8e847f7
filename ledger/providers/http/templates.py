"""Filling in what is sent: placeholders such as {reference} in paths, headers and JSON bodies. A value never becomes structure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

NAMES = frozenset({"reference", "operation_id", "external_id", "amount", "currency", "attempt", "request"})
PLACEHOLDER = re.compile(r"\{([a-z_]+)((?:\.[A-Za-z0-9_-]+)*)(\??)\}")
_BRACES = re.compile(r"[{}]")
_MISSING = object()


class CannotFill(ValueError):
    """A value that the template needs is missing, or cannot stand there; the message names it."""


def names(template: Any) -> Iterator[str]:
    """Every placeholder's name in a template of any depth. Raises CannotFill for braces that are no placeholder."""
    if isinstance(template, str):
        for match in PLACEHOLDER.finditer(template):
            if match[1] not in NAMES or (match[2] and match[1] != "request") or (match[3] and match[0] != template):
                raise CannotFill(f"{match[0]} is no placeholder here. Known: {', '.join(sorted(NAMES))}, and request.some.field.")
            yield match[1]
        if _BRACES.search(PLACEHOLDER.sub("", template)):
            raise CannotFill(f"{template!r} has a brace that belongs to no placeholder.")
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from names(value)
    elif isinstance(template, list):
        for value in template:
            yield from names(value)


def path(template: str, values: Mapping[str, Any]) -> str:
    """A path with its query, every value percent-encoded. What would lead to another path is refused. CannotFill."""
    before, mark, query = template.partition("?")

    def segment(match: re.Match[str]) -> str:
        text = _text(match, values)
        if any(part in ("", ".", "..") for part in re.split(r"[/\\]", text)):
            raise CannotFill(f"{match[1]}: {text!r} would lead to another path.")
        return quote(text, safe="")

    filled = PLACEHOLDER.sub(segment, before)
    return filled + mark + PLACEHOLDER.sub(lambda match: quote(_text(match, values), safe=""), query)


def header(template: str, values: Mapping[str, Any]) -> str:
    """A header's value. CannotFill when it could be more than one."""
    text = PLACEHOLDER.sub(lambda match: _text(match, values), template)
    if not (text.isascii() and text.isprintable()):
        raise CannotFill("a header takes one line of plain text.")
    return text


def body(template: Any, values: Mapping[str, Any]) -> Any:
    """A JSON body: a text that is one placeholder becomes its value, whatever it is; in longer texts values are put in as text.

    `{request.note?}` leaves its field out when the request has none. CannotFill.
    """
    if isinstance(template, str):
        whole = PLACEHOLDER.fullmatch(template)
        return _value(whole, values) if whole else PLACEHOLDER.sub(lambda match: _text(match, values), template)
    if isinstance(template, Mapping):
        filled = {name: body(value, values) for name, value in template.items()}
        return {name: value for name, value in filled.items() if value is not _MISSING}
    if isinstance(template, list):
        return [value for value in (body(one, values) for one in template) if value is not _MISSING]
    return template


def _value(match: re.Match[str], values: Mapping[str, Any]) -> Any:
    value = values.get(match[1])
    for name in match[2].split(".")[1:]:
        value = value.get(name) if isinstance(value, Mapping) else None
    if value is None:
        if match[3]:
            return _MISSING
        raise CannotFill(f"{match[0][1:-1]} is needed and missing.")
    return value


def _text(match: re.Match[str], values: Mapping[str, Any]) -> str:
    value = _value(match, values)
    if not isinstance(value, str | int) or isinstance(value, bool):
        raise CannotFill(f"{match[0][1:-1]}: a text or a whole number is needed there.")
    try:
        str(value).encode()
    except UnicodeEncodeError:
        raise CannotFill(f"{match[0][1:-1]}: not Unicode text.") from None
    return str(value)
