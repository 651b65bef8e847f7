"""Money from an order's text to the supplier's wire, the ledger and the screen, in currencies with no, two and three decimals."""

from __future__ import annotations

import pytest

from tests.flows.driver import Flow


@pytest.mark.parametrize(
    ("currency", "total", "minor", "shown"),
    [("JPY", "4800", 4800, "¥4,800 JPY"), ("KWD", "1.255", 1255, "1.255 KWD"), ("EUR", "0.29", 29, "€0.29 EUR")],
)
def test_amounts_come_through_unchanged(flow: Flow, currency: str, total: str, minor: int, shown: str) -> None:
    flow.host()
    line = {"sku": "SEAL-1", "quantity": 1, "unit_price": total}
    order = {"po_number": "PO-1", "supplier": "Gulf Valves", "currency": currency, "total": total, "lines": [line]}
    run = flow.start("PO-1", order=order)
    flow.wait_status(run, "completed")
    (placed,) = flow.world.supplier.get("/orders", params={"reference": "PO-1"}).json()["orders"]
    assert (placed["total"], placed["currency"]) == (total, currency)
    effect = flow.effect(run)
    assert (effect["amount"], effect["landed_amount"], effect["currency"]) == (minor, minor, currency)
    assert shown in flow.page(run)


@pytest.mark.parametrize("total", ["1.2555", "1e3", "NaN", "-1.000"])
def test_what_is_no_exact_amount_is_sent_nowhere(flow: Flow, total: str) -> None:
    flow.host()
    line = {"sku": "SEAL-1", "quantity": 1, "unit_price": total}
    order = {"po_number": "PO-1", "supplier": "Gulf Valves", "currency": "KWD", "total": total, "lines": [line]}
    run = flow.start("PO-1", order=order)
    flow.wait_status(run, "failed")
    assert flow.effects(run) == [] and flow.world.supplier_log(reference="PO-1") == []
