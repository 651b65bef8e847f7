"""The API as its clients meet it: over HTTP, with a token or a session, and every answer checked against the published schema."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import jsonschema
from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from console.models import Credential
from runs.actors import MACHINE_SCOPES
from tests.signing import prove

PROBLEM = "application/problem+json"


@cache
def schema() -> dict[str, Any]:
    """The published description of the API."""
    found: dict[str, Any] = SchemaGenerator().get_schema(request=None, public=True)
    return json.loads(json.dumps(found))


@cache
def _paths() -> list[tuple[re.Pattern[str], str]]:
    plainest_first = sorted(schema()["paths"], key=lambda path: path.count("{"))
    return [(re.compile("^" + re.sub(r"\{\w+\}", "[^/]+", path) + "$"), path) for path in plainest_first]


def check(method: str, path: str, status: int, media: str, body: Any) -> None:
    """Whether the answer is one that the schema promises, field by field (and no field more)."""
    described = next((known for pattern, known in _paths() if pattern.match(path)), None)
    assert described, f"{path} is not described"
    answers = schema()["paths"][described][method.lower()]["responses"]
    assert str(status) in answers, f"{method} {described} does not promise {status}: {sorted(answers)}"
    content = answers[str(status)].get("content", {})
    if status == 204:
        assert body is None and not content
        return
    assert media in content, f"{method} {described} {status} is {media}, promised: {sorted(content)}"
    if media.endswith("json"):
        _judge(method, described, status, media).validate(body)


@cache
def _judge(method: str, described: str, status: int, media: str) -> jsonschema.Draft202012Validator:
    promised = schema()["paths"][described][method.lower()]["responses"][str(status)]["content"][media]["schema"]
    return jsonschema.Draft202012Validator({**promised, "components": _closed()})


@cache
def _closed() -> dict[str, Any]:
    """Answers may hold no field that is not described, except problem documents, which carry facts."""
    closed = {
        name: {**shape, "additionalProperties": False} if name != "ProblemShape" and "properties" in shape else shape
        for name, shape in schema()["components"]["schemas"].items()
    }
    return {"schemas": closed}


class Api:
    """A client with a machine's token (or none)."""

    def __init__(self, token: str | None = None, client: Client | None = None) -> None:
        self.client = client or Client()
        self.headers = {"authorization": f"Bearer {token}"} if token else {}

    def get(self, path: str, **query: Any) -> Any:
        return self._answer("GET", path, self.client.get(f"/api/v1{path}", query, headers=self.headers))

    def post(self, path: str, body: Any = None, **headers: str) -> Any:
        return self.send("POST", path, body, **headers)

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        raw = body if isinstance(body, bytes) else json.dumps({} if body is None else body)
        sent = self.client.generic(method, f"/api/v1{path}", raw, content_type="application/json", headers={**self.headers, **headers})
        return self._answer(method, path, sent)

    def _answer(self, method: str, path: str, response: HttpResponse) -> Any:
        media = response.headers.get("Content-Type", "").partition(";")[0]
        response.data = json.loads(response.content) if media.endswith("json") else None  # type: ignore[attr-defined]
        if response.status_code < 500:
            check(method, f"/api/v1{path}", response.status_code, media, response.data)  # type: ignore[attr-defined]
        return response


def token(name: str = "agents", scopes: list[str] | None = None, agents: list[str] | None = None) -> str:
    """A fresh credential's token; every machine scope and any agent unless said otherwise."""
    return Credential.issue(name, sorted(MACHINE_SCOPES) if scopes is None else scopes, ["*"] if agents is None else agents)[1]


def worker(**options: Any) -> Api:
    return Api(token(**options))


def person(group: str) -> Api:
    """Somebody of that group, signed in. The CSRF check of a session is tested by its own test."""
    user = User.objects.create(username=group.lower(), first_name=group)
    user.groups.set([Group.objects.get(name=group)])
    client = Client()
    client.force_login(user)
    prove(client)
    return Api(client=client)


def claimed(api: Api, agent: str = "purchase-order", **values: Any) -> tuple[dict[str, Any], str]:
    """A new run that this test holds, and its lease."""
    body = {"agent": agent, "title": "Order", "claim": {"holder": "w-1"}, **values}
    answer = api.post("/runs", body)
    assert answer.status_code == 201, answer.content
    return answer.data["run"], answer.data["lease"]["token"]


def effect_body(lease: str, **values: Any) -> dict[str, Any]:
    """A whole, valid body of POST /runs/{run}/effects."""
    return {
        "lease": lease,
        "nonce": "0f8fad5bd9cb469fa16570867728950e",
        "step": "order",
        "ordinal": 1,
        "provider": "supplier",
        "action": "create_order",
        "business_ref": "PO-1042",
        "amount": 12500,
        "currency": "EUR",
        "request": {"lines": [1]},
        **values,
    }


def sent(api: Api, run: dict[str, Any], lease: str, **values: Any) -> dict[str, Any]:
    """Start the step and get the go-ahead for one effect in it."""
    body = effect_body(lease, **values)
    assert api.post(f"/runs/{run['id']}/steps", {"lease": lease, "key": body["step"], "kind": "tool"}).status_code in (200, 201)
    answer = api.post(f"/runs/{run['id']}/effects", body)
    assert answer.status_code == 201, answer.content
    return answer.data
