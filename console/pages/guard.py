"""What every page's view has in common: somebody is signed in, the method is one of its own, nothing is cached, and refusals are pages."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect, render, resolve_url
from django.utils.cache import patch_vary_headers

from console import problems, recent
from console.auth import signed_in
from runs.errors import Problem, ReauthenticationRequired
from runs.planning import planned_by_value

log = logging.getLogger(__name__)

View = Callable[..., HttpResponse]
PAGES = {403: "403.html", 404: "404.html", 400: "400.html"}


def page(*methods: str, back: str = "") -> Callable[[View], View]:
    """A view of signed-in people, who are told to it as `request.actor`. Domain refusals that it lets through become pages; one that asks
    for a proof leads there and back to the same address, or to `back` (`/cases/{ref}/`) where that shows the form."""

    def wrap(view: View) -> View:
        @functools.wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            response = _answer(view, methods, back, request, *args, **kwargs)
            response.headers.setdefault("Cache-Control", "no-store")
            patch_vary_headers(response, ("HX-Request", "Cookie"))
            return response

        guarded.methods = methods  # type: ignore[attr-defined]
        return guarded

    return wrap


def _answer(view: View, methods: tuple[str, ...], back: str, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
    if not request.user.is_authenticated:
        return _to_sign_in(request)
    if request.method not in methods and not (request.method == "HEAD" and "GET" in methods):
        return HttpResponseNotAllowed(methods)
    request.actor = signed_in(request, request.user)  # type: ignore[attr-defined, arg-type]
    reads = request.method in ("GET", "HEAD")
    try:
        with planned_by_value() if reads else nullcontext():
            return view(request, *args, **kwargs)
    except ReauthenticationRequired as refused:
        return recent.ask_again(request, refused, back.format(**kwargs) or request.get_full_path())
    except Problem as problem:
        return refusal(request, problem)
    except (DatabaseError, InterfaceError) as error:
        if not problems.unanswered(error):
            raise
        log.error("the database did not answer", exc_info=error)
        said = "The database did not answer. It is not known whether anything was recorded: look again, then ask again."
        return render(request, "500.html", {"said": said}, status=503)


def go(request: HttpRequest, url: str) -> HttpResponse:
    """To `url` when a form is done, from a dialog too. For a place of the page that it lies over the page is loaded, else it would stay."""
    if not request.headers.get("HX-Request"):
        return redirect(url)
    path, _, place = url.partition("#")
    is_here = bool(place) and urlsplit(request.headers.get("HX-Current-URL", "")).path == path
    return HttpResponse(status=204, headers={"HX-Refresh": "true"} if is_here else {"HX-Redirect": url})


def _to_sign_in(request: HttpRequest) -> HttpResponse:
    """A page or dialog that was asked for comes after signing in; what was sent in a form is not kept."""
    back = request.get_full_path() if request.method in ("GET", "HEAD") else "/"
    url = f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': back})}"
    if request.headers.get("HX-Request") and request.method == "POST":
        return HttpResponse(status=401, headers={"HX-Redirect": url})
    return redirect(url)


def csrf_refused(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's CSRF_FAILURE_VIEW: a form without its token did nothing."""
    if request.path.startswith(problems.API):
        return problems.answer(problems.document(403, "A session needs the X-CSRFToken header, with the value of the csrftoken cookie."))
    said = "This form was not sent from a page of this session, so nothing was done. Open the page again and send it once more."
    return render(request, "403.html", {"said": said}, status=403)


def refusal(request: HttpRequest, problem: Problem) -> HttpResponse:
    """The page for a refusal of the domain."""
    return render(request, PAGES.get(problem.status, "400.html"), {"said": problem.detail}, status=problem.status)


def number(text: str | None) -> int | None:
    """A whole number that a form or address carries, or None for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 19 else None
