"""The agent's client for the supplier. It sends once and never again, and says only what the answer proves.

What "did not land" can mean: `NotSent` no connection was made; `Refused` the supplier gave a definite no; anything else
that is raised: nobody knows, and the run waits until someone found out.
"""

from typing import Any

import httpx

from countermand import Landed
from countermand.http import classified, conclude
from countermand.sending import Op
from examples.money import BadAmount, minor_units

ANSWER_TIMEOUT_S = 25.0


class UnclearAnswer(Exception):
    """The supplier answered with success, but not about this order."""


def create_order(url: str, op: Op, request: dict[str, Any], *, answer_timeout_s: float = ANSWER_TIMEOUT_S) -> Landed:
    """Place one order under `op.reference`; `answer_timeout_s`: how long to wait for the answer. Errors: above."""
    body = {"reference": op.reference, **request}
    headers = {"Idempotency-Key": op.key, "X-Attempt": str(op.attempt)}
    timeout = httpx.Timeout(5.0, read=answer_timeout_s)
    # A new connection for each send: on one that was kept, a supplier's hang-up cannot be told from a lost answer.
    with httpx.Client(base_url=url, timeout=timeout, follow_redirects=False, trust_env=False) as client, classified():
        op.writing()
        response = client.post("/orders", json=body, headers=headers)
    return _landed(op, conclude(response))


def _landed(op: Op, answer: Any) -> Landed:
    order = answer if isinstance(answer, dict) else {}
    order_id, currency = order.get("id"), order.get("currency")
    if not isinstance(order_id, str) or not isinstance(currency, str) or order.get("reference") != op.reference:
        raise UnclearAnswer(f"asked for {op.reference}, and the supplier answered {str(answer)[:200]}")
    try:
        amount = minor_units(order.get("total"), currency)
    except BadAmount as error:
        raise UnclearAnswer(f"the supplier's order {order_id} has no readable total: {error}") from error
    return Landed(external_id=order_id, amount=amount, currency=currency, response=order)
