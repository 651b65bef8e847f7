"""Every call, walked from the urlconf itself so that none is forgotten: what is wrong is refused by name, and changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework import serializers

from runs import api as worker_calls
from runs import fields
from runs.calls import Call
from runs.models import Run
from tests.wire import PROBLEM, Api, claimed, effect_body, sent, worker

pytestmark = pytest.mark.usefixtures("database")

LIMIT_BYTES = 1024 * 1024


def endpoints() -> dict[str, Call]:
    """`POST runs/<str:run>/steps` → its call, for every path below /api/v1/."""
    found = {"POST runs/claim": worker_calls.claim, "GET directives": worker_calls.directives}

    def walk(patterns: list[Any], prefix: str) -> None:
        for pattern in patterns:
            where = prefix + str(pattern.pattern)
            if isinstance(pattern, URLResolver):
                walk(pattern.url_patterns, where)
            elif isinstance(pattern, URLPattern) and where.startswith("api/v1/"):
                calls = getattr(getattr(pattern.callback, "cls", None), "calls", {})
                found.update({f"{method} {where.removeprefix('api/v1/')}": made for method, made in calls.items()})

    walk(get_resolver().url_patterns, "")
    return found


ENDPOINTS = endpoints()
POSTS = sorted(name for name in ENDPOINTS if name.startswith(("POST", "PATCH")))
GETS = sorted(name for name in ENDPOINTS if name.startswith("GET"))


def path_of(name: str) -> str:
    """A concrete path: the run is real, the other names need not exist, because what is given is judged first."""
    path = "/" + name.split(" ", 1)[1].replace("<str:run>", str(Run.objects.get().pk))
    return re.sub("<str:[a-z_]+>", "01890a5d-ac96-774b-bcce-b302099a8057", path)


UNTOLD = ("console_credential", "console_cache", "reconciliation_webhookrefusal")


def fingerprint() -> dict[str, tuple[int, int]]:
    """What the database holds, but for the note that a token was used and the count of webhooks that were not believed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
        tables = [name for (name,) in cursor.fetchall() if name not in UNTOLD]
        held = {}
        for name in tables:
            cursor.execute(f'SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)), 0) FROM "{name}" t')
            held[name] = cursor.fetchone()
    return held


@pytest.fixture
def api() -> Iterator[Api]:
    """A world with something in it to spoil: a run that is writing."""
    api = worker()
    run, lease = claimed(api)
    sent(api, run, lease)
    before = fingerprint()
    yield api
    assert fingerprint() == before, "something changed"


def refused(answer: Any, status: int = 400) -> dict[str, Any]:
    assert (answer.status_code, answer.headers["Content-Type"]) == (status, PROBLEM), answer.content
    assert answer.data["status"] == status and answer.data["code"] and len(answer.data["detail"]) > 10
    assert "Traceback" not in answer.content.decode()
    return answer.data


# What is wrong for each kind of field

NUL, HALF = "a\x00b", "a\ud800b"


def wrong_for(shown: serializers.Field[Any, Any, Any, Any]) -> list[Any]:
    match shown:
        case fields.Amount():
            return ["12500", 125.5, 12.345, 125.0, -1, True, [1], {}, 10**15 + 1, 10**30, "1e3"]
        case fields.Whole():
            return ["1", 1.5, 1.0, True, [], {}, -(10**12), 10**12 if (shown.max_value or 0) < 10**12 else 10**30]
        case fields.Currency():
            return ["eur", "XXX", "EURO", "XAU", "ZZZ", "", 978, True, [], "€"]
        case fields.Number():
            return ["1", True, [], {}, -1, 1e14]
        case fields.Flag():
            return ["true", "false", 0, 1, [], {}]
        case fields.Word():
            return ["nonsense", "", 1, True, [], {}]
        case fields.Name():
            return [1, 1.5, True, [], {}, "", " a", "a ", "a\nb", NUL, HALF, "x" * 10_000, *([] if shown.slash else ["a/b"])]
        case fields.Text():
            return [1, 1.5, True, [], {}, NUL, HALF, "x" * 30_000, *([] if shown.allow_blank else [""])]
        case fields.Moment():
            return ["yesterday", "2026-03-02", "2026-03-02T14:02:07", 12, True, [], "0001-01-01T00:00:00+23:00", "2026-13-01T00:00:00Z"]
        case fields.Uid():
            return ["x", "", 1, True, [], "01890a5d-ac96-774b-bcce-b302099a80"]
        case fields.JsonObject():
            return ["x", 1, True, [], {"a": NUL}, {"a": [{"b": HALF}]}, {NUL: 1}]
        case fields.Json():
            return [NUL, {"a": NUL}, [HALF]]
        case fields.Many():
            return ["x", 1, {}, True]
        case fields.Shape():
            return ["x", 1, True, []]
    raise AssertionError(f"no bad values are known for {type(shown).__name__}: strict fields come from runs.fields")


def spoiled(shape: serializers.Serializer[Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """(name of the wrong field, a body in which it is wrong), for every field at every depth."""
    for name, shown in shape.fields.items():
        where = f"{path}{name}"
        yield from ((where, {name: value}) for value in wrong_for(shown))
        if isinstance(shown, fields.Shape):
            yield f"{where}.colour", {name: {"colour": "red"}}
            yield from ((inner, {name: body}) for inner, body in spoiled(shown, f"{where}."))
        elif isinstance(shown, fields.Many) and isinstance(shown.child, fields.Shape):
            yield from ((inner, {name: [body]}) for inner, body in spoiled(shown.child, f"{where}[0]."))
        elif isinstance(shown, fields.Many):
            yield from ((f"{where}[0]", {name: [value]}) for value in wrong_for(shown.child))


def names(problem: dict[str, Any]) -> list[str]:
    return [problem["field"], *(error["field"] for error in problem.get("errors", []))]


def test_every_body_is_judged_by_name(api: Api, subtests: pytest.Subtests):
    for name in POSTS:
        with subtests.test(name):
            judge_bodies(api, name)


def judge_bodies(api: Api, name: str) -> None:
    method, path, shape = name.partition(" ")[0], path_of(name), (ENDPOINTS[name].takes or fields.Shape)()
    for field, body in spoiled(shape):
        found = refused(api.send(method, path, json.dumps(body).encode()))
        assert any(told == field or told.startswith((f"{field}.", f"{field}[")) for told in names(found)), (field, body, found)
    assert "colour" in names(refused(api.send(method, path, {"colour": "red"})))
    if missing := {field for field, shown in shape.fields.items() if shown.required}:
        assert set(names(refused(api.send(method, path, {})))) == missing
    for raw in UNREADABLE:
        refused(api.send(method, path, raw))
    refused(api.send(method, path, b'{"a": "' + b"x" * LIMIT_BYTES + b'"}'), 413)
    form = api.client.generic(method, f"/api/v1{path}", "a=1", content_type="application/x-www-form-urlencoded", headers=api.headers)
    assert (form.status_code, form.headers["Content-Type"]) == (415, PROBLEM)
    assert "application/json" in json.loads(form.content)["detail"]


UNREADABLE = (
    b"[]",
    b'"text"',
    b"12",
    b"true",
    b"{",
    b"{'a': 1}",
    b'{"a": NaN}',
    b'{"a": Infinity}',
    b'{"a": 1e999}',
    b'{"a": 1, "a": 2}',
    b'{"a": "\xff\xfe"}',
    b'\xef\xbb\xbf{"a": 1}',
    b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}",
    b"[" * 100_000,
    b'{"a": ' + b"9" * 5000 + b"}",
)
QUERY_VALUES = {
    "limit": ["0", "201", "x", "1.5", "-1", "1" * 30],
    "after": ["-1", "x", "1.5", "9" * 30],
    "wait_s": ["-1", "26", "x", "nan"],
    "cursor": ["x", "e30", "WzAsMSwyXQ", "=", "x" * 600],
    "status": ["nonsense", "running,nonsense"],
    "state": ["nonsense", "landed,nonsense", "open,nonsense"],
    "kind": ["nonsense"],
    "format": ["xml"],
    "started_from": ["yesterday", "2026-13-01", "2026-03-02T14:02:07", "12"],
    "started_to": ["yesterday", "0001-01-01T00:00:00+23:00"],
    "runs": ["", "x", "x:y", "R-1:-1", "R-1:1.5", ",".join(["R-7K2M9Q4TXA:1"] * 201), "x" * 30_000],
}
FREE_TEXT = {"agent", "q", "business_ref", "cancelled_by", "provider", "action", "external_id", "heard", "run", "effect"}


def test_every_query_is_judged_by_name(api: Api, subtests: pytest.Subtests):
    for name in GETS:
        with subtests.test(name):
            judge_query(api, name)


def judge_query(api: Api, name: str) -> None:
    path, shape = path_of(name), (ENDPOINTS[name].takes or fields.Shape)()
    if "format" not in shape.fields:
        assert "colour" in names(refused(api.get(path, colour="red")))
    for field in shape.fields:
        assert field in QUERY_VALUES or field in FREE_TEXT, f"no bad values are known for {field}"
        for value in QUERY_VALUES.get(field, []):
            status = 404 if field == "format" else 400
            found = refused(api.get(path, **{field: value}), status)
            assert field == "format" or field in names(found), (field, value, found)
        if field != "format":
            assert any(told.startswith(field) for told in names(refused(api.get(path, **{field: NUL}))))


NOBODY = (
    "nothing", "0", "R-1", "E-0000000000", "R-000000000U", "01890a5d-ac96-774b-bcce-b302099a80", "%00", "%0a", "..%2f", "é", "-" * 300,
)  # fmt: skip


def test_names_that_nothing_has_are_not_found(api: Api):
    """With everything else right, an id in a wrong form is 404, never an error."""
    for name in (name for name in ENDPOINTS if "<str:" in name and "<str:holder>" not in name and "<str:key>" not in name):
        method, _, where = name.partition(" ")
        for text in NOBODY:
            path = "/" + re.sub("<str:[a-z_]+>", text, where)
            answer = api.get(path) if method == "GET" else api.send(method, path, VALID[name])
            assert (answer.status_code, answer.headers["Content-Type"]) == (404, PROBLEM), (name, text, answer.content)


LEASE = {"lease": "0" * 32}
VALID: dict[str, dict[str, Any]] = {
    "POST runs/<str:run>/cancellation": {"mode": "cancel"},
    "POST runs/<str:run>/heartbeat": LEASE,
    "POST runs/<str:run>/heard": LEASE,
    "POST runs/<str:run>/steps": {**LEASE, "key": "a", "kind": "tool"},
    "POST runs/<str:run>/suspend": {**LEASE, "until": "evidence"},
    "POST runs/<str:run>/stopped": LEASE,
    "POST runs/<str:run>/release": LEASE,
    "POST runs/<str:run>/finish": {**LEASE, "outcome": "completed"},
    "POST runs/<str:run>/effects": effect_body("0" * 32),
    "POST runs/<str:run>/approvals": {**LEASE, "key": "a", "question": "May I?"},
    "POST runs/<str:run>/cleanups": {**LEASE, "key": "a", "handler": "h", "arguments": {}},
    "POST approvals/<str:approval>/decision": {"decision": "approved", "digest": "x"},
    "POST cleanups/<str:cleanup>/heartbeat": LEASE,
    "POST cleanups/<str:cleanup>/finish": {**LEASE, "outcome": "done"},
    "POST effects/<str:operation_id>/begin": {**LEASE, "nonce": "f" * 32},
    "POST effects/<str:operation_id>/outcome": {"attempt": 1, "verdict": "landed"},
    "POST effects/<str:effect>/look": {},
    "POST effects/<str:effect>/case": {},
    "POST effects/<str:effect>/left-in-place": {"reason": "They keep it."},
    "PATCH compensations/<str:compensation>": {"version": 1},
    "POST compensations/<str:compensation>/decision": {"decision": "approved", "version": 1},
    "POST compensations/<str:compensation>/withdrawal": {"reason": "not wanted"},
    "POST cases/<str:case>/claim": {},
    "POST cases/<str:case>/settlement": {"verdict": "happened"},
    "POST cases/<str:case>/confirmation": {"agree": True},
    "POST cases/<str:case>/pass": {"notes": ""},
}


# What is well formed and still wrong


def running() -> tuple[str, str]:
    run = Run.objects.get()
    return str(run.pk), str(run.lease_token)


def test_effects_that_cannot_be_sent_rightly(api: Api):
    run, lease = running()
    for values, status in (
        ({"amount": None}, 400),
        ({"currency": None}, 400),
        ({"provider": "nobody"}, 409),
        ({"send_within_s": 0}, 400),
        ({"answer_within_s": 10_000}, 400),
        ({"occurrence": 0}, 400),
        ({"nonce": "short"}, 400),
        ({"role": "compensation"}, 400),
        ({"if_exists": "maybe"}, 400),
    ):
        found = refused(api.post(f"/runs/{run}/effects", effect_body(lease, ordinal=2, business_ref="PO-9", **values)), status)
        assert set(values) & set(names(found)), found


def test_one_field_too_many_changes_nothing_even_when_all_else_is_right(api: Api):
    run, lease = running()
    good = effect_body(lease, ordinal=2, business_ref="PO-9")
    assert "amonut" in names(refused(api.post(f"/runs/{run}/effects", good | {"amonut": 1})))
    assert "colour" in names(refused(api.post("/cancellations", {"agent": "a", "client_key": "k", "reason": "", "colour": 1})))


def test_the_idempotency_key_is_judged_too(api: Api):
    for key in ("x" * 101, "a\tb"):
        found = refused(api.post("/runs", {"agent": "a", "title": "t"}, **{"Idempotency-Key": key}))
        assert found["field"] == "Idempotency-Key"


# What never reaches a call


def test_other_paths_answer_problem_documents(api: Api):
    for path in ("/api/v1/nothing", "/api/v1/runs/R-1/nothing", "/api/", "/api/v2/runs", "/api/v1/runs/"):
        for answer in (api.client.get(path), api.client.post(path, "{}", content_type="application/json")):
            assert (answer.status_code, answer.headers["Content-Type"]) == (404, PROBLEM), path


def test_a_path_that_does_not_exist_asks_for_no_forms_token(api: Api):
    client = Client(enforce_csrf_checks=True)
    for method in ("post", "put", "patch", "delete", "options", "head"):
        answer = getattr(client, method)("/api/v1/runs/R-1/nothing", headers=api.headers)
        assert (answer.status_code, answer.headers["Content-Type"]) == (404, PROBLEM), method


def test_other_methods_answer_problem_documents(api: Api):
    for method, path in (
        ("put", "/runs"),
        ("delete", "/runs/R-1"),
        ("patch", "/effects"),
        ("get", "/runs/claim"),
        ("get", "/runs/R-1/finish"),
    ):
        answer = getattr(api.client, method)(f"/api/v1{path}", headers=api.headers)
        assert (answer.status_code, answer.headers["Content-Type"]) == (405, PROBLEM), path


def test_other_formats_answer_problem_documents(api: Api):
    answer = api.client.get("/api/v1/runs", headers={**api.headers, "accept": "text/html"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (406, PROBLEM)


def test_tokens_that_are_none_are_refused(api: Api):
    for text in ("Bearer", "Bearer ", "Bearer x", "Basic abc", "Bearer cm_a_b", "Bearer cm__", "Bearer \xff", "Bearer cm_" + "x" * 500):
        answer = api.client.get("/api/v1/runs", headers={"authorization": text})
        assert (answer.status_code, answer.headers["Content-Type"]) == (401, PROBLEM), text


def test_a_mistake_of_ours_shows_no_trace(api: Api, monkeypatch: pytest.MonkeyPatch):
    def break_down(*args: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("runs.queries.find_runs", break_down)
    answer = api.get("/runs")
    assert (answer.status_code, answer.headers["Content-Type"], answer.data["code"]) == (500, PROBLEM, "error")
    assert b"secret" not in answer.content and b"Traceback" not in answer.content


def test_a_webhook_that_is_not_believed_is_not_kept(api: Api):
    for body in (b"", b"{}", b"\xff", b"x" * 300_000):
        answer = api.client.post("/api/v1/webhooks/supplier", body, content_type="application/json", headers={"webhook-id": "w1"})
        assert (answer.status_code, answer.headers["Content-Type"]) == (400, PROBLEM), answer.content
    answer = api.client.post("/api/v1/webhooks/nobody", b"{}", content_type="application/json")
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, PROBLEM)
