"""Who may do what, walked: every route, API call and the websocket, as each kind of person, an agent's token and nobody.

When a new route makes this fail, its message says what to add. The samples below only serve to get past what is checked before permission.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import replace
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.contrib.auth.models import User
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client

from console import people, permissions
from console.models import Credential
from console.permissions import KINDS, MACHINE, NO_GROUP, NOBODY, Door, door_of, routes
from ledger import compensations, rulebook
from ledger.models import Compensation
from ledger.prospects import Wanted
from ledger.rulebook import NewTerms
from runs import actors, bulk
from tests import wire
from tests.console.browsing import person
from tests.console.test_pages_approvals import asked
from tests.console.test_pages_cases import conflicting
from tests.makers import ADMIN, SUPPORT, WORKER, new_run, send, tell

pytestmark = pytest.mark.usefixtures("database")

LEASE = "00000000-0000-0000-0000-000000000000"
EVIDENCE = {"external_id": "S-1", "seen_where": "provider_dashboard", "seen_at": "2026-03-02T14:02:07Z"}

# What a POST must carry so that its permission is judged: only where the body is read first.
BODIES: dict[str, dict[str, Any]] = {
    "/api/v1/runs": {"agent": "a", "title": "t"},
    "/api/v1/runs/claim": {"holder": "w-9", "agents": ["nobody"]},
    "/api/v1/runs/<run>/cancellation": {"mode": "cancel"},
    "/api/v1/runs/<run>/heartbeat": {"lease": LEASE},
    "/api/v1/runs/<run>/heard": {"lease": LEASE},
    "/api/v1/runs/<run>/steps": {"lease": LEASE, "key": "k", "kind": "tool"},
    "/api/v1/runs/<run>/steps/<key>/finish": {"lease": LEASE, "outcome": "done"},
    "/api/v1/runs/<run>/suspend": {"lease": LEASE, "until": "evidence"},
    "/api/v1/runs/<run>/stopped": {"lease": LEASE},
    "/api/v1/runs/<run>/release": {"lease": LEASE},
    "/api/v1/runs/<run>/finish": {"lease": LEASE, "outcome": "failed"},
    "/api/v1/runs/<run>/approvals": {"lease": LEASE, "key": "k", "question": "Really?"},
    "/api/v1/runs/<run>/effects": wire.effect_body(LEASE),
    "/api/v1/runs/<run>/cleanups": {"lease": LEASE, "key": "k", "handler": "h", "arguments": {}},
    "/api/v1/effects/<operation_id>/begin": {"lease": LEASE, "nonce": "0f8fad5bd9cb469fa16570867728950e"},
    "/api/v1/effects/<operation_id>/outcome": {"attempt": 1, "verdict": "unknown"},
    "/api/v1/cleanups/claim": {"holder": "w-9", "handlers": ["h"]},
    "/api/v1/cleanups/<cleanup>/heartbeat": {"lease": LEASE},
    "/api/v1/cleanups/<cleanup>/finish": {"lease": LEASE, "outcome": "done"},
    "/api/v1/workers/<holder>/gone": {"how": "exited"},
    "/api/v1/cancellations": {"agent": "a", "client_key": "k", "reason": "r"},
    "/api/v1/cancellations/bulk": {"runs": ["R-0000000000"], "reason": "r"},
    "/api/v1/approvals/<approval>/decision": {"decision": "approved", "digest": "x"},
    "/api/v1/cases/<case>/settlement": {"verdict": "happened", "evidence": EVIDENCE},
    "/api/v1/cases/<case>/confirmation": {"agree": True},
    "/api/v1/cases/<case>/pass": {"notes": "n"},
    "/api/v1/effects/<effect>/left-in-place": {"reason": "r"},
    "/api/v1/compensations": {"effect": "E-0000000000", "amount": 1, "currency": "EUR", "reason": "duplicate"},
    "/api/v1/compensations/<compensation>": {"version": 1, "amount": 1},
    "/api/v1/compensations/<compensation>/decision": {"decision": "approved", "version": 1},
    "/api/v1/compensations/<compensation>/withdrawal": {"reason": "r"},
    "/undo/<ref>/reject": {"comment": "no"},
    "/undo/<ref>/withdraw": {"comment": "no"},
    "/effects/<ref>/undo": {"amount": "1.00", "reason": "duplicate"},
    "/api/v1/occurrences": {"provider": "supplier", "action": "create_order", "business_ref": "PO-7", "reason": "r"},
    "/approvals/<pk>/reject": {"comment": "no"},
}
QUERIES = {"/api/v1/directives": "?runs=R-0000000000:1&wait_s=0", "/bulk/cancel": "?run=R-0000000000"}


def things() -> dict[str, str]:
    """What stands in the place of each parameter of a route: by its name, or by the start of its path and its name."""
    run, token = new_run()
    effect = send(run, token, ref="PO-7").effect
    case = conflicting()
    _, approval = asked()
    job = bulk.request(replace(WORKER, id="walker", name="walker"), "many", names=[run.ref])  # a token reads what itself asked for
    undo = undo_request()
    somebody = User.objects.create(username="somebody", first_name="Some")
    credential, _ = Credential.issue("spare", ["run:read"], ["*"])
    return {
        "/runs/ ref": run.ref,
        "/audit/runs/ ref": run.ref,
        "/effects/ ref": effect.ref,
        "/cases/ ref": case.ref,
        "/cases/ pk": str(uuid.UUID(int=7)),
        "/undo/ ref": undo.ref,
        "compensation": undo.ref,
        "/bulk/ pk": str(job.pk),
        "/approvals/ pk": str(approval.pk),
        "/settings/people/ pk": str(somebody.pk),
        "/settings/machines/ pk": credential.pk,
        "/settings/notifications/ pk": str(uuid.UUID(int=7)),
        "/demo/components/ name": "cancel",
        "verb": "disable",
        "run": run.ref,
        "effect": effect.ref,
        "operation_id": str(effect.pk),
        "case": case.ref,
        "approval": str(approval.pk),
        "job": str(job.pk),
        "key": "order",
        "cleanup": str(uuid.UUID(int=7)),
        "holder": "w-7",
        "provider": "supplier",
        "rest": "nothing",
        "provider_id": "nobody",
        "uidb36": "1",
    }


def undo_request() -> Compensation:
    """An order that landed, and somebody's request to undo it."""
    people_there = [person(name, "Approver") for name in ("Ada", "Ben")]
    assert people_there
    rulebook.change(ADMIN, "supplier", "create_order", "EUR", NewTerms(), "for the walk")
    run, token = new_run()
    sent = send(run, token, ref="PO-8")
    tell(sent, "landed")
    return compensations.request(SUPPORT, sent.effect.pk, Wanted(12500, "EUR", "duplicate"))[0]


def fill(path: str, values: dict[str, str]) -> str:
    """The address of a route with real things in it."""
    if "|" in path:  # the closed pages of allauth are one route
        return "/accounts/email/"

    def value(found: re.Match[str]) -> str:
        name = found[1]
        own = [text for key, text in values.items() if " " in key and path.startswith(key.split(" ")[0]) and key.endswith(f" {name}")]
        assert own or name in values, f"Say what <{name}> is in {path}: a line in things() of tests/console/test_permissions.py."
        return own[0] if own else values[name]

    return re.sub(r"<(\w+)>", value, path)


def client_of(kind: str) -> Client:
    match kind:
        case permissions.NOBODY:
            return Client()
        case permissions.MACHINE:
            found = Credential.objects.filter(name="walker").first()
            token = wire.token(name="walker") if found is None else None
            assert token, "made once for each walk"
            return Client(headers={"authorization": f"Bearer {token}"})
        case permissions.NO_GROUP:
            return person("Nora", "")
    return person(kind, kind)


def ask(client: Client, method: str, path: str, address: str) -> HttpResponse:
    if method == "GET":
        return client.get(address + QUERIES.get(path, ""))
    body = BODIES.get(path, {})
    if method == "PATCH":
        return client.patch(address, body, content_type="application/json")
    return client.post(address, body, content_type="application/json") if path.startswith("/api/") else client.post(address, body)


def denied(response: HttpResponse) -> bool:
    """Refused for who asks: 401, 403, or sent to sign in first."""
    return response.status_code in (401, 403) or response.headers.get("Location", "").startswith("/accounts/login/?next=")


def line_for(method: str, path: str) -> Door:
    door = door_of(method, path)
    helper = {"GET": "_read", "POST": "_act"}.get(method, "Door")
    assert door, (
        f"{method} {path} has no line in console/permissions.py: add to DOORS, for example,"
        f' *{helper}(RUN_READ, "what it is", "{path}"), then run manage.py permissions.'
    )
    return door


ALL = [(method, route.path) for route in routes() for method in route.methods]


@pytest.mark.parametrize(("method", "path"), ALL, ids=[f"{method} {path}" for method, path in ALL])
def test_every_route_has_its_line(method: str, path: str):
    line_for(method, path)


def test_every_line_has_its_route():
    known = {*ALL, ("SOCKET", "/ws/ui/")}
    for door in permissions.DOORS:
        above = door.path.endswith("*") and any(path.startswith(door.path[:-1]) for _, path in known)
        assert (door.method, door.path) in known or above or "webauthn" in door.path, (
            f"{door.method} {door.path} leads nowhere: remove its line."
        )


@pytest.mark.parametrize("kind", KINDS)
def test_every_door_admits_exactly_whom_the_table_says(kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("console.demo.starting.httpx.post", lambda url, **options: httpx.Response(200, request=httpx.Request("POST", url)))
    values = things()
    client = client_of(kind)
    wrong = []
    for method, path in ALL:
        if path.startswith("/accounts/log") and kind not in (NOBODY, MACHINE):
            continue  # signing in and out is its own test, and would end this walk
        door = line_for(method, path)
        response = ask(client, method, path, fill(path, values))
        if denied(response) == door.admits(kind):
            said = response.headers.get("Location") or response.content[:160].decode("utf-8", "replace")
            wrong.append(
                f"{method} {path}: the table says {'yes' if door.admits(kind) else 'no'}, it answered {response.status_code} {said}"
            )
    assert not wrong, (
        f"As {kind}:\n" + "\n".join(wrong) + "\nEither the line in console/permissions.py or the door is wrong; or its body or object is"
        " judged before who asks: then give it a valid one in BODIES or things() of this file."
    )


@pytest.mark.parametrize("kind", KINDS)
async def test_the_websocket_admits_exactly_whom_the_table_says(kind: str):
    from console.asgi import application

    client = await sync_to_async(client_of)(kind)
    cookie = client.cookies["sessionid"].value if "sessionid" in client.cookies else ""
    headers = [(b"host", b"testserver"), (b"origin", b"http://testserver"), (b"cookie", f"sessionid={cookie}".encode())]
    socket = ApplicationCommunicator(application, {"type": "websocket", "path": "/ws/ui/", "headers": headers, "query_string": b""})
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(10))["type"] == "websocket.accept", "accepted first, so that the browser hears the code"
    await socket.send_input({"type": "websocket.receive", "text": '{"type": "watch", "list": "runs", "rows": {}}'})
    heard = await socket.receive_output(10)
    door = door_of("SOCKET", "/ws/ui/")
    assert door is not None and (heard["type"] == "websocket.send") == door.admits(kind), heard
    if not door.admits(kind):
        assert heard["code"] == (4401 if kind in (NOBODY, MACHINE) else 4403)
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(10)


def test_the_written_table_is_current():
    call_command("permissions", check=True)


def test_there_is_no_django_admin():
    assert all("admin" not in path for _, path in ALL)
    assert person("Ash", "Admin").get("/admin/").status_code == 404


def test_a_group_has_the_rights_of_the_table_and_a_superuser_has_none():
    root = User.objects.create_superuser("root")
    assert people.scopes_of(root) == frozenset()
    assert {name for name in KINDS if name not in (NO_GROUP, MACHINE, NOBODY)} == set(people.SCOPES_BY_GROUP)
    assert people.teams_with(actors.APPROVAL_DECIDE) == "Approver"
