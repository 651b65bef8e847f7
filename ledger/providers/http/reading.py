"""From a provider's JSON to the object it tells of, by configured paths. What is not exactly as configured is not understood."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from ledger.providers.base import Found, Sought
from ledger.providers.money import BadAmount, exponent, minor_units

State = Literal["landed", "pending", "refused", "reversed"]
_TEXT_MAX = 200
_AMOUNT_MAX = 10**15
MISSING = object()


class NotUnderstood(Exception):
    """The answer is not about what was asked, or not in the configured shape; the message says where."""


@dataclass(frozen=True)
class Shape:
    """Where things stand in one object: dotted paths, `None` for what the provider does not tell."""

    id: str
    state: str | None
    reference: str | None
    amount: str | None
    currency: str | None
    time: str | None
    operation_id: str | None
    undone_by: str | None
    undone_amount: str | None
    undo_id: str | None
    undoes: str | None
    """Where an undo names the object that it undoes."""
    amount_format: Literal["minor", "decimal"]
    states: Mapping[str, State] = field(default_factory=dict)


def at(value: Any, path: str) -> Any:
    """What stands at `a.b.0.c` ('' is the whole), or MISSING."""
    for name in path.split(".") if path else ():
        if isinstance(value, dict):
            value = value.get(name, MISSING)
        elif isinstance(value, list) and re.fullmatch(r"\d{1,4}", name, re.ASCII) and int(name) < len(value):
            value = value[int(name)]
        else:
            return MISSING
    return value


def found(shape: Shape, item: Any, sought: Sought) -> Found:
    """The object, when it is about what was sought. NotUnderstood, BadAmount."""
    one = read(shape, item)
    if sought.undoes is None:
        if one.reference != sought.provider_reference:
            raise NotUnderstood(f"asked about {sought.provider_reference}, answered about {one.reference}")
        return one
    if shape.undoes is not None and one.undoes != sought.undoes:
        raise NotUnderstood(f"asked about the undoing of {sought.undoes}, answered about {one.undoes}'s")
    return replace(one, reference=one.reference or sought.provider_reference, undoes=sought.undoes)


def is_ours(shape: Shape, one: Found, sought: Sought) -> bool:
    """Whether an undo is the one that is sought, and not another one of the same object: by our reference, else by our key."""
    if shape.reference is not None:
        return one.reference == sought.provider_reference
    return one.operation_id == sought.operation_id


def read(shape: Shape, item: Any) -> Found:
    """The object as it stands; without a place for our reference it has the reference ''. NotUnderstood, BadAmount."""
    if not isinstance(item, dict):
        raise NotUnderstood("there is no object where one is configured")
    state = _state(shape, item)
    amount, currency = _amount(shape, item)
    return Found(
        external_id=_text(item, shape.id),
        state=state,
        amount=amount,
        currency=currency,
        reference=_text(item, shape.reference) if shape.reference is not None else "",
        at=_moment(at(item, shape.time)) if shape.time is not None else None,
        operation_id=_told(item, shape.operation_id),
        undone_by=_told(item, shape.undone_by) if state == "reversed" else None,
        undone_amount=_undone(shape, item, currency),
        undo_id=_told(item, shape.undo_id),
        undoes=_text(item, shape.undoes) if shape.undoes is not None else None,
    )


def _state(shape: Shape, item: Any) -> State:
    if shape.state is None:
        return "landed"
    word = at(item, shape.state)
    known = word if isinstance(word, str) else str(word).lower() if isinstance(word, bool) else None
    if known is None or known not in shape.states:
        raise NotUnderstood(f"an object is in the state {word!r:.100}, which is not configured")
    return shape.states[known]


def _amount(shape: Shape, item: Any) -> tuple[int | None, str | None]:
    if shape.amount is None or shape.currency is None:
        return None, None
    currency = _text(item, shape.currency)
    return _units(shape, at(item, shape.amount), currency), currency


def _undone(shape: Shape, item: Any, currency: str | None) -> int | None:
    value = at(item, shape.undone_amount) if shape.undone_amount is not None else None
    return None if value is None or value is MISSING or currency is None else _units(shape, value, currency)


def _units(shape: Shape, value: Any, currency: str) -> int:
    if shape.amount_format == "decimal":
        return minor_units(value, currency)
    exponent(currency)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _AMOUNT_MAX:
        raise BadAmount(f"{value!r:.40} is no whole number of minor units")
    return value


def _text(item: Any, path: str) -> str:
    value = at(item, path)
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not 0 < len(text) <= _TEXT_MAX or not text.isprintable():
        raise NotUnderstood(f"{path}: a text or a whole number is configured there")
    return text


def _told(item: Any, path: str | None) -> str | None:
    value = at(item, path) if path is not None else None
    return value if isinstance(value, str) and 0 < len(value) <= _TEXT_MAX and value.isprintable() else None


def _moment(value: Any) -> datetime | None:
    """ISO 8601 with an offset, or whole seconds since 1970."""
    try:
        if isinstance(value, int) and not isinstance(value, bool):
            return datetime.fromtimestamp(value, UTC)
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None
    return moment if moment is not None and moment.tzinfo is not None else None
