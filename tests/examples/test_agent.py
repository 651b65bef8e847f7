"""The agent's client and its plan against the real supplier: what each answer proves, and what is never sent twice."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from countermand import Landed, NotSent, Op, Refused
from countermand.clock import now_s
from examples.purchase_orders import agent, situations
from examples.purchase_orders.supplier_client import UnclearAnswer, create_order
from tests.examples.simulator import ROOT, Simulator
from tests.sdk.double import Double, serving

REQUEST = {"currency": "KWD", "total": "12.550", "lines": [{"sku": "A", "quantity": 10, "unit_price": "1.255"}]}


def op(reference: str, *, seconds: float = 60) -> Op:
    return Op(
        key=f"op-{reference}", operation_id=f"op-{reference}", attempt=1, reference=reference, provider="supplier",
        action="create_order", business_ref=reference, occurrence=1, amount=12550, currency="KWD", request=REQUEST,
        answer_within_s=30, open_until_s=now_s() + seconds,
    )  # fmt: skip


def test_a_clear_yes_carries_the_suppliers_id_and_exact_amount(supplier: Simulator) -> None:
    landed = create_order(supplier.url, op("PO-1"), REQUEST)
    (placed,) = supplier.orders("PO-1")
    assert landed == Landed(external_id=placed["id"], amount=12550, currency="KWD", response=placed)
    assert (placed["idempotency_key"], supplier.log("PO-1", "arrival")[0]["attempt"]) == ("op-PO-1", "1")


def test_a_definite_no_is_refused(supplier: Simulator) -> None:
    supplier.control("refuse", reference="PO-2")
    with pytest.raises(Refused) as refused:
        create_order(supplier.url, op("PO-2"), REQUEST)
    assert refused.value.response["code"] == "refused"


def test_no_connection_and_a_closed_window_are_not_sent(supplier: Simulator) -> None:
    with pytest.raises(NotSent):
        create_order("http://127.0.0.1:1", op("PO-3"), REQUEST)
    with pytest.raises(NotSent):
        create_order(supplier.url, op("PO-3", seconds=-1), REQUEST)
    assert supplier.log("PO-3") == []


@pytest.mark.parametrize(
    ("point", "settings", "raises"),
    [
        ("drop_response", {}, httpx.RemoteProtocolError),
        ("http_502", {}, httpx.HTTPStatusError),
        ("maintenance_200", {}, UnclearAnswer),
        ("before_accept", {"until_released": True}, httpx.ReadTimeout),
        ("after_accept", {"until_released": True}, httpx.ReadTimeout),
    ],
)
def test_everything_else_is_nobodys_knowledge_and_sent_once(
    supplier: Simulator, point: str, settings: dict[str, Any], raises: type[Exception]
) -> None:
    supplier.control(point, reference=f"PO-4-{point}", **settings)
    with pytest.raises(raises):
        create_order(supplier.url, op(f"PO-4-{point}"), REQUEST, answer_timeout_s=0.5)
    assert len(supplier.log(f"PO-4-{point}", "arrival")) == 1


@pytest.fixture
def worker(supplier: Simulator, tmp_path: Path) -> Iterator[Double]:
    """`python -m examples.purchase_orders` as its own process, between a scripted control plane and the real supplier."""
    with serving() as plane:
        told = {"COUNTERMAND_URL": plane.url, "COUNTERMAND_TOKEN": "cm_test_secret", "COUNTERMAND_SPOOL": str(tmp_path / "spool")}
        ours = {"SUPPLIER_URL": supplier.url, "PURCHASE_ORDERS_OUTBOX": str(tmp_path)}
        process = subprocess.Popen([sys.executable, "-m", "examples.purchase_orders"], cwd=ROOT, env={**os.environ, **told, **ours})
        try:
            yield plane
        finally:
            process.terminate()
            assert process.wait(20) == 0


def test_the_worker_checks_orders_and_notifies(supplier: Simulator, worker: Double, tmp_path: Path) -> None:
    run = worker.add(agent.AGENT, po_number="PO-1003", pause_before_order_s=0.01)
    worker.wait_for(lambda: run.state == "completed")
    (placed,) = supplier.orders("PO-1003")
    assert [body["key"] for body in worker.bodies("/steps")] == ["validate", "pause", "order", "notify"]
    assert run.result == {"supplier_order": placed["id"], "amount": 253450, "currency": "KWD"}
    assert placed["idempotency_key"] in run.effects
    (asked,) = worker.bodies("/effects")
    assert (asked["amount"], asked["currency"], asked["request"]["total"]) == (253450, "KWD", "253.450")
    assert json.loads((tmp_path / f"{run.shape()['ref']}.json").read_text())["supplier_order"] == placed["id"]


def test_an_order_that_does_not_add_up_is_never_sent(supplier: Simulator, worker: Double) -> None:
    order = {**situations.BY_KEY["plain"].run_input("PO-5")["order"], "total": "124.21"}
    run = worker.add(agent.AGENT, order=order)
    worker.wait_for(lambda: run.state == "failed")
    assert "add up to 124.20, not 124.21" in json.dumps(run.error)
    assert worker.bodies("/effects") == [] and supplier.log("PO-5") == []


def test_the_pause_before_the_send_ends_when_the_run_is_cancelled(supplier: Simulator, worker: Double) -> None:
    run = worker.add(agent.AGENT, po_number="PO-1004", pause_before_order_s=600)
    worker.wait_for(lambda: "pause" in run.steps)
    worker.cancel(run)
    worker.wait_for(lambda: worker.bodies(f"/runs/{run.id}/stopped"))
    assert worker.bodies("/effects") == [] and supplier.log("PO-1004") == []


def test_a_lost_answer_is_reported_as_unknown_and_the_run_waits(supplier: Simulator, worker: Double) -> None:
    situation = situations.BY_KEY["answer_lost"]
    for control in situation.supplier_controls("PO-6"):
        supplier.http.post("/control", json=control).raise_for_status()
    run = worker.add(agent.AGENT, **situation.run_input("PO-6"))
    worker.wait_for(lambda: run.state == "awaiting_evidence")
    assert [body["verdict"] for body in worker.bodies("/outcome")] == ["unknown"]
    assert len(supplier.log("PO-6", "arrival")) == 1


def test_a_large_order_is_asked_for_and_sent_as_it_was_approved(supplier: Simulator, worker: Double) -> None:
    run = worker.add(agent.AGENT, **situations.BY_KEY["needs_approval"].run_input("PO-7"))
    worker.wait_for(lambda: run.state == "awaiting_approval")
    (asked,) = worker.bodies("/approvals")
    assert asked["question"] == "Send PO-7 over 6106.00 EUR to Kugel & Sohn GmbH?"
    worker.approvals["confirm"] = {"decision": "approved", "id": "A-1"}
    with worker.changed:
        run.state, run.waits = "scheduled", None
        worker.changed.notify_all()
    worker.wait_for(lambda: run.state == "completed")
    (sent,) = worker.bodies("/effects")
    assert sent["approval"] == "A-1"
    assert {name: sent[name] for name in asked["action"]} == asked["action"]


@pytest.mark.parametrize("situation", situations.SITUATIONS, ids=lambda situation: situation.key)
def test_every_situation_is_an_order_and_controls_that_the_supplier_takes(supplier: Simulator, situation: situations.Situation) -> None:
    reference = f"PO-D-{situation.key}"
    order = agent.validate(situation.run_input(reference))
    assert order["ref"] == reference
    assert (order["total"] > 500_000) == (situation.key == "needs_approval")
    for control in situation.supplier_controls(reference):
        supplier.http.post("/control", json=control).raise_for_status()
    armed = supplier.http.get("/control").json()["armed"]
    assert {control["reference"] for control in armed} <= {reference}
    assert len(armed) == len(situation.controls)


def test_situations_have_keys_of_their_own() -> None:
    assert len(situations.BY_KEY) == len(situations.SITUATIONS)
