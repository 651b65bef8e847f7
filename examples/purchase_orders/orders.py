"""Purchase orders as the agent reads them: from the CSV file or from a run's input, checked before anything is sent."""

import csv
import re
from pathlib import Path
from typing import Any

from examples.money import BadAmount, decimal_text, minor_units

CSV_PATH = Path(__file__).resolve().parent.parent / "purchase_orders.csv"
COLUMNS = ("po_number", "ordered_on", "supplier", "delivery_site", "requested_by", "currency", "lines", "total")
OPTIONS = {"pause_before_order_s", "pause_before_notify_s", "line_down_s", "answer_timeout_s", "declare_first"}
_LINE = re.compile(r"(?P<sku>[A-Z0-9][A-Z0-9./-]*) x (?P<quantity>[1-9]\d{0,6}) @ (?P<unit_price>\d+(\.\d+)?)", re.ASCII)


class BadOrder(ValueError):
    """The order cannot be sent as it stands; the message says what to correct."""


def parse_lines(text: str) -> list[dict[str, Any]]:
    """`BRG-6204-2RS x 12 @ 4.35; NUT-M12-A4 x 10 @ 0.22` as lines; BadOrder names the one that cannot be read."""
    lines = []
    for part in text.split(";"):
        match = _LINE.fullmatch(part.strip())
        if match is None:
            raise BadOrder(f"lines: {part.strip()!r} is not of the form SKU x quantity @ unit price")
        lines.append({"sku": match["sku"], "quantity": int(match["quantity"]), "unit_price": match["unit_price"]})
    return lines


def format_lines(lines: list[dict[str, Any]]) -> str:
    """The inverse of `parse_lines`."""
    return "; ".join(f"{line['sku']} x {line['quantity']} @ {line['unit_price']}" for line in lines)


def read_csv(path: Path = CSV_PATH) -> list[dict[str, Any]]:
    """Every order of a file, with its lines parsed; BadOrder names the row and what is wrong with it."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        if missing := [name for name in COLUMNS if name not in (reader.fieldnames or ())]:
            raise BadOrder(f"{path.name} has no column {', '.join(missing)}")
        orders = []
        for row in reader:
            try:
                orders.append({**{name: row[name] for name in COLUMNS}, "lines": parse_lines(row["lines"] or "")})
            except BadOrder as error:
                raise BadOrder(f"{path.name}, line {reader.line_num}: {error}") from None
        return orders


def validate(run_input: Any) -> dict[str, Any]:
    """The order to send: `{"ref", "supplier", "currency", "total" (minor units), "lines"}`.

    `run_input` is `{"po_number": …}`, looked up in the file, or `{"order": {…}}` with the file's columns. BadOrder.
    """
    given = run_input if isinstance(run_input, dict) else {}
    order = given["order"] if "order" in given else _by_number(given.get("po_number"))
    if not isinstance(order, dict):
        raise BadOrder("order: an object with the columns of the file is needed")
    for name in ("po_number", "supplier", "currency"):
        if not isinstance(order.get(name), str) or not order[name].strip():
            raise BadOrder(f"{name}: a text is needed")
    lines = order.get("lines")
    if not isinstance(lines, list) or not lines:
        raise BadOrder("lines: at least one is needed")
    try:
        total = minor_units(order.get("total"), order["currency"])
        summed = sum(_line_total(line, order["currency"]) for line in lines)
    except BadAmount as error:
        raise BadOrder(str(error)) from None
    if total != summed:
        wanted = decimal_text(summed, order["currency"])
        raise BadOrder(f"total: the lines of {order['po_number']} add up to {wanted}, not {order['total']}")
    return {
        "ref": order["po_number"], "supplier": order["supplier"], "currency": order["currency"],
        "total": total, "lines": lines,
    }  # fmt: skip


def supplier_request(order: dict[str, Any]) -> dict[str, Any]:
    """What is sent to the supplier for a validated order, all but the reference."""
    total = decimal_text(order["total"], order["currency"])
    return {"currency": order["currency"], "total": total, "lines": order["lines"]}


def option_s(run_input: dict[str, Any], name: str, default_s: float) -> float:
    """A number of seconds out of a run's input, from 0 to ten minutes. BadOrder."""
    value = run_input.get(name, default_s)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 600:
        raise BadOrder(f"{name}: seconds from 0 to 600")
    return float(value)


def _by_number(po_number: Any) -> dict[str, Any]:
    found = [order for order in read_csv() if order["po_number"] == po_number]
    if not found:
        raise BadOrder(f"{po_number!r} is not in {CSV_PATH.name}: a run needs a po_number of the file, or the order itself")
    return found[0]


def _line_total(line: Any, currency: str) -> int:
    if not isinstance(line, dict) or set(line) != {"sku", "quantity", "unit_price"}:
        raise BadOrder("lines: each has sku, quantity and unit_price")
    quantity = line["quantity"]
    if not isinstance(quantity, int) or isinstance(quantity, bool) or quantity < 1:
        raise BadOrder(f"lines: the quantity of {line['sku']} must be a whole number of at least 1")
    return quantity * minor_units(line["unit_price"], currency)
