"""The two calls that wait: for a run to claim, and for directives. They hold no database connection and no thread while they wait.

Each look is one hop to a thread: it knows the bearer anew, looks, and gives its connection back; the tail says when to look again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from channels.db import database_sync_to_async
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from console import problems
from console.auth import TokenRefused, machine_of
from console.parsing import read_body
from runs import actors, api, leases, schema
from runs.actors import Actor
from runs.calls import Answer, run_id
from runs.parsing import parse, read_json, read_query
from runs.tail import Seen, Watch, tail

View = Callable[[HttpRequest], Awaitable[HttpResponse]]
SHARE_WAITED = (0.7, 1.0)
in_a_thread = partial(database_sync_to_async, thread_sensitive=False)


def _door(method: str) -> Callable[[View], View]:
    """A plain asynchronous view for bearers only: no cookie is believed, so no CSRF check is needed; errors as everywhere."""

    def wrap(view: View) -> View:
        async def guarded(request: HttpRequest) -> HttpResponse:
            if request.method != method:
                refused = problems.answer(problems.document(405, f"Use {method} here."))
                refused["Allow"] = method
                return refused
            try:
                return await view(request)
            except TokenRefused as error:
                refused = problems.answer(problems.document(401, str(error)))
                refused["WWW-Authenticate"] = 'Bearer realm="countermand"'
                return refused
            except Exception as error:
                return problems.answer(problems.describe(error))

        view_of_bearers = csrf_exempt(never_cache(guarded))
        view_of_bearers.methods = (method,)  # type: ignore[attr-defined]
        return view_of_bearers

    return wrap


def _bearer(request: HttpRequest) -> Actor:
    actor = machine_of(request)
    if actor is None:
        raise TokenRefused("Send a token: Authorization: Bearer cm_<id>_<secret>.")
    return actor


@_door("POST")
async def claim(request: HttpRequest) -> HttpResponse:
    if request.content_type != "application/json" and request.headers.get("Content-Length", "0") != "0":
        return problems.answer(problems.document(415, "Send application/json."))
    given = parse(schema.ClaimBody, read_json(read_body(request)))
    with tail.watch(lambda event: event.kind in api.CLAIMABLE or event.kind == "tail.gap") as watch:
        return _json(await _until(watch, given["wait_s"], lambda: _claim(request, given), lambda answer: answer.status != 204))


async def _claim(request: HttpRequest, given: dict[str, Any]) -> Answer:
    """One try. A claim whose asker has gone meanwhile is given back: its lease never left this process."""
    attempt = asyncio.ensure_future(_try(request, given))
    try:
        return await asyncio.shield(attempt)
    except asyncio.CancelledError:
        attempt.add_done_callback(_give_back)
        raise


@in_a_thread
def _try_now(request: HttpRequest, given: dict[str, Any]) -> tuple[Actor, Answer]:
    actor = _bearer(request)
    return actor, api.claim(actor, given=given)


async def _try(request: HttpRequest, given: dict[str, Any]) -> Answer:
    return (await _try_now(request, given))[1]


def _give_back(attempt: asyncio.Future[Answer]) -> None:
    if attempt.cancelled() or attempt.exception() is not None or attempt.result().body is None:
        return
    body = attempt.result().body or {}
    asyncio.ensure_future(_release(body["run"]["id"], body["lease"]["token"]))  # noqa: RUF006


@in_a_thread
def _release(run: str, token: str) -> None:
    leases.stopped(actors.system("claim"), run_id(run), token)


@_door("GET")
async def directives(request: HttpRequest) -> HttpResponse:
    given = parse(schema.DirectivesQuery, read_query(request.GET))
    asked: list[api.Named] = []

    def concerns(event: Seen) -> bool:
        mine = not asked or event.run_id in asked[0].epochs
        return event.kind == "tail.gap" or (mine and event.kind.partition(".")[0] in api.TELLING)

    with tail.watch(concerns) as watch:
        return _json(await _until(watch, given["wait_s"], lambda: _look(request, given, asked), _has_lines))


@in_a_thread
def _look(request: HttpRequest, given: dict[str, Any], asked: list[api.Named]) -> Answer:
    actor = _bearer(request)
    if not asked:
        asked.append(api.named(actor, given))
    return Answer(200, {"directives": api.look(asked[0])})


def _has_lines(answer: Answer) -> bool:
    return bool(answer.body and answer.body["directives"])


async def _until(watch: Watch, wait_s: float, look: Callable[[], Awaitable[Answer]], good: Callable[[Answer], bool]) -> Answer:
    """Look until the answer is good or the time is over. Every look comes after the watch was set, so that no news is missed."""
    # Those that came together, as after a restart, do not come back together.
    until_s = time.monotonic() + wait_s * random.uniform(*SHARE_WAITED)  # noqa: S311 - nothing is kept secret by it
    while True:
        answer = await look()
        left_s = until_s - time.monotonic()
        if good(answer) or left_s <= 0:
            return answer
        await watch.wait(left_s)


def _json(answer: Answer) -> HttpResponse:
    return HttpResponse(status=204) if answer.body is None else JsonResponse(answer.body, status=answer.status)
