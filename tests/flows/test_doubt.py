"""While nobody knows whether an order happened, a new run for it sends nothing."""

from __future__ import annotations

from tests.flows.driver import Flow


def test_cancelled_and_at_once_started_again_while_the_first_is_unknown(flow: Flow) -> None:
    """The second run for the same order waits for the first one's doubt, and then is told that it has happened: one order."""
    flow.world.control("drop_response", reference="PO-1", times=1)
    flow.world.control("lookup_down", reference="PO-1")
    flow.host()
    first = flow.start("PO-1")
    flow.wait_effect(first, "unknown")
    flow.accepted(first)
    second = flow.start("PO-1")
    flow.wait_status(second, "awaiting_evidence")
    assert flow.effects(second) == []
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}
    flow.world.control("lookup_down", reference="PO-1", times=0)
    flow.wait_status(first, "cancelled_reconciled")
    refused = flow.wait_status(second, "failed")
    assert flow.effect(first)["ref"] in refused["error"], refused["error"]
    assert flow.effects(second) == []
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}
