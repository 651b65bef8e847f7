"""The situations a newcomer should meet: each is a real run and what the supplier is told to do to that one order.

Nothing here writes results: what the page shows afterwards is what happened.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from examples.money import decimal_text, minor_units

_NOTHING: Mapping[str, Any] = MappingProxyType({})
# Otherwise the supplier's own event would settle the doubt before a look is due.
_NO_EVENT = MappingProxyType({"point": "webhook_off", "times": 1})
_LOST = MappingProxyType({"point": "drop_response", "times": 1})


@dataclass(frozen=True)
class Situation:
    """`supplier`, `currency`, `lines`: the order. `controls`: posted to the supplier's /control first, in order."""

    key: str
    title: str
    sees: str
    supplier: str
    currency: str
    lines: tuple[tuple[str, int, str], ...]
    options: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)
    controls: tuple[Mapping[str, Any], ...] = ()

    def run_input(self, reference: str) -> dict[str, Any]:
        """The input of a run that orders under `reference`, which must be new at the supplier and to Countermand."""
        lines = [{"sku": sku, "quantity": quantity, "unit_price": price} for sku, quantity, price in self.lines]
        total = sum(quantity * minor_units(price, self.currency) for _, quantity, price in self.lines)
        order = {
            "po_number": reference, "supplier": self.supplier, "currency": self.currency, "lines": lines,
            "total": decimal_text(total, self.currency),
        }  # fmt: skip
        return {"order": order, **self.options}

    def supplier_controls(self, reference: str) -> list[dict[str, Any]]:
        """What to POST to the supplier's /control before the run is created; each is aimed at `reference` only."""
        return [{**control, "reference": reference} for control in self.controls]


SITUATIONS: tuple[Situation, ...] = (
    Situation(
        "plain",
        "A plain success",
        "The order is checked, sent, confirmed by the supplier, and the requester is told. One order, landed.",
        "Kugel & Sohn GmbH",
        "EUR",
        (("BRG-6204-2RS", 12, "4.35"), ("SEAL-TC-35-52-7", 40, "1.80")),
    ),
    Situation(
        "needs_approval",
        "An order that a person must approve",
        "The order is over 5,000.00, so the run asks and stands still, for days if need be, without a worker. Decide as an"
        " approver: approved, exactly this order is sent; rejected, nothing is. Cancel meanwhile, and nobody can approve it any more.",
        "Kugel & Sohn GmbH",
        "EUR",
        (("GEARBOX-WPA-120", 4, "1480.00"), ("COUPLING-L100", 4, "46.50")),
    ),
    Situation(
        "before_send",
        "Time to cancel before the send",
        "The agent waits 30 s before it orders. Cancel in that time: nothing reaches the supplier and nothing needs undoing.",
        "Aldgate Fasteners Ltd",
        "GBP",
        (("BOLT-M12X60-8.8", 200, "0.38"), ("NUT-M12-A4", 200, "0.25")),
        MappingProxyType({"pause_before_order_s": 30}),
    ),
    Situation(
        "line_down",
        "The supplier cannot be reached",
        "No connection is made for 30 s, so nothing can have left us: the order stays on record, not sent. Cancel in that time"
        " and it is stopped there; otherwise it is sent when the line is back.",
        "Kugel & Sohn GmbH",
        "EUR",
        (("BRG-6206-ZZ", 10, "6.10"),),
        MappingProxyType({"line_down_s": 30}),
    ),
    Situation(
        "in_flight",
        "The supplier holds the request",
        "The supplier takes the request and does nothing for 20 s. Cancel in that time: the order can't be"
        " called back, the receipt names it, and when the supplier goes on it lands. We learn that after the cancel.",
        "Midwest Hydraulics, Inc.",
        "USD",
        (("FILTER-HF6553", 6, "19.90"), ("FITTING-JIC-08-90", 24, "5.10")),
        controls=(MappingProxyType({"point": "before_accept", "seconds": 20, "times": 1}),),
    ),
    Situation(
        "after_landing",
        "Time to cancel after the order has landed",
        "The supplier confirms the order, and the agent waits 30 s before it tells the requester. Cancel in that time: the order was"
        " confirmed before the cancel, so it stays in effect, and you can ask for it to be undone.",
        "Midwest Hydraulics, Inc.",
        "USD",
        (("SEALKIT-CYL-63", 4, "18.75"),),
        MappingProxyType({"pause_before_notify_s": 30}),
    ),
    Situation(
        "late_answer",
        "Accepted at once, answered late",
        "The supplier executes the order at once and answers after 20 s. Cancel in that time: the order was"
        " real before the cancel, and we learn it after the cancel.",
        "Gulf Valves & Fittings W.L.L.",
        "KWD",
        (("GASKET-SPW-DN80", 40, "0.745"), ("ELBOW-90-DN50", 12, "1.255")),
        controls=(
            MappingProxyType({"point": "after_accept", "seconds": 20, "times": 1}),
            MappingProxyType({"point": "webhook_delay", "seconds": 25, "times": 1}),
        ),
    ),
    Situation(
        "answer_lost",
        "The answer is lost",
        "The supplier executes the order and its answer never arrives. The order is unknown, is not sent"
        " again, and a look a few seconds later finds it.",
        "Tōkai Seiki K.K.",
        "JPY",
        (("COLLET-ER32-10", 2, "1580"), ("INSERT-CNMG120408", 2, "740")),
        controls=(_NO_EVENT, _LOST),
    ),
    Situation(
        "never_happened",
        "An error, and nothing happened",
        "A gateway answers 502 and the order never reached the supplier. Two looks prove that it is absent;"
        " only then is it sent again under the same operation id, and it lands once. This takes about a minute.",
        "Kugel & Sohn GmbH",
        "EUR",
        (("BRG-6308-C3", 8, "12.40"),),
        controls=(MappingProxyType({"point": "http_502", "times": 1}),),
    ),
    Situation(
        "refused",
        "The supplier refuses",
        "The supplier gives a definite no. Nothing happened there, and the run fails with the supplier's words.",
        "Meccanica Brambilla S.p.A.",
        "EUR",
        (("PULLEY-SPA-125-2", 4, "31.50"), ("BELT-SPA-1400", 8, "10.90")),
        controls=(MappingProxyType({"point": "refuse", "times": 1}),),
    ),
    Situation(
        "looks_down",
        "The answer is lost and the supplier is down for questions",
        "For 60 s every look is answered with 503. That is no information: the order stays unknown, nobody"
        " calls it failed, and the first look that gets through, after two minutes, finds it.",
        "Aldgate Fasteners Ltd",
        "GBP",
        (("STUD-M16X120-B7", 60, "2.10"),),
        controls=(_NO_EVENT, _LOST, MappingProxyType({"point": "lookup_down", "seconds": 60})),
    ),
    Situation(
        "access_refused",
        "Only a person can find out",
        "The answer is lost, and for ten minutes the supplier refuses to be asked by us, so no look settles anything. Press “Settle it"
        " by hand” at the order, claim its case, look the order up in the supplier's own log, and record what you find.",
        "Meccanica Brambilla S.p.A.",
        "EUR",
        (("CHAIN-08B-1-5M", 3, "28.40"),),
        controls=(_NO_EVENT, _LOST, MappingProxyType({"point": "lookup_unauthorized", "seconds": 600})),
    ),
    Situation(
        "careless",
        "A careless supplier loses its answer",
        "This supplier ignores idempotency keys, so sending again would order twice. The answer is lost; we"
        " ask instead of sending, and find the one order.",
        "Midwest Hydraulics, Inc.",
        "USD",
        (("HOSE-R2AT-12-10FT", 3, "47.25"),),
        controls=(_NO_EVENT, MappingProxyType({"point": "careless"}), _LOST),
    ),
    Situation(
        "lookup_lags",
        "The supplier's lookup lags",
        "The answer is lost and the order shows up in the supplier's lookup only after 30 s. The first empty"
        " looks are not taken as proof that nothing happened; a later one finds it.",
        "Tōkai Seiki K.K.",
        "JPY",
        (("ENDMILL-4F-D8", 1, "2650"), ("INSERT-CNMG120408", 1, "690")),
        controls=(
            _NO_EVENT,
            _LOST,
            MappingProxyType({"point": "lookup_lag", "seconds": 30, "for_seconds": 600}),
        ),
    ),
)
BY_KEY: Mapping[str, Situation] = MappingProxyType({situation.key: situation for situation in SITUATIONS})
