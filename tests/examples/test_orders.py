"""The orders of the CSV file and what the agent makes of its input."""

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from examples import make_purchase_orders
from examples.purchase_orders.orders import (
    CSV_PATH,
    BadOrder,
    format_lines,
    parse_lines,
    read_csv,
    supplier_request,
    validate,
)
from examples.purchase_orders.submit import run_body
from examples.supplier.orders import read_order
from ledger.money import exponent


def test_the_file_has_enough_orders_in_enough_currencies() -> None:
    orders = read_csv()
    currencies = Counter(order["currency"] for order in orders)
    assert len(orders) >= 200
    assert len({order["po_number"] for order in orders}) == len(orders)
    assert min(currencies[code] for code in ("EUR", "USD", "GBP", "JPY", "KWD")) >= 10


def test_totals_add_up_exactly_and_the_supplier_would_take_every_order() -> None:
    for order in read_csv():
        total = sum(Decimal(line["unit_price"]) * line["quantity"] for line in order["lines"])
        assert Decimal(order["total"]) == total, order
        assert -int(Decimal(order["total"]).as_tuple().exponent) == exponent(order["currency"]), order
        checked = validate(run_body(order)["input"])
        assert Decimal(checked["total"]).scaleb(-exponent(order["currency"])) == total, order
        body = {"reference": checked["ref"], **supplier_request(checked)}
        assert read_order(json.dumps(body).encode()).total == order["total"]


def test_the_file_is_what_its_maker_makes() -> None:
    made = [{**row, "lines": parse_lines(row["lines"])} for row in make_purchase_orders.rows()]
    assert made == read_csv()


def test_lines_read_back_as_written() -> None:
    text = "BRG-6204-2RS x 12 @ 4.35; NUT-M12-A4 x 10 @ 0.22"
    assert format_lines(parse_lines(text)) == text


@pytest.mark.parametrize("text", ["", "A x 0 @ 1.00", "A x 1 @ -1", "A x 1.5 @ 1", "A x 1 @ 1e3", "A x 1 @ 1;;", "a x 1 @ 1"])
def test_lines_that_cannot_be_read_are_named(text: str) -> None:
    with pytest.raises(BadOrder, match="SKU x quantity @ unit price"):
        parse_lines(text)


def test_a_bad_row_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    head, first, *_ = CSV_PATH.read_text(encoding="utf-8").splitlines()
    path.write_text(f"{head}\n{first}\n{first.replace(' @ ', ' at ', 1)}\n", encoding="utf-8")
    with pytest.raises(BadOrder, match="orders.csv, line 3"):
        read_csv(path)
    path.write_text("po_number,total\n", encoding="utf-8")
    with pytest.raises(BadOrder, match="no column"):
        read_csv(path)


def test_an_order_is_found_by_its_number() -> None:
    order = validate({"po_number": "PO-1003"})
    assert (order["ref"], order["currency"], order["total"]) == ("PO-1003", "KWD", 253450)


GOOD = {
    "po_number": "PO-1", "supplier": "Kugel & Sohn GmbH", "currency": "KWD", "total": "12.550",
    "lines": [{"sku": "A", "quantity": 10, "unit_price": "1.255"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"total": "12.551"}, "add up to 12.550"),
        ({"total": 12.55}, "decimal string"),
        ({"total": "12.5505"}, "more precise"),
        ({"currency": "XYZ"}, "ISO 4217"),
        ({"currency": None}, "currency"),
        ({"lines": []}, "at least one"),
        ({"lines": [{"sku": "A", "quantity": True, "unit_price": "1"}]}, "whole number"),
        ({"po_number": ""}, "po_number"),
    ],
)
def test_a_bad_order_says_what_to_correct(change: dict[str, Any], match: str) -> None:
    assert validate({"order": GOOD})["total"] == 12550
    with pytest.raises(BadOrder, match=match):
        validate({"order": {**GOOD, **change}})


@pytest.mark.parametrize("run_input", [None, {}, [], {"po_number": "PO-0"}, {"po_number": None}, {"order": "PO-1"}, {"order": None}])
def test_an_input_without_an_order_is_refused(run_input: Any) -> None:
    with pytest.raises(BadOrder):
        validate(run_input)
