"""One call as it is about to be sent: what Schemathesis drew from the description, more or less of it replaced by what is really there.

Drawn from the description alone hardly anything would get past "there is no such run". So a shot is *right* (the path and all that is
known are of one real thing), *near* (the path is real, the rest is drawn), *wild* (all is drawn) or *spoiled* (drawn to break the
description).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.generation.case import Case
from schemathesis.schemas import APIOperation

from tests.fuzz.ground import WORDS, Thing
from tests.wire import schema

RIGHT, NEAR, WILD, SPOILED = "right", "near", "wild", "spoiled"
FEW = 2  # how many of the optional fields that nothing is known about stay in a right shot


@dataclass(frozen=True)
class Shot:
    """`raw` and `headers` are sent beside the case: a body that the description leaves open."""

    how: str
    case: Case
    raw: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


def right(operation: APIOperation[Any, Any, Any], things: list[Thing]) -> st.SearchStrategy[Shot]:
    """Shots that ought to hit."""
    return _shots(operation, things, (RIGHT,))


def mixed(operation: APIOperation[Any, Any, Any], things: list[Thing]) -> st.SearchStrategy[Shot]:
    """Shots of every sort."""
    return _shots(operation, things, (RIGHT, NEAR, WILD, SPOILED, SPOILED) if _can_be_spoiled(operation) else (RIGHT, NEAR, WILD))


def body_of(operation: APIOperation[Any, Any, Any]) -> tuple[frozenset[str], frozenset[str]]:
    """The names of the fields of an operation's JSON body: all, and those that are required."""
    described = schema()["paths"][operation.path][operation.method].get("requestBody", {}).get("content", {})
    shape = described.get("application/json", {}).get("schema", {})
    if "$ref" in shape:
        shape = schema()["components"]["schemas"][shape["$ref"].rpartition("/")[2]]
    return frozenset(shape.get("properties", {})), frozenset(shape.get("required", ()))


def fitting(operation: APIOperation[Any, Any, Any], things: list[Thing]) -> list[Thing]:
    """The things that an operation may be about: those that have all of its path, or some of its body when it names none."""
    path = {parameter.name for parameter in operation.path_parameters}
    if path:
        return [thing for thing in things if path <= thing.keys()]
    wanted = body_of(operation)[0] | {parameter.name for parameter in operation.query}
    return [thing for thing in things if wanted & thing.keys()] or [{}]


def best(operation: APIOperation[Any, Any, Any], things: list[Thing]) -> list[Thing]:
    """Those of them of which most is known that the operation takes."""
    fields = body_of(operation)[0]

    def known(thing: Thing) -> tuple[bool, bool, int]:
        return operation.path.endswith(thing.get("_for", "nothing")), not fields and "_raw" in thing, len(fields & thing.keys())

    return [thing for thing in things if known(thing) == max(map(known, things))]


def _can_be_spoiled(operation: APIOperation[Any, Any, Any]) -> bool:
    """Whether there is anything in its description that can be broken: a path alone can't, because any text is one."""
    return bool(body_of(operation)[0]) or any(True for _ in operation.query)


_strategies: dict[tuple[str, GenerationMode], st.SearchStrategy[Case]] = {}


def _drawn(operation: APIOperation[Any, Any, Any], mode: GenerationMode) -> st.SearchStrategy[Case]:
    """Schemathesis's own cases of an operation: made once, because reading the description takes longer than drawing."""
    key = (operation.label, mode)
    if key not in _strategies:
        _strategies[key] = operation.as_strategy(generation_mode=mode)
    return _strategies[key]


@st.composite
def _shots(draw: st.DrawFn, operation: APIOperation[Any, Any, Any], things: list[Thing], sorts: tuple[str, ...]) -> Shot:
    how = draw(st.sampled_from(sorts))
    case = draw(_drawn(operation, GenerationMode.NEGATIVE if how == SPOILED else GenerationMode.POSITIVE))
    there = fitting(operation, things)
    thing = draw(st.sampled_from(best(operation, there) if how == RIGHT and draw(st.booleans()) else there))
    if how in (RIGHT, NEAR) or (how == SPOILED and draw(st.booleans())):
        case.path_parameters = {parameter.name: thing[parameter.name] for parameter in operation.path_parameters}
    if how == RIGHT:
        _make_right(draw, case, thing, body_of(operation))
    _hurry(case)
    _stay_oneself(case)
    if how in (RIGHT, NEAR) and "_raw" in thing and not body_of(operation)[0]:
        return Shot(how, case, thing["_raw"], thing["_headers"])
    return Shot(how, case)


def _make_right(draw: st.DrawFn, case: Case, thing: Thing, fields: tuple[frozenset[str], frozenset[str]]) -> None:
    known = {**WORDS, **thing}
    if isinstance(case.body, dict) and fields[0]:
        names, required = fields
        extra = draw(st.sets(st.sampled_from(sorted(names - required)), max_size=FEW)) if names - required else set()
        kept = {name: value for name, value in case.body.items() if name in required or name in extra}
        case.body = kept | {name: value for name, value in known.items() if name in names and (name in required | extra or name in thing)}
    if case.query:
        extra = draw(st.sets(st.sampled_from(sorted(case.query)), max_size=1))
        case.query = {name: value for name, value in case.query.items() if name in extra} | {
            name: thing[name] for name in case.query if name in thing
        }


def _hurry(case: Case) -> None:
    """Nobody waits in a test."""
    for given in (case.body, case.query):
        if isinstance(given, dict) and isinstance(given.get("wait_s"), int | float | str):
            given["wait_s"] = 0


def _stay_oneself(case: Case) -> None:
    """Who asks is said by the caller alone; the description names tokens and sessions too, and they would be drawn."""
    case.headers = {name: value for name, value in (case.headers or {}).items() if name.lower() != "authorization"}
    case.cookies = {name: value for name, value in (case.cookies or {}).items() if name != "sessionid"}
