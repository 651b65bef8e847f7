"""A person finds out what no look could tell, and later news contradict them: nothing is sent again, and nothing is forgotten."""

from tests.flows.driver import Flow, until
from tests.flows.webhooks import news_of_order

SEEN = {"seen_where": "provider_support", "seen_at": "2026-03-02T14:02:07Z"}


def test_lost_down_settled_by_hand_and_contradicted(flow: Flow) -> None:
    """The answer is lost and lookups fail past the ceiling: one case, one order; a finding settles it; the supplier's own word reopens it."""
    flow.world.control("webhook_off", times=0)
    flow.world.control("drop_response", reference="PO-1", times=1)
    flow.world.control("lookup_down")
    flow.host()
    run = flow.start("PO-1")
    flow.wait_status(run, "awaiting_evidence")
    case = until(lambda: flow.get("/cases")["results"], "the grouped case")[0]
    effect = flow.effect(run)
    assert (case["kind"], effect["state"], flow.cases(run)) == ("provider_down", "unknown", [])
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}

    opened = flow.support.post(f"/api/v1/effects/{effect['ref']}/case", json={"why": "The customer is on the phone."})
    assert opened.status_code == 201, opened.text
    own = opened.json()["ref"]
    assert flow.support.post(f"/api/v1/cases/{own}/claim", json={}).status_code == 200
    finding = {"verdict": "did_not_happen", "evidence": SEEN}
    settled = flow.support.post(f"/api/v1/cases/{own}/settlement", json=finding)
    assert settled.json()["outcome"] == "settled", settled.text
    lost = flow.wait_effect(run, "absent")
    assert lost["how_we_know"] == "person"

    flow.world.release()
    assert news_of_order(flow, "PO-1").status_code == 200
    flow.wait_effect(run, "conflicted")
    (again,) = until(lambda: [one for one in flow.cases(run) if one["kind"] == "conflicting"], "the case")
    said = flow.effect(run)["sentence"]
    assert "it did not happen" in said and "it happened" in said and "A person must decide." in said
    acts = flow.get(f"/cases/{own}")["acts"]
    assert [one["data"]["verdict"] for one in acts if one["kind"] == "settled"] == ["did_not_happen"], "the earlier finding is still there"
    page = flow.support.get(f"/cases/{again['ref']}/").text
    assert "It did not happen" in page or "it did not happen" in page
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}
