"""The permission to send belongs to one call of one process: lost, it is given again to the same nonce, and to nobody else."""

import json
import uuid

import pytest

from tests.flows.driver import Flow
from tests.proxy import Mode

DECLARE = r"POST .*/effects$"


def test_an_answer_in_other_hands_is_no_permission(flow: Flow) -> None:
    proxy = flow.proxy(flow.world.url)
    host = flow.host("sending", COUNTERMAND_URL=proxy.url)
    run = flow.start("PO-1")
    standing = host.stands_at("sending")
    (asked,) = proxy.asked(DECLARE)
    given = json.loads(asked.body)
    effect = flow.effect(run)
    for headers in ({}, {"Idempotency-Key": "the same for both"}):
        stolen = {**given, "nonce": uuid.uuid4().hex}
        answer = flow.world.api.post(f"/runs/{run}/effects", json=stolen, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "in_doubt"), answer.text
        assert answer.json()["operation_id"] == effect["operation_id"] and "send_by" not in answer.json()
        begin = {"lease": given["lease"], "nonce": uuid.uuid4().hex}
        answer = flow.world.api.post(f"/effects/{effect['operation_id']}/begin", json=begin, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (409, "in_doubt"), answer.text
    assert flow.effect(run)["attempts"] == 1
    again = flow.world.api.post(f"/runs/{run}/effects", json=given)
    assert again.status_code == 201 and (again.json()["state"], again.json()["attempt"]) == ("sending", 1)
    standing.release()
    assert flow.wait_status(run, "completed")
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}


@pytest.mark.parametrize("mode", ["lose_response", "drop_request", "http_502", "maintenance_200"])
def test_a_lost_answer_is_asked_for_again_with_the_same_nonce(flow: Flow, mode: Mode) -> None:
    proxy = flow.proxy(flow.world.url)
    proxy.arm(mode, DECLARE)
    flow.host(COUNTERMAND_URL=proxy.url)
    run = flow.start("PO-2")
    assert flow.wait_status(run, "completed")
    asked = proxy.asked(DECLARE)
    assert [one.mode for one in asked] == [mode, "pass"]
    assert asked[0].body == asked[1].body and asked[1].status == 201
    effect = flow.effect(run)
    assert (effect["state"], effect["attempts"]) == ("landed", 1)
    assert flow.kinds(run).count("effect.sending") == 1
    assert flow.at_supplier("PO-2") == {"arrivals": 1, "executions": 1}


@pytest.mark.parametrize("mode", ["lose_response", "drop_request"])
def test_a_lost_answer_to_an_outcome_is_told_again_and_counts_once(flow: Flow, mode: Mode) -> None:
    proxy = flow.proxy(flow.world.url)
    proxy.arm(mode, r"POST .*/outcome$")
    flow.host(COUNTERMAND_URL=proxy.url)
    run = flow.start("PO-3")
    assert flow.wait_status(run, "completed")["landed"] == 1
    assert len(proxy.asked(r"POST .*/outcome$")) == 2
    assert [one["used_as"] for one in flow.effect(run)["evidence"]] == ["applied"]
    assert flow.at_supplier("PO-3") == {"arrivals": 1, "executions": 1}


def test_a_lost_answer_to_a_finish_is_no_second_run(flow: Flow) -> None:
    proxy = flow.proxy(flow.world.url)
    proxy.arm("lose_response", r"POST .*/finish$", times=4)  # three steps and the run
    flow.host(COUNTERMAND_URL=proxy.url)
    run = flow.start("PO-4")
    assert flow.wait_status(run, "completed")
    assert flow.kinds(run).count("run.claimed") == 1 and flow.notes() == [run]
    assert flow.at_supplier("PO-4") == {"arrivals": 1, "executions": 1}
