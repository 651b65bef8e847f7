"""A person finds out what no look could tell, and later news contradict them: nothing is sent again, and nothing is forgotten."""

import pytest

from tests.flows.driver import Flow, until
from tests.flows.webhooks import news_of_order

SEEN = {"seen_where": "provider_support", "seen_at": "2026-03-02T14:02:07Z"}


def test_lost_down_settled_by_hand_and_contradicted(flow: Flow) -> None:
    """Lost answer, lookups down past the ceiling: one case, one order; a finding settles it; the supplier's own word reopens it."""
    flow.world.control("drop_response", reference="PO-1", times=1)
    flow.world.control("lookup_down")
    flow.host()
    run = flow.start("PO-1")
    flow.wait_status(run, "awaiting_evidence")
    case = until(lambda: flow.get("/cases")["results"], "the grouped case")[0]
    effect = flow.effect(run)
    assert (case["kind"], effect["state"], flow.cases(run)) == ("provider_down", "unknown", [])
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}

    flow.accepted(run)
    opened = flow.support.post(f"/api/v1/effects/{effect['ref']}/case", json={"why": "The customer is on the phone."})
    assert opened.status_code == 201, opened.text
    own = opened.json()["ref"]
    assert flow.support.post(f"/api/v1/cases/{own}/claim", json={}).status_code == 200
    finding = {"verdict": "did_not_happen", "evidence": SEEN}
    settled = flow.support.post(f"/api/v1/cases/{own}/settlement", json=finding)
    assert settled.json()["outcome"] == "settled", settled.text
    lost = flow.wait_effect(run, "absent")
    assert lost["how_we_know"] == "person" and flow.account(run)["final"] is True

    flow.world.control("lookup_down", times=0)
    assert news_of_order(flow, "PO-1").status_code == 200
    flow.wait_effect(run, "conflicted")
    (again,) = until(lambda: [one for one in flow.cases(run) if one["kind"] == "conflicting"], "the case")
    said = flow.effect(run)["sentence"]
    assert "it did not happen" in said and "it happened" in said and "A person must decide." in said
    acts = flow.get(f"/cases/{own}")["acts"]
    assert [one["data"]["verdict"] for one in acts if one["kind"] == "settled"] == ["did_not_happen"], "the earlier finding is still there"
    assert "it did not happen" in flow.support.get(f"/cases/{again['ref']}/").text
    assert flow.run(run)["status"] == "cancelled_unresolved" and flow.account(run)["final"] is False
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}


@pytest.mark.parametrize("control", ["lookup_wrong_object", "lookup_html", "lookup_unauthorized"])
def test_a_lookup_that_says_nothing_moves_nothing(flow: Flow, control: str) -> None:
    """Another object's data, a page of HTML, a refusal of our access: no information, however often."""
    flow.world.control("drop_response", reference="PO-2", times=1)
    flow.world.control(control)
    flow.host()
    run = flow.start("PO-2")
    flow.wait_status(run, "awaiting_evidence")

    def looked() -> list[str]:
        return [one["verdict"] for one in flow.effect(run)["evidence"] if one["source"] == "look"]

    until(lambda: len(looked()) >= 2, "two looks")
    assert set(looked()) == {"unreachable"} and flow.effect(run)["state"] == "unknown"
    flow.world.control(control, times=0)
    flow.wait_status(run, "completed_reconciled")
    assert flow.at_supplier("PO-2") == {"arrivals": 1, "executions": 1}
