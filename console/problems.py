"""Every error of the API as an RFC 9457 problem document. It words errors; it decides nothing and shows no stack trace."""

from __future__ import annotations

import logging
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views import defaults
from psycopg.errors import IdleInTransactionSessionTimeout
from rest_framework import exceptions

from runs.errors import Problem
from runs.parsing import invalid

log = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
API = "/api/"
TITLES = {
    400: "The request was not understood",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Not a method of this path",
    406: "No such format",
    413: "The body is too large",
    415: "Not a content type of this path",
    429: "Too many requests",
    500: "Something went wrong here",
    503: "Not available",
}
CODES = {401: "not_allowed", 403: "not_allowed", 404: "not_found", 503: "busy"}


class BodyTooLarge(exceptions.APIException):
    status_code = 413
    default_detail = "The body is larger than 1 MiB. Send less, or send a reference to it."


def document(status: int, detail: str, code: str = "", **facts: Any) -> dict[str, Any]:
    """A problem document for an error that the domain does not know."""
    code = code or CODES.get(status, "invalid" if status < 500 else "error")
    return {
        "type": f"urn:countermand:problem:{code}",
        "title": TITLES.get(status, "The request was refused"),
        "status": status,
        "detail": detail,
        "code": code,
        **facts,
    }


def answer(body: dict[str, Any]) -> JsonResponse:
    """The response for a problem document."""
    return JsonResponse(body, status=body["status"], content_type=MEDIA_TYPE)


def handle(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's exception handler. What nobody foresaw is logged with its trace and told without it."""
    response = answer(describe(error))
    for name, value in _headers(error).items():
        response[name] = value
    return response


def describe(error: Exception) -> dict[str, Any]:
    """The problem document of an exception."""
    match error:
        case Problem():
            return error.body()
        case exceptions.ValidationError():
            return invalid(error.detail).body()
        case exceptions.UnsupportedMediaType():
            return document(415, f"{error.detail} Send application/json.")
        case exceptions.APIException():
            return document(error.status_code, _text(error.detail))
        case Http404():
            return document(404, "There is nothing at this path.")
        case PermissionDenied():
            return document(403, str(error) or "You may not do this.")
        case RequestDataTooBig():
            return document(413, BodyTooLarge.default_detail)
        case _ if unanswered(error):
            log.error("the database did not answer", exc_info=error)
            return document(503, "The database did not answer. It is not known whether anything was recorded: ask again.", "busy")
    log.error("an error nobody foresaw", exc_info=error)
    return document(500, "This is our mistake and it has been logged. It is not known whether anything was recorded: ask again.")


def unanswered(error: Exception) -> bool:
    """Whether the connection to the database failed, not the work. PostgreSQL files it under its internal errors that it ended a
    transaction which stood idle too long, as one of a thread does on a machine that is too busy to let it go on."""
    return isinstance(error, OperationalError | InterfaceError) or isinstance(error.__cause__, IdleInTransactionSessionTimeout)


def _text(detail: Any) -> str:
    return detail if isinstance(detail, str) else "; ".join(str(part) for part in detail)


def _headers(error: Exception) -> dict[str, str]:
    found = {}
    if header := getattr(error, "auth_header", None):
        found["WWW-Authenticate"] = header
    if (wait := getattr(error, "wait", None)) is not None:
        found["Retry-After"] = str(int(wait))
    return found


# Django's own error pages, for what never reaches a view: the API's paths answer problem documents, the others pages.


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if not request.path.startswith(API):
        if isinstance(exception, RequestDataTooBig):
            return render(request, "400.html", {"said": str(exception)}, status=413)
        return defaults.bad_request(request, exception)
    return answer(describe(exception) if isinstance(exception, RequestDataTooBig) else document(400, "The request could not be read."))


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    return answer(describe(exception)) if request.path.startswith(API) else defaults.permission_denied(request, exception)


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if not request.path.startswith(API):
        return defaults.page_not_found(request, exception)
    return answer(document(404, f"There is nothing at {request.path[:200]}. The calls are described at /api/docs/."))


def server_error(request: HttpRequest) -> HttpResponse:
    if not request.path.startswith(API):
        return defaults.server_error(request)
    return answer(document(500, "This is our mistake and it has been logged. It is not known whether anything was recorded: ask again."))
