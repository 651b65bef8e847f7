"""Write `purchase_orders.csv`: the same orders every time, with totals that add up exactly.

Run `python -m examples.make_purchase_orders` after changing what is below; nothing reads this file at run time.
"""

import csv
import random
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from examples.money import exponent
from examples.purchase_orders.orders import COLUMNS, format_lines

ORDERS = 240
FIRST_NUMBER = 1001
FIRST_DAY = date(2026, 9, 1)

# supplier: (currency, how often, [(SKU, price from, price to, most pieces)])
CATALOGUE: dict[str, tuple[str, int, list[tuple[str, str, str, int]]]] = {
    "Kugel & Sohn GmbH": ("EUR", 5, [
        ("BRG-6204-2RS", "3.95", "4.60", 120), ("BRG-6308-C3", "11.20", "13.80", 60),
        ("SEAL-TC-35-52-7", "1.45", "1.95", 200),
        ("CIRCLIP-DIN471-35", "0.12", "0.19", 500), ("GREASE-LGMT2-1KG", "17.40", "19.90", 24),
    ]),
    "Meccanica Brambilla S.p.A.": ("EUR", 4, [
        ("SHAFT-C45-30X400", "38.00", "46.50", 20), ("KEY-DIN6885-8X7X40", "0.74", "0.98", 150),
        ("PULLEY-SPA-125-2", "29.90", "34.20", 16), ("BELT-SPA-1400", "9.85", "12.10", 40),
    ]),
    "Aldgate Fasteners Ltd": ("GBP", 5, [
        ("BOLT-M12X60-8.8", "0.31", "0.44", 800), ("NUT-M12-A4", "0.22", "0.29", 800),
        ("WASHER-M12-A4", "0.06", "0.09", 1500),
        ("STUD-M16X120-B7", "1.85", "2.40", 200), ("ANCHOR-M10X90", "0.98", "1.25", 300),
    ]),
    "Midwest Hydraulics, Inc.": ("USD", 5, [
        ("HOSE-R2AT-12-10FT", "41.75", "52.30", 24), ("FITTING-JIC-08-90", "4.15", "5.95", 120),
        ("FILTER-HF6553", "18.60", "22.40", 36), ("PUMP-GP-16CC", "312.00", "355.00", 6),
    ]),
    "Tōkai Seiki K.K.": ("JPY", 4, [
        ("LM-GUIDE-HSR15-340", "5800", "6900", 12), ("COLLET-ER32-10", "1480", "1750", 40),
        ("INSERT-CNMG120408", "640", "890", 150), ("ENDMILL-4F-D8", "2350", "2980", 30),
    ]),
    "Gulf Valves & Fittings W.L.L.": ("KWD", 4, [
        ("VALVE-BALL-DN50-SS", "12.550", "15.250", 20), ("FLANGE-DN80-PN16", "4.375", "5.125", 40),
        ("GASKET-SPW-DN80", "0.625", "0.895", 150), ("ELBOW-90-DN50", "1.255", "1.780", 100),
    ]),
    "Präzisionsteile Ammann AG": ("CHF", 2, [
        ("SPINDLE-TR16X4-600", "86.40", "98.20", 8), ("NUT-TR16X4-BRONZE", "21.15", "24.90", 24),
    ]),
    "Nordlys Elektro AS": ("NOK", 2, [
        ("CONTACTOR-3P-25A", "289.00", "344.00", 20), ("CABLE-H07RNF-3G2.5-50M", "1190.00", "1345.00", 6),
        ("PROX-M12-PNP-NO", "174.50", "221.00", 30),
    ]),
}  # fmt: skip
SITES = ("Leeds plant 2", "Rotterdam yard", "Bergamo line 4", "Kuwait depot", "Nagoya workshop", "Toledo warehouse")
PEOPLE = ("a.osei", "m.lindqvist", "r.haddad", "s.moreau", "t.nakamura", "j.whitfield")


def rows() -> list[dict[str, str]]:
    """Every order as a row of the file."""
    dice = random.Random(1042)  # noqa: S311 -- the same file every time is the point
    weights = [often for _, often, _ in CATALOGUE.values()]
    return [_row(dice, number, dice.choices(list(CATALOGUE), weights)[0]) for number in range(ORDERS)]


def _row(dice: random.Random, number: int, supplier: str) -> dict[str, str]:
    currency, _, parts = CATALOGUE[supplier]
    chosen = dice.sample(parts, k=dice.randint(1, min(4, len(parts))))
    lines: list[dict[str, Any]] = [
        {"sku": sku, "quantity": dice.randint(1, most), "unit_price": _price(dice, low, high, currency)} for sku, low, high, most in chosen
    ]
    total = sum((Decimal(line["unit_price"]) * line["quantity"] for line in lines), Decimal(0))
    return {
        "po_number": f"PO-{FIRST_NUMBER + number}",
        "ordered_on": (FIRST_DAY + timedelta(days=number * 90 // ORDERS)).isoformat(),
        "supplier": supplier,
        "delivery_site": dice.choice(SITES),
        "requested_by": dice.choice(PEOPLE),
        "currency": currency,
        "lines": format_lines(lines),
        "total": f"{total:.{exponent(currency)}f}",
    }


def _price(dice: random.Random, low: str, high: str, currency: str) -> str:
    digits = exponent(currency)
    minor = dice.randint(int(Decimal(low).scaleb(digits)), int(Decimal(high).scaleb(digits)))
    if currency == "KWD":
        minor -= minor % 5  # no coin is smaller than 5 fils
    return f"{Decimal(minor).scaleb(-digits):.{digits}f}"


if __name__ == "__main__":
    with Path(__file__).with_name("purchase_orders.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows())
