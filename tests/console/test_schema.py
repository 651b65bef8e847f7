"""The published description of the API: valid, without warnings, complete."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import httpx
from django.core.management import call_command

from console.notifications import states
from console.notifications.telling import Told
from console.notifications.telling import body as message_body
from tests.wire import schema
from tests.world import World


def test_it_is_valid_and_nothing_in_it_had_to_be_guessed(tmp_path: Path):
    call_command("spectacular", validate=True, fail_on_warn=True, file=str(tmp_path / "schema.yml"))


def test_it_describes_the_calls_that_wait_who_may_ask_and_every_refusal():
    assert {"/api/v1/runs/claim", "/api/v1/directives", "/api/v1/webhooks/{provider}"} <= set(schema()["paths"])
    assert schema()["components"]["securitySchemes"]["machine"]["scheme"] == "bearer"
    for path, calls in schema()["paths"].items():
        for method, described in calls.items():
            assert "application/problem+json" in described["responses"]["400"]["content"], (method, path)
            assert described["summary"] and len(described["operationId"]) > 3, (method, path)


def test_it_describes_what_is_sent_to_others():
    told = schema()["webhooks"]["message"]["post"]
    assert [one["name"] for one in told["parameters"]] == ["webhook-id", "webhook-timestamp", "webhook-signature"]
    body = told["requestBody"]["content"]["application/json"]["schema"]["properties"]
    sent = message_body(Told(states.TEST, "says", "R-1", 1, "/"), datetime.now(UTC))
    assert set(body) == set(sent) and set(body["data"]["properties"]) == set(sent["data"])


def test_the_web_process_serves_it_to_who_may_ask(world: World):
    answer = httpx.get(f"{world.url}/api/schema/", headers={"Authorization": f"Bearer {world.token}"}, trust_env=False)
    assert answer.status_code == 200 and "/api/v1/runs/claim" in answer.text
