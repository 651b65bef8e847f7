"""Signed events through the real inbox: before the answer, twice, and in the wrong order. They tell; they never decide a send."""

import httpx

from reconciliation.models import WebhookEvent
from tests.flows.driver import Flow, until
from tests.flows.webhooks import news_of_order, orders, send


def used(flow: Flow, run: str) -> list[tuple[str, str, str]]:
    return [(one["source"], one["verdict"], one["used_as"]) for one in flow.effect(run)["evidence"]]


def test_the_suppliers_own_event_overtakes_its_answer(flow: Flow) -> None:
    flow.world.control("webhook_off", times=0)
    flow.hold("after_accept", "PO-1")
    flow.host()
    run = flow.start("PO-1")
    effect = flow.wait_effect(run, "landed")
    assert effect["how_we_know"] == "webhook" and flow.run(run)["status"] == "running"
    flow.world.release(reference="PO-1")
    assert flow.wait_status(run, "completed")["settlement"] == "clear"
    assert used(flow, run) == [("webhook", "landed", "applied"), ("sender", "landed", "agrees")]
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}
    assert [entry["detail"]["answer"] for entry in flow.world.supplier_log(kind="webhook")] == ["200"]


def test_an_event_that_comes_twice_is_used_once(flow: Flow) -> None:
    flow.host()
    run = flow.start("PO-2")
    flow.wait_status(run, "completed")
    version = flow.run(run)["version"]
    for _ in range(3):
        assert news_of_order(flow, "PO-2", event_id="evt_once").status_code == 200
    until(lambda: len(used(flow, run)) > 1, "the event to be used")
    assert news_of_order(flow, "PO-2", event_id="evt_another").status_code == 200
    until(lambda: len(used(flow, run)) > 2, "the other event to be used")
    assert news_of_order(flow, "PO-2", event_id="evt_once").status_code == 200
    assert used(flow, run) == [("sender", "landed", "applied"), ("webhook", "landed", "agrees"), ("webhook", "landed", "agrees")]
    assert (flow.run(run)["status"], flow.run(run)["version"]) == ("completed", version)
    assert flow.get("/cases")["results"] == []


def test_stored_and_then_everything_dies_before_it_is_used(flow: Flow) -> None:
    """What was answered 200 is used after the restart: the row is the queue."""
    flow.hold("after_accept", "PO-5")
    flow.host()
    run = flow.start("PO-5")
    flow.wait_log("PO-5", "held")
    flow.shaken.update(("web", "celery", "beat"))
    flow.world.kill("celery")
    flow.world.kill("beat")
    assert news_of_order(flow, "PO-5").status_code == 200
    flow.world.kill("web")
    assert WebhookEvent.objects.get().processed_at is None
    for name in ("web", "celery", "beat"):
        flow.world.start(name)
    effect = flow.wait_effect(run, "landed")
    assert effect["how_we_know"] == "webhook"
    flow.world.release(reference="PO-5")
    flow.wait_status(run, "completed", "completed_reconciled")
    assert flow.at_supplier("PO-5") == {"arrivals": 1, "executions": 1}


def test_the_cancellation_is_told_before_the_order(flow: Flow) -> None:
    flow.host()
    run = flow.start("PO-3")
    flow.wait_status(run, "completed")
    (accepted,) = orders(flow, "PO-3")
    flow.world.supplier.post(f"/orders/{accepted['id']}/cancellation", json={"reason": "out of stock"}).raise_for_status()
    assert news_of_order(flow, "PO-3", kind="order.cancelled").status_code == 200
    effect = flow.wait_effect(run, "reversed")
    assert effect["sentence"].startswith("Undone by Supplier. This order had landed; Supplier undid it at ")
    assert send(flow, {"type": "order.accepted", "timestamp": accepted["accepted_at"], "data": accepted}).status_code == 200
    until(lambda: len(used(flow, run)) == 3, "the older event to be used")
    assert used(flow, run)[-1] == ("webhook", "landed", "late_evidence")
    assert flow.effect(run)["state"] == "reversed" and flow.get("/cases")["results"] == []
    assert "It is not in effect now." in flow.effect(run)["sentence"]


def test_an_event_about_nothing_of_ours_is_an_orphan_and_one_that_nobody_signed_is_nothing(flow: Flow) -> None:
    flow.world.supplier.post(
        "/orders",
        json={"reference": "PO-4", "currency": "EUR", "total": "1.00", "lines": [{"sku": "A", "quantity": 1, "unit_price": "1.00"}]},
        headers={"Idempotency-Key": "somebody else's"},
    ).raise_for_status()
    forged = httpx.post(f"{flow.world.url}/api/v1/webhooks/supplier", json={"type": "order.accepted"}, trust_env=False)
    assert forged.status_code == 400 and forged.json()["code"] == "invalid"
    assert news_of_order(flow, "PO-4").status_code == 200
    case = until(lambda: flow.get("/cases")["results"], "the orphan")[0]
    assert (case["kind"], case["run"], case["business_ref"]) == ("orphan", None, "PO-4")
