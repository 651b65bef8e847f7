"""Worker programs of these tests, each plan a moment of a run's life: `python -m tests.flows.programs`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
from pathlib import Path
from typing import Any

import httpx

from countermand import AsyncCountermand, Countermand, EffectUnknowable, Landed, NotSent, Refused
from countermand.async_run import AsyncRun
from countermand.faultpoints import reached
from countermand.http import classified, conclude
from countermand.run import Run
from countermand.sending import Op
from examples.purchase_orders import where
from examples.purchase_orders.orders import supplier_request, validate
from examples.purchase_orders.supplier_client import create_order
from ledger.providers.base import Send
from ledger.providers.smtp import Smtp


def tidy(run: Run) -> None:
    """Register what the input names, then wait until somebody stops it."""
    for order, key in enumerate(run.input["tidy"]):
        run.cleanup(key, "note", {"key": key, "run": run.ref}, order=order)
    waits(run)


def waits(run: Run) -> None:
    """Wait in a step that hears a cancel, until there is one or the file that the input names."""
    run.step("wait", _wait, run.input.get("until"), kind="wait", hears_cancel_every_s=0.2)


def _wait(run: Run, until: str | None) -> None:
    while not (until and Path(until).exists()):
        run.progress(0.5, "half of it")
        run.cancelled.wait(0.1)
        run.checkpoint()


def beats(run: Run) -> None:
    """A tool that does nothing but say that it is alive."""
    run.step("tight", _beat, hears_cancel_every_s=1.0)


def _beat(run: Run) -> None:
    while True:
        run.heartbeat()


def deaf(run: Run) -> None:
    """A tool that cannot hear: it works until the file that the input names is there, whatever happens."""
    run.step("deaf", _deaf, run.input["until"])


def _deaf(until: str) -> None:
    import time

    while not Path(until).exists():
        time.sleep(0.1)


async def order_async(run: AsyncRun) -> dict[str, Any]:
    """The purchase order's plan, awaited."""
    order = await run.step("validate", validate, run.input)
    request = supplier_request(order)

    async def send(op: Any) -> Any:
        await asyncio.sleep(0)
        return await asyncio.to_thread(create_order, where.supplier_url(), op, request, answer_timeout_s=20)

    sent = await run.effect(
        "supplier", "create_order", key="order", ref=order["ref"], amount=order["total"], currency=order["currency"],
        request=request, answer_within_s=25, send=send,
    )  # fmt: skip
    await run.step("notify", asyncio.sleep, 0)
    return {"supplier_order": sent.external_id}


def pay(run: Run) -> dict[str, Any]:
    """Take the payment that the input names: `invoice`, `amount` in minor units, `currency`, and the card as `payment_method`."""
    wanted = run.input
    sent = run.effect(
        "stripe", "create_payment", key="pay", ref=wanted["invoice"], amount=wanted["amount"], currency=wanted["currency"],
        request={"payment_method": wanted["payment_method"]}, if_exists=wanted.get("if_exists"), answer_within_s=10, send=charge,
    )  # fmt: skip
    return {"payment": sent.external_id, "amount": sent.amount, "currency": sent.currency}


def charge(op: Op) -> Landed:
    """One payment over Stripe's HTTP API, once, with both of our ids. A declined card (402) and an unknown one (404) are a definite no."""
    ours = {"metadata[countermand_reference]": op.reference, "metadata[countermand_operation]": op.operation_id}
    money = {"amount": op.amount, "currency": str(op.currency).lower(), "confirm": "true"}
    headers = {"Authorization": f"Bearer {os.environ['STRIPE_KEY']}", "Idempotency-Key": op.key}
    with httpx.Client(base_url=os.environ["STRIPE_URL"], timeout=8, follow_redirects=False, trust_env=False) as client, classified():
        op.writing()
        response = client.post("/v1/payment_intents", data={**op.request, **money, **ours}, headers=headers)
    if "idempotency_error" in response.text:  # with 400, but about another request under our key: no word on this one
        raise RuntimeError(response.text)
    intent = conclude(response, {402, 404})
    if intent["status"] != "succeeded" or intent["metadata"]["countermand_reference"] != op.reference:
        raise RuntimeError(f"Stripe answered {intent['status']} about {intent['metadata']}")
    return Landed(intent["id"], intent["amount"], intent["currency"].upper(), response={"id": intent["id"], "status": intent["status"]})


def mails(run: Run) -> dict[str, Any]:
    """Tell the requester of an order by a real mail, and go on without it when nobody can find out whether it was sent."""
    order, to = run.input["order"], run.input["to"]
    mail = {"to": to, "subject": f"Order {order} is placed", "text": f"Your order {order} is placed.\n"}
    try:
        sent = run.effect("mail", "send_mail", key="notify", ref=order, request=mail, answer_within_s=15, send=_post)
    except EffectUnknowable:
        return {"mail": "nobody knows"}
    return {"mail": sent.external_id}


def _post(op: Any) -> Landed:
    """One mail through the server's own adapter; what its answer proves is what is reported."""
    mailer = Smtp(json.loads(os.environ["FLOWS_MAIL"]))
    answer = mailer.perform(Send(op.operation_id, op.reference, op.action, op.amount, op.currency, op.request))
    said = {"detail": answer.detail, "message": answer.detail}
    if answer.verdict == "landed" and answer.found:
        reached("mailed", reference=op.reference)
        return Landed(answer.found.external_id, response=said)
    if answer.verdict in ("refused", "not_sent"):
        raise (Refused if answer.verdict == "refused" else NotSent)(answer.detail, response=said)
    raise RuntimeError(answer.detail)


def note(key: str, run: str) -> None:
    """Tidying leaves one line for each time that it is done."""
    with (where.outbox() / f"{run}.notes").open("a", encoding="utf-8") as notes:
        notes.write(f"{key}\n")
    reached("noted", key=key)


AGENTS = {
    "tidy": tidy, "waits": waits, "beats": beats, "deaf": deaf, "order-async": order_async, "pay": pay, "mails": mails,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lease-s", type=float)
    parser.add_argument("--concurrency", type=int, default=1)
    given = parser.parse_args()
    where.outbox().mkdir(parents=True, exist_ok=True)
    make = AsyncCountermand if os.environ.get("FLOWS_ASYNC") else Countermand
    cm = make(*where.control_plane())
    for name, plan in AGENTS.items():
        cm.agent(name)(plan)
    cm.cleanup("note")(note)
    cm.work(ttl_s=given.lease_s, concurrency=given.concurrency)


if __name__ == "__main__":
    main()
