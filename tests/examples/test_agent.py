"""The agent's client and its plan against the real supplier: what each answer proves, and what is never sent twice."""

import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from countermand import Landed, NotSent, Op, Refused, Sent
from countermand.clock import now_s
from examples.purchase_orders import agent, situations
from examples.purchase_orders.supplier_client import UnclearAnswer, create_order
from tests.examples.simulator import Simulator

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


class Paper:
    """A run on paper: calls everything in place, as the SDK does when nothing goes wrong, and stops when it is told to."""

    def __init__(self, run_input: Any, ref: str = "R-0000000001") -> None:
        self.input, self.ref, self.cancelled = run_input, ref, threading.Event()
        self.steps: list[str] = []
        self.effect_facts: dict[str, Any] = {}

    def step(self, key: str, fn: Any, *args: Any, **options: Any) -> Any:
        self.steps.append(key)
        return json.loads(json.dumps(fn(self, *args) if fn in (agent.pause, agent.notify) else fn(*args)))

    def effect(self, provider: str, action: str, *, send: Any, **facts: Any) -> Any:
        self.steps.append(facts["key"])
        self.effect_facts = {"provider": provider, "action": action, **facts}
        landed = send(op(facts["ref"]))
        return Sent(external_id=landed.external_id, amount=landed.amount, currency=landed.currency)

    def progress(self, fraction: float, message: str) -> None:
        self.checkpoint()

    def checkpoint(self) -> None:
        if self.cancelled.is_set():
            raise KeyboardInterrupt


@pytest.fixture
def outbox(supplier: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUPPLIER_URL", supplier.url)
    monkeypatch.setenv("PURCHASE_ORDERS_OUTBOX", str(tmp_path))
    return tmp_path


def test_the_plan_checks_orders_and_notifies(supplier: Simulator, outbox: Path) -> None:
    run = Paper({"po_number": "PO-1003", "pause_before_order_s": 0.01})
    result = agent.purchase_order(run)  # type: ignore[arg-type]
    (placed,) = supplier.orders("PO-1003")
    assert run.steps == ["validate", "pause", "order", "notify"]
    assert result == {"supplier_order": placed["id"], "amount": 253450, "currency": "KWD"}
    assert (run.effect_facts["amount"], run.effect_facts["request"]["total"]) == (253450, "253.450")
    assert json.loads((outbox / "R-0000000001.json").read_text())["supplier_order"] == placed["id"]


def test_the_pause_before_the_send_ends_when_the_run_is_cancelled(supplier: Simulator, outbox: Path) -> None:
    run = Paper({"po_number": "PO-1004", "pause_before_order_s": 600})
    run.cancelled.set()
    with pytest.raises(KeyboardInterrupt):
        agent.purchase_order(run)  # type: ignore[arg-type]
    assert supplier.log("PO-1004") == []


@pytest.mark.parametrize("situation", situations.SITUATIONS, ids=lambda situation: situation.key)
def test_every_situation_is_an_order_and_controls_that_the_supplier_takes(supplier: Simulator, situation: situations.Situation) -> None:
    reference = f"PO-D-{situation.key}"
    order = agent.validate(situation.run_input(reference))
    assert order["ref"] == reference
    assert order["total"] < 500_000
    for control in situation.supplier_controls(reference):
        supplier.http.post("/control", json=control).raise_for_status()
    armed = supplier.http.get("/control").json()["armed"]
    assert {control["reference"] for control in armed} <= {reference}
    assert len(armed) == len(situation.controls)


def test_situations_have_keys_of_their_own() -> None:
    assert len(situations.BY_KEY) == len(situations.SITUATIONS)
