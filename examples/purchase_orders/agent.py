"""The plan of a purchase order: validate → order at the supplier → notify. It may be entered again from the top."""

import contextlib
import json
import os
import time
from typing import Any

from countermand import Approval, EffectDidNotHappen, Run, Sent
from examples.money import decimal_text, minor_units
from examples.purchase_orders import where
from examples.purchase_orders.orders import option_s, supplier_request, validate
from examples.purchase_orders.supplier_client import ANSWER_TIMEOUT_S, create_order

AGENT = "purchase-order"
PLAN = ["validate", "order", "notify"]
APPROVAL_OVER = "5000"
"""Orders over this many units of their currency are confirmed by a person."""
NOBODY_LISTENS = "http://127.0.0.1:1"
_HEARS_EVERY_S = 0.25


def purchase_order(run: Run) -> dict[str, Any]:
    """Place one order. In the input, `pause_before_order_s` and `pause_before_notify_s` leave time to cancel before the send and after
    it; for `line_down_s` the supplier is looked for where nobody listens; `declare_first` puts the order on record before asking to
    send it, at the price of one more call."""
    order = run.step("validate", validate, run.input, title="Check the order")
    wait(run, "pause", "pause_before_order_s", "Wait before ordering", "until the order is sent")
    request = supplier_request(order)
    answer_timeout_s = option_s(run.input, "answer_timeout_s", ANSWER_TIMEOUT_S)
    allowed = ask(run, order, request) if order["total"] > minor_units(APPROVAL_OVER, order["currency"]) else None

    def place(supplier_url: str) -> Sent:
        return run.effect(
            "supplier",
            "create_order",
            key="order",
            ref=order["ref"],
            amount=order["total"],
            currency=order["currency"],
            request=request,
            approval=allowed,
            answer_within_s=answer_timeout_s + 5,
            declare_first=run.input.get("declare_first") is True,
            send=lambda op: create_order(supplier_url, op, request, answer_timeout_s=answer_timeout_s),
        )

    if option_s(run.input, "line_down_s", 0):
        with contextlib.suppress(EffectDidNotHappen):  # no byte left this process: the order stays on record, and is sent below
            place(NOBODY_LISTENS)
        wait(run, "line", "line_down_s", "Wait for the line to the supplier", "until it is tried again")
    sent = place(where.supplier_url())
    wait(run, "look-over", "pause_before_notify_s", "Wait before telling the requester", "until the requester is told")
    run.step("notify", notify, order, sent, title="Tell the requester")
    return {"supplier_order": sent.external_id, "amount": sent.amount, "currency": sent.currency}


def ask(run: Run, order: dict[str, Any], request: dict[str, Any]) -> Approval:
    """A large order is confirmed by a person, for exactly what is then sent. Asking is a courtesy: the control plane insists anyway."""
    action = {
        "provider": "supplier", "action": "create_order", "business_ref": order["ref"],
        "amount": order["total"], "currency": order["currency"], "request": request,
    }  # fmt: skip
    total = f"{decimal_text(order['total'], order['currency'])} {order['currency']}"
    return run.approval("confirm", question=f"Send {order['ref']} over {total} to {order['supplier']}?", action=action)


def wait(run: Run, key: str, option: str, title: str, until: str) -> None:
    """A step that waits as long as the run's input says, if it says so."""
    if seconds := option_s(run.input, option, 0):
        run.step(key, pause, seconds, until, kind="wait", title=title, hears_cancel_every_s=_HEARS_EVERY_S)


def pause(run: Run, seconds: float, until: str) -> dict[str, float]:
    """Wait `seconds`, hearing a cancel at once."""
    began_s = time.monotonic()
    while (waited_s := time.monotonic() - began_s) < seconds:
        run.progress(waited_s / seconds, f"{seconds - waited_s:.0f} s {until}")
        run.cancelled.wait(min(_HEARS_EVERY_S, seconds - waited_s))
    run.checkpoint()
    return {"waited_s": seconds}


def notify(run: Run, order: dict[str, Any], sent: dict[str, Any]) -> dict[str, str]:
    """Leave a note for the requester, one file for each run, so that doing it twice leaves one."""
    folder = where.outbox()
    folder.mkdir(parents=True, exist_ok=True)
    note = folder / f"{run.ref}.json"
    text = json.dumps({"purchase_order": order["ref"], "supplier": order["supplier"], "supplier_order": sent["external_id"]})
    unfinished = note.with_suffix(f".{os.getpid()}.part")
    unfinished.write_text(text + "\n", encoding="utf-8")
    unfinished.replace(note)
    return {"note": note.name}
