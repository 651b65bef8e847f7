"""The calls about runs, as a worker and a person meet them over HTTP."""

from __future__ import annotations

import uuid

import pytest

from runs.models import Run
from tests.wire import PROBLEM, Api, claimed, person, sent, worker

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def api() -> Api:
    return worker()


def problem(answer, status: int, code: str) -> dict:
    assert (answer.status_code, answer.headers["Content-Type"], answer.data["code"]) == (status, PROBLEM, code), answer.content
    assert answer.data["status"] == status and answer.data["detail"] and answer.data["title"]
    return answer.data


def test_creating_without_a_claim_answers_the_run(api: Api):
    body = {"agent": "purchase-order", "title": "Order", "business_ref": "PO-1", "input": {"a": [1]}, "plan": ["a", "b"]}
    answer = api.post("/runs", body)
    assert answer.status_code == 201
    assert (answer.data["state"], answer.data["status"], answer.data["business_ref"]) == ("scheduled", "scheduled", "PO-1")
    assert answer.data["input"] == {"a": [1]}


def test_creating_with_a_claim_answers_the_lease(api: Api):
    answer = api.post("/runs", {"agent": "purchase-order", "title": "Order", "claim": {"holder": "w-1", "ttl_s": 12}})
    assert answer.status_code == 201
    assert answer.data["lease"]["epoch"] == 1 and answer.data["lease"]["expires_in_s"] == 12
    assert answer.data["run"]["lease"]["holder"] == "w-1"
    assert "token" not in answer.data["run"]["lease"]


def test_the_same_client_key_gives_the_same_run_and_never_a_lease(api: Api):
    body = {"agent": "purchase-order", "title": "Order", "client_key": "k-1", "claim": {"holder": "w-1"}}
    first = api.post("/runs", body)
    again = api.post("/runs", body)
    assert again.status_code == 200
    assert again.data["id"] == first.data["run"]["id"]
    assert "token" not in str(again.data)
    problem(api.post("/runs", body | {"title": "Another"}), 409, "client_key_reused")


def test_an_idempotency_key_serves_where_no_client_key_does(api: Api):
    body = {"agent": "purchase-order", "title": "Order"}
    first = api.post("/runs", body, **{"Idempotency-Key": "once"})
    assert api.post("/runs", body, **{"Idempotency-Key": "once"}).data["id"] == first.data["id"]
    assert api.post("/runs", body, **{"Idempotency-Key": "twice"}).data["id"] != first.data["id"]
    other = worker(name="others")
    assert other.post("/runs", body, **{"Idempotency-Key": "once"}).data["id"] != first.data["id"]
    assert problem(api.post("/runs", body | {"client_key": "key:x"}), 400, "invalid")["field"] == "client_key"


def test_a_run_is_found_by_id_and_reference_in_any_form(api: Api):
    made = api.post("/runs", {"agent": "purchase-order", "title": "Order"}).data
    for text in (made["id"], made["ref"]):
        for form in (text, text.upper(), text.lower(), text.replace("-", "")):
            assert api.get(f"/runs/{form}").data["id"] == made["id"]
    for text in ("R-0000000000", "R-1", "E" + made["ref"][1:], str(uuid.uuid4()), "nothing", "0"):
        problem(api.get(f"/runs/{text}"), 404, "not_found")


def test_steps_progress_and_finish(api: Api):
    run, lease = claimed(api)
    path = f"/runs/{run['id']}"
    body = {"lease": lease, "key": "validate", "kind": "tool", "hears_cancel_every_s": 5}
    assert api.post(f"{path}/steps", body).status_code == 201
    beat = api.post(f"{path}/heartbeat", {"lease": lease, "steps": [{"key": "validate", "progress": 0.4, "message": "40 of 100"}]})
    assert (beat.data["directive"], beat.data["lease_expires_in_s"]) == ("continue", 30)
    done = api.post(f"{path}/steps/validate/finish", {"lease": lease, "outcome": "done", "result": {"ok": True}, "cost": {"micros": 12}})
    assert done.data == {"recorded": "done", "directive": "continue"}
    again = api.post(f"{path}/steps", body)
    assert (again.status_code, again.data["result"]) == (200, {"ok": True})
    problem(api.post(f"{path}/steps", {**body, "lease": "f" * 32}), 409, "lease_lost")
    ended = api.post(f"{path}/finish", {"lease": lease, "outcome": "completed", "result": 7})
    assert (ended.data["status"], api.get(path).data["result"]) == ("completed", 7)


def test_what_model_calls_cost_is_summed_whatever_a_plan_says_of_it(api: Api):
    run, lease = claimed(api)
    for key in ("plan", "check"):
        api.post(f"/runs/{run['id']}/steps", {"lease": lease, "key": key, "kind": "model_call"})
        body = {"lease": lease, "outcome": "done", "cost": {"currency": "EUR", "micros": 1200, "cached": True}}
        assert api.post(f"/runs/{run['id']}/steps/{key}/finish", body).data["recorded"] == "done"
    cost = api.get(f"/runs/{run['id']}/account").data["cost"]["before_cancel"]
    assert cost == {"currency": "EUR", "micros": 2400, "cached": True}


def test_a_claim_hands_over_finished_steps_and_effects(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    api.post(f"/effects/{go['operation_id']}/outcome", {"attempt": 1, "verdict": "landed", "external_id": "S-1"})
    api.post(f"/runs/{run['id']}/steps/order/finish", {"lease": lease, "outcome": "done", "result": {"order": "S-1"}})
    assert api.post(f"/runs/{run['id']}/release", {"lease": lease}).data["state"] == "scheduled"
    from runs import api as calls
    from tests.makers import WORKER

    taken = calls.claim(WORKER, given={"holder": "w-2", "agents": ["purchase-order"]})
    assert taken.status == 200 and taken.body
    assert [(step["key"], step["result"]) for step in taken.body["steps"]] == [("order", {"order": "S-1"})]
    assert [(effect["operation_id"], effect["state"]) for effect in taken.body["effects"]] == [(go["operation_id"], "landed")]
    assert taken.body["lease"]["epoch"] == 2


def test_suspend_wakes_at_once_when_the_condition_is_met(api: Api):
    run, lease = claimed(api)
    answer = api.post(f"/runs/{run['id']}/suspend", {"lease": lease, "until": "evidence"})
    assert (answer.data["state"], answer.data["waits_for"]) == ("scheduled", None)


def test_the_life_of_a_cancel(api: Api):
    run, lease = claimed(api, plan=["order", "notify"])
    path = f"/runs/{run['id']}"
    go = sent(api, run, lease)
    support = person("Support")
    seen = support.get(f"{path}/cancellation").data
    assert [line["operation_id"] for line in seen["in_flight"]] == [go["operation_id"]]
    accepted = support.post(f"{path}/cancellation", {"mode": "cancel", "reason": "Wrong order.", "seen": run["version"]})
    assert accepted.status_code == 202
    assert [(line["operation_id"], line["attempt"]) for line in accepted.data["in_flight"]] == [(go["operation_id"], 1)]
    assert [line["step"] for line in accepted.data["not_started"]] == ["notify"]

    beat = api.post(f"{path}/heartbeat", {"lease": lease})
    told = beat.data["cancel"]
    assert (beat.data["directive"], told["by"]["name"], told["reason"]) == ("cancel", "Support", "Wrong order.")
    refused = problem(api.post(f"{path}/steps", {"lease": lease, "key": "notify", "kind": "tool"}), 409, "cancelled")
    assert refused["position"] == accepted.data["position"]
    assert api.post(f"{path}/heard", {"lease": lease}).data["state"] == "cancelling"
    api.post(f"/effects/{go['operation_id']}/outcome", {"attempt": 1, "verdict": "landed", "external_id": "S-1"})
    assert api.post(f"{path}/stopped", {"lease": lease}).data["status"] == "cancelled"

    repeated = support.post(f"{path}/cancellation", {"mode": "cancel"})
    assert (repeated.status_code, repeated.data) == (200, accepted.data)
    shown = support.get(path).data
    assert (shown["quiet_basis"], shown["cancel"]["position"], shown["refused_after_cancel"]) == ("stopped", accepted.data["position"], 1)
    kinds = [event["kind"] for event in support.get(f"{path}/events").data["results"]]
    assert "cancel.accepted" in kinds and "run.cancelled" in kinds


def test_a_cancel_that_comes_too_late_gets_the_final_word(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    api.post(f"/effects/{go['operation_id']}/outcome", {"attempt": 1, "verdict": "landed", "external_id": "S-1"})
    api.post(f"/runs/{run['id']}/finish", {"lease": lease, "outcome": "completed", "result": {"order": "S-1"}})
    late = problem(api.post(f"/runs/{run['id']}/cancellation", {"mode": "cancel"}), 409, "already_closed")
    assert (late["state"], late["result"], late["open_children"]) == ("completed", {"order": "S-1"}, [])
    assert [line["external_id"] for line in late["landed"]] == ["S-1"]


def test_terminate_is_for_people_who_saw_the_preview(api: Api):
    run, _ = claimed(api)
    path = f"/runs/{run['id']}/cancellation"
    problem(api.post(path, {"mode": "terminate", "reason": "now", "plan_digest": "x"}), 403, "not_allowed")
    support = person("Support")
    assert problem(support.post(path, {"mode": "terminate", "plan_digest": "x"}), 400, "invalid")["field"] == "reason"
    assert problem(support.post(path, {"mode": "terminate", "reason": "now"}), 400, "invalid")["field"] == "plan_digest"
    problem(support.post(path, {"mode": "terminate", "reason": "now", "plan_digest": "stale"}), 409, "plan_changed")
    digest = support.get(path).data["plan_digest"]
    assert support.post(path, {"mode": "terminate", "reason": "now", "plan_digest": digest}).status_code == 202
    assert support.get(f"/runs/{run['id']}").data["status"] == "terminated"


def test_a_cancel_may_come_before_its_run(api: Api):
    stored = api.post("/cancellations", {"agent": "purchase-order", "client_key": "k-9", "reason": "Import was wrong."})
    assert (stored.status_code, stored.data["stored"]) == (202, True)
    made = api.post("/runs", {"agent": "purchase-order", "title": "Order", "client_key": "k-9", "claim": {"holder": "w-1"}})
    assert (made.status_code, made.data["status"]) == (201, "cancelled")
    again = api.post("/cancellations", {"agent": "purchase-order", "client_key": "k-9", "reason": ""})
    assert (again.status_code, again.data["run"]) == (200, made.data["ref"])


def test_a_reaped_process_is_believed_only_from_the_credential_that_claimed(api: Api):
    run, _ = claimed(api)
    assert worker(name="stranger").post("/workers/w-1/gone", {"how": "exit 0"}).data == {"runs": []}
    assert api.post("/workers/w-1/gone", {"how": "killed by SIGKILL"}).data == {"runs": [run["ref"]]}
    assert Run.objects.get(pk=run["id"]).state == "scheduled"


def test_a_child_is_created_under_its_parents_lease(api: Api):
    run, lease = claimed(api)
    parent = {"run": run["ref"], "lease": lease}
    child = api.post("/runs", {"agent": "sub-agent", "title": "Child", "parent": parent})
    assert (child.status_code, child.data["parent"], child.data["root"]) == (201, run["id"], run["id"])
    problem(api.post("/runs", {"agent": "sub-agent", "title": "Child", "parent": parent | {"lease": "0" * 32}}), 409, "lease_lost")


# Who may


def test_without_a_token_or_with_a_bad_one():
    answer = Api().get("/runs")
    problem(answer, 401, "not_allowed")
    assert "Bearer" in answer.headers["WWW-Authenticate"]
    problem(Api("cm_0000000000_nonsense").get("/runs"), 401, "not_allowed")


def test_a_token_works_for_its_own_agents_only(api: Api):
    run, lease = claimed(api)
    other = worker(name="other", agents=["refunds"])
    for path, body in (
        ("/runs", {"agent": "purchase-order", "title": "x"}),
        (f"/runs/{run['id']}/steps", {"lease": lease, "key": "a", "kind": "tool"}),
        (f"/runs/{run['id']}/heartbeat", {"lease": lease}),
        (f"/runs/{run['id']}/stopped", {"lease": lease}),
        (f"/runs/{run['id']}/finish", {"lease": lease, "outcome": "completed"}),
        (f"/runs/{run['id']}/cancellation", {"mode": "cancel"}),
    ):
        problem(other.post(path, body), 403, "not_allowed")
    problem(other.get(f"/runs/{run['id']}"), 403, "not_allowed")
    assert other.get("/runs").data["results"] == []
    assert [line["id"] for line in api.get("/runs").data["results"]] == [run["id"]]


def test_scopes_are_what_they_say(api: Api):
    run, lease = claimed(api)
    reader = worker(name="reader", scopes=["run:read"])
    assert reader.get(f"/runs/{run['id']}").status_code == 200
    problem(reader.post(f"/runs/{run['id']}/cancellation", {"mode": "cancel"}), 403, "not_allowed")
    problem(reader.post(f"/runs/{run['id']}/steps", {"lease": lease, "key": "a", "kind": "tool"}), 403, "not_allowed")
    auditor = person("Auditor")
    problem(auditor.post(f"/runs/{run['id']}/cancellation", {"mode": "cancel"}), 403, "not_allowed")
    nobody = worker(name="nobody", scopes=[])
    problem(nobody.get("/runs"), 403, "not_allowed")


def test_a_session_needs_the_csrf_header(api: Api):
    from django.test import Client

    run, _ = claimed(api)
    signed_in = person("Support").client
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = signed_in.cookies
    problem(Api(client=strict).post(f"/runs/{run['id']}/cancellation", {"mode": "cancel"}), 403, "not_allowed")
    assert Run.objects.get(pk=run["id"]).cancel_position is None


# Lists


def refs(page) -> list[str]:
    return [line["business_ref"] for line in page.data["results"]]


def test_pages_go_there_and_back(api: Api):
    for n in range(7):
        api.post("/runs", {"agent": "purchase-order", "title": "Order", "business_ref": f"PO-{n}"})
    first = api.get("/runs", limit=3)
    assert refs(first) == ["PO-6", "PO-5", "PO-4"] and first.data["previous"] is None
    second = api.get("/runs", limit=3, cursor=first.data["next"])
    assert refs(second) == ["PO-3", "PO-2", "PO-1"]
    last = api.get("/runs", limit=3, cursor=second.data["next"])
    assert refs(last) == ["PO-0"] and last.data["next"] is None
    assert refs(api.get("/runs", limit=3, cursor=last.data["previous"])) == ["PO-3", "PO-2", "PO-1"]
    back = api.get("/runs", limit=3, cursor=second.data["previous"])
    assert refs(back) == ["PO-6", "PO-5", "PO-4"] and back.data["previous"] is None


def test_filters_narrow_the_list(api: Api):
    one, lease = claimed(api, business_ref="PO-11")
    other = api.post("/runs", {"agent": "refunds", "title": "Refund", "business_ref": "RF-1"}).data
    go = sent(api, one, lease)
    api.post(f"/effects/{go['operation_id']}/outcome", {"attempt": 1, "verdict": "landed", "external_id": "S-77"})
    support = person("Support")
    support.post(f"/runs/{other['id']}/cancellation", {"mode": "cancel"})

    def found(**query) -> list[str]:
        return refs(support.get("/runs", **query))

    assert found(status="cancelled") == ["RF-1"]
    assert found(status=["running", "cancelled"]) == found(status="running,cancelled") == ["RF-1", "PO-11"]
    assert found(agent="refunds") == ["RF-1"]
    assert found(business_ref="PO-11") == ["PO-11"] and found(business_ref="PO-1") == []
    assert found(q="PO-1") == ["PO-11"] and found(q="po-1") == []
    assert found(q=one["ref"].lower()) == found(q=one["id"]) == ["PO-11"]
    assert found(q="S-77") == found(q=go["ref"]) == found(q=go["operation_id"]) == ["PO-11"]
    assert found(cancelled_by="me") == found(cancelled_by="support") == ["RF-1"] and found(cancelled_by="nobody") == []
    assert found(started_from="2020-01-01") == ["PO-11"] and found(started_to="2020-01-01T00:00:00Z") == []


def test_events_go_on_from_where_they_were_read(api: Api):
    run, lease = claimed(api)
    for n in range(5):
        api.post(f"/runs/{run['id']}/steps", {"lease": lease, "key": f"s{n}", "kind": "tool"})
    first = api.get(f"/runs/{run['ref']}/events", limit=4).data
    assert [event["seq"] for event in first["results"]] == [1, 2, 3, 4]
    rest = api.get(f"/runs/{run['ref']}/events", after=first["next"], limit=4).data
    assert [event["seq"] for event in rest["results"]] == [5, 6, 7] and rest["next"] is None
