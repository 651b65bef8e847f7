"""What an HTTP exchange with a provider proves. It must never call something a definite no that could have happened."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator
from typing import Any, Literal

import httpx

from countermand.errors import NotSent, Pending, Refused

Verdict = Literal["landed", "refused", "pending", "not_sent", "unknown"]

_NO_CONNECTION = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
)
_DEFINITE_NO = frozenset({400, 405, 413, 415, 422})


def verdict(seen: BaseException | httpx.Response, definite_no: Container[int] = ()) -> Verdict:
    """Classify a response, or the exception raised instead of one.

    `definite_no`: further 4xx statuses that this provider documents as "did not happen and will not" (say 402 or 404).
    No connection made → not_sent. 400, 405, 413, 415, 422 → refused. Every other 4xx, every 5xx, redirects, HTML with a
    success status (a maintenance page) and every other exception → unknown. 202 → pending. Other 2xx → landed.
    """
    if isinstance(seen, httpx.HTTPStatusError):
        seen = seen.response
    if isinstance(seen, BaseException):
        return "not_sent" if isinstance(seen, _NO_CONNECTION) else "unknown"
    if seen.status_code in _DEFINITE_NO or (400 <= seen.status_code < 500 and seen.status_code in definite_no):
        return "refused"
    if not seen.is_success or "html" in seen.headers.get("content-type", ""):
        return "unknown"
    return "pending" if seen.status_code == 202 else "landed"


def conclude(response: httpx.Response, definite_no: Container[int] = ()) -> Any:
    """Return the response's JSON when it proves that the effect landed; raise Refused, Pending or an unknown
    otherwise.
    """
    said = verdict(response, definite_no)
    body = _body(response)
    if said == "refused":
        raise Refused(f"the provider answered {response.status_code}", response=body)
    if said == "pending":
        raise Pending("the provider answered 202", external_id=_id_in(body), response=body)
    if said == "unknown":
        raise httpx.HTTPStatusError(
            f"the provider answered {response.status_code}, which proves nothing",
            request=response.request,
            response=response,
        )
    return body


@contextlib.contextmanager
def classified(definite_no: Container[int] = ()) -> Iterator[None]:
    """Turn httpx errors raised inside into NotSent or Refused where they prove it; leave all others alone (unknown)."""
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        said = verdict(error, definite_no)
        if said == "not_sent":
            raise NotSent(f"no connection: {error}") from error
        if said == "refused" and isinstance(error, httpx.HTTPStatusError):
            raise Refused(str(error), response=_body(error.response)) from error
        raise


def _body(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return {"text": response.text[:2000]}


def _id_in(body: Any) -> str | None:
    found = body.get("id") if isinstance(body, dict) else None
    return None if found is None else str(found)
