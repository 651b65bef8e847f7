"""The calls about approvals, clean-up steps and bulk cancels, as workers and people meet them over HTTP."""

from __future__ import annotations

import uuid

import pytest

from runs import bulk
from tests.wire import PROBLEM, Api, claimed, effect_body, person, sent, worker

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def api() -> Api:
    return worker()


def problem(answer, status: int, code: str) -> dict:
    assert (answer.status_code, answer.headers["Content-Type"], answer.data["code"]) == (status, PROBLEM, code), answer.content
    return answer.data


def asked(api: Api, run: dict, lease: str, **values):
    body = effect_body(lease)
    action = {name: body[name] for name in ("provider", "action", "business_ref", "amount", "currency", "request")}
    return api.post(f"/runs/{run['id']}/approvals", {"lease": lease, "key": "confirm", "question": "Send it?", "action": action, **values})


def test_an_approval_is_asked_decided_and_spent(api: Api):
    run, lease = claimed(api)
    waiting = asked(api, run, lease)
    assert (waiting.status_code, waiting.data["decision"]) == (201, "requested")
    assert api.get(f"/runs/{run['id']}").data["status"] == "awaiting_approval"
    approver = person("Approver")
    assert [line["id"] for line in approver.get("/approvals", state="requested").data["results"]] == [waiting.data["id"]]
    decided = approver.post(f"/approvals/{waiting.data['id']}/decision", {"decision": "approved", "digest": waiting.data["digest"]})
    assert (decided.data["decision"], decided.data["by"]) == ("approved", "Approver")
    again = problem(
        approver.post(f"/approvals/{waiting.data['id']}/decision", {"decision": "approved", "digest": waiting.data["digest"]}),
        409,
        "already_decided",
    )
    assert "Approver" in again["detail"]

    taken = api.post("/runs/claim", {"holder": "w-2", "agents": ["purchase-order"]}).data["lease"]["token"]
    known = asked(api, run, taken)
    assert (known.status_code, known.data["decision"]) == (200, "approved")
    go = sent(api, run, taken, approval=known.data["id"])
    assert go["state"] == "sending"
    assert approver.get("/approvals").data["results"][0]["spent_on"] == go["operation_id"]
    other = api.post(f"/runs/{run['id']}/effects", effect_body(taken, ordinal=2, business_ref="PO-2", approval=known.data["id"]))
    problem(other, 409, "approval_mismatch")


def test_no_token_decides_and_rejecting_needs_a_reason(api: Api):
    run, lease = claimed(api)
    approval = asked(api, run, lease).data
    decide = {"decision": "rejected", "digest": approval["digest"]}
    problem(api.post(f"/approvals/{approval['id']}/decision", decide), 403, "not_allowed")
    problem(person("Support").post(f"/approvals/{approval['id']}/decision", decide), 403, "not_allowed")
    approver = person("Approver")
    assert problem(approver.post(f"/approvals/{approval['id']}/decision", decide), 400, "invalid")["field"] == "comment"
    problem(approver.post(f"/approvals/{uuid.uuid4()}/decision", decide | {"comment": "no"}), 404, "not_found")


def test_clean_up_runs_under_its_own_lease(api: Api):
    run, lease = claimed(api)
    body = {"lease": lease, "key": "release-hold", "handler": "release-hold", "arguments": {"hold": "H-7"}}
    assert api.post(f"/runs/{run['id']}/cleanups", body).status_code == 201
    assert api.post(f"/runs/{run['id']}/cleanups", body).status_code == 200
    problem(api.post(f"/runs/{run['id']}/cleanups", body | {"arguments": {}}), 409, "digest_changed")
    claim = {"holder": "w-1", "handlers": ["release-hold"]}
    assert api.post("/cleanups/claim", claim).status_code == 204
    receipt = api.post(f"/runs/{run['id']}/cancellation", {"mode": "cancel"}).data
    assert [line["key"] for line in receipt["cleanups"]] == ["release-hold"]
    api.post(f"/runs/{run['id']}/stopped", {"lease": lease})

    taken = api.post("/cleanups/claim", claim).data
    assert (taken["cleanup"]["arguments"], taken["cleanup"]["run"]["ref"]) == ({"hold": "H-7"}, run["ref"])
    assert taken["budget"]["calls"] > 0 and taken["budget"]["seconds"] > 0
    item, mine = f"/cleanups/{taken['cleanup']['id']}", {"lease": taken["lease"]["token"]}
    assert api.post(f"{item}/heartbeat", mine).data["directive"] == "continue"
    problem(api.post(f"{item}/heartbeat", {"lease": lease}), 409, "lease_lost")
    assert api.post(f"{item}/finish", {**mine, "outcome": "done"}).data["state"] == "done"
    assert api.get(f"/runs/{run['id']}").data["status"] == "cancelled"
    problem(worker(name="nobody", scopes=[]).post("/cleanups/claim", claim), 403, "not_allowed")


def test_many_are_cancelled_with_an_answer_each(api: Api):
    made = [api.post("/runs", {"agent": "purchase-order", "title": "x"}).data for _ in range(3)]
    support = person("Support")
    job = support.post("/cancellations/bulk", {"runs": [made[0]["id"], made[1]["ref"].lower(), "R-0000000000"], "reason": "Wrong prices."})
    assert (job.status_code, job.data["sums"]["open"], job.data["sums"]["total"]) == (202, 3, 3)
    bulk.work_off()
    done = support.get(f"/cancellations/bulk/{job.data['id']}").data
    assert [line["answer"] for line in done["lines"]] == ["accepted", "accepted", "not_found"]
    assert done["finished_at"] and done["sums"]["accepted"] == 2
    page = support.get(f"/cancellations/bulk/{job.data['id']}", limit=2).data
    assert [line["number"] for line in support.get(f"/cancellations/bulk/{job.data['id']}", after=page["next"]).data["lines"]] == [3]
    by_filter = support.post("/cancellations/bulk", {"filter": {"agent": ["purchase-order"]}, "reason": ""})
    assert [line["run"] for line in by_filter.data["lines"]] == [made[2]["ref"]]
    problem(support.post("/cancellations/bulk", {"filter": {"agent": ["nobody"]}, "reason": ""}), 400, "invalid")
    problem(support.post("/cancellations/bulk", {"reason": ""}), 400, "invalid")
    problem(worker(name="reader", scopes=["run:read"]).get(f"/cancellations/bulk/{job.data['id']}"), 403, "not_allowed")
