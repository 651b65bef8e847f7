"""What every answer must be, whoever asked and whatever was sent."""

from __future__ import annotations

import json
from typing import Any

from schemathesis.checks import not_a_server_error
from schemathesis.core.transport import Response
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fuzz.callers import Caller
from tests.fuzz.shots import SPOILED, Shot
from tests.wire import PROBLEM, check

ALWAYS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


def judge(shot: Shot, response: Response, caller: Caller, needs: str) -> None:
    """Raises what is wrong with an answer: Schemathesis's own checks, then ours."""
    shot.case.validate_response(response, checks=[*ALWAYS, negative_data_rejection] if shot.how == SPOILED else ALWAYS)
    media = response.headers.get("content-type", [""])[0].partition(";")[0]
    body = json.loads(response.content) if media.endswith("json") else None
    check(shot.case.method, shot.case.path, response.status_code, media, body)
    assert response.status_code >= 400 or caller.may(needs), f"{caller.name} was let in, and it needs {needs}"
    if response.status_code >= 400:
        _problem(response, media, body)
    if caller.scopes is None and not caller.may(needs):
        assert response.status_code in (400, 401, 413, 415), f"{caller.name} is not known, and was answered {response.status_code}"


def _problem(response: Response, media: str, told: Any) -> None:
    """An error names what is wrong and what to do about it."""
    assert media == PROBLEM and told["status"] == response.status_code and told["code"], told
    assert len(told["detail"]) > 10 and "Traceback" not in told["detail"], told
    if told["code"] == "invalid" and response.status_code == 400:
        assert told.get("field"), f"which field is wrong? {told}"
