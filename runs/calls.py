"""A call of the API as one value: what it takes, what it answers, what does it; for HTTP and for the in-process door alike.

A call parses strictly, runs one domain function and renders; it knows no rule and no transport.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from runs.actors import Actor
from runs.errors import NotFound, Problem
from runs.fields import Shape
from runs.ids import parse_ref, parse_uuid
from runs.models import Run
from runs.parsing import parse, read_query

REFUSED = (400, 401, 403, 404, 409, 413, 415)


@dataclass(frozen=True)
class Answer:
    """What a call answers: HTTP status and a body that is ready to be JSON (None when empty)."""

    status: int
    body: dict[str, Any] | None = None


@dataclass(frozen=True)
class Call:
    """One call. Calling it as `(actor, *path, given, **headers)` checks what is given and does the work; raises `runs.errors.Problem`.

    `takes` describes the JSON body of a POST or the query of a GET, `answers` the body for each status (or status and media type),
    `refuses` are the codes of its own.
    """

    function: Callable[..., Answer]
    takes: type[Shape] | None = None
    answers: Mapping[Any, Any] = field(default_factory=dict)
    refuses: tuple[str, ...] = ()
    example: dict[str, Any] | None = None
    tag: str = "runs"
    headers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.function.__name__

    def __call__(self, actor: Actor, *path: str, given: Any = None, **headers: str | None) -> Answer:
        if any(not part.isprintable() for part in path):
            raise NotFound("There is nothing at this path: it contains characters that no name has.")
        return self.function(actor, *path, parse(self.takes or Shape, given), **headers)


def call(**options: Any) -> Callable[[Callable[..., Answer]], Call]:
    """Make a `Call` of a function `(actor, *path, given, **headers) -> Answer`; its docstring is its documentation."""
    return lambda function: Call(function, **options)


# Finding


def run_id(text: str) -> uuid.UUID:
    """The id of the run that a path names by id or reference, in any case, with or without dashes. Raises `NotFound`."""
    found = parse_uuid(text)
    if found is not None:
        return found
    ref = parse_ref(text, "R")
    named = Run.objects.filter(ref=ref).values_list("pk", flat=True).first() if ref else None
    if named is None:
        raise NotFound(f"No run is called {text[:60]!r}. Use its id, or its reference such as R-7K2M9Q4TXA.")
    return named


# Over HTTP


class CallView(APIView):
    """A DRF view made of calls. Errors are left to the exception handler of the settings."""

    calls: dict[str, Call] = {}

    def answer(self, request: Request, path: dict[str, str]) -> Response:
        made = self.calls[request.method or ""]
        given = read_query(request.query_params) if request.method == "GET" else request.data
        headers = {name: request.headers.get(name.replace("_", "-")) for name in made.headers}
        answer = made(request.actor, *path.values(), given=given, **headers)  # type: ignore[attr-defined]
        return Response(answer.body, status=answer.status)


def view(
    *, get: Call | None = None, post: Call | None = None, patch: Call | None = None, base: type[CallView] = CallView
) -> Callable[..., Any]:
    """The view of one path, for a urlconf."""
    calls = {"GET": get, "POST": post, "PATCH": patch}
    members: dict[str, Any] = {"calls": {verb: made for verb, made in calls.items() if made}}
    for verb, made in members["calls"].items():
        members[verb.lower()] = _handler(verb, made)
    name = "".join(part.title() for part in (get or post or patch).name.split("_"))  # type: ignore[union-attr]
    made_of_calls: type[CallView] = type(f"{name}View", (base,), members)
    return made_of_calls.as_view()


def _handler(verb: str, made: Call) -> Any:
    def handle(self: CallView, request: Request, **path: str) -> Response:
        return self.answer(request, path)

    handle.__doc__ = made.function.__doc__
    return described(verb, made)(handle)


def described(verb: str, made: Call) -> Any:
    """The decorator with which the OpenAPI schema describes a call."""
    title, _, rest = (made.function.__doc__ or "").strip().partition("\n")
    codes = f"\n\nRefusals of its own: {', '.join(f'`{code}`' for code in made.refuses)}." if made.refuses else ""
    answers: dict[Any, Any] = {
        key: OpenApiResponse(shape, description=HTTPStatus(key[0] if isinstance(key, tuple) else key).phrase)
        for key, shape in made.answers.items()
    }
    answers |= refusals(made.refuses)
    return extend_schema(
        operation_id=made.name,
        summary=title.rstrip("."),
        description=" ".join(rest.split()) + codes,
        tags=[made.tag],
        request=None if verb == "GET" else made.takes or Shape,
        parameters=[made.takes] if made.takes and verb == "GET" else [],
        responses=answers,
        examples=[OpenApiExample("Example", made.example, request_only=True)] if made.example else [],
    )


def refusals(codes: Iterable[str] = ()) -> dict[Any, Any]:
    """The problem documents that any call may answer, and those of these codes, for the schema."""
    statuses = sorted({*REFUSED, *(_status_of(code) for code in codes)})
    return {(one, "application/problem+json"): OpenApiResponse(ProblemShape, description=HTTPStatus(one).phrase) for one in statuses}


def _status_of(code: str) -> int:
    """The HTTP status of a refusal's code."""
    kinds = [Problem]
    while kinds:
        kind = kinds.pop()
        if kind.code == code:
            return kind.status
        kinds += kind.__subclasses__()
    raise LookupError(f"no problem has the code {code}")


class ProblemShape(serializers.Serializer[Any]):
    """An RFC 9457 problem document. Beside these it carries the facts of its code."""

    type = serializers.CharField(help_text="urn:countermand:problem:<code>")
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField(help_text="A sentence a person can act on.")
    code = serializers.CharField(help_text="Stable; the one thing to branch on.")
    field = serializers.CharField(required=False, help_text="The first wrong field, when a field is wrong.")
