"""Giving money back with real processes: people over HTTP, a real Celery worker, Stripe's emulator behind a proxy that loses answers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests import platform
from tests.flows.driver import Flow, Json, until
from tests.flows.test_stripe import bill, host, localstripe, localstripe_process, said, stripe
from tests.localstripe import Localstripe
from tests.proxy import Proxy
from tests.undo import allow

__all__ = ["localstripe", "localstripe_process", "stripe"]
REASON = "not_wanted"  # Stripe has words of its own for others, which its emulator does not know
REFUND = r"POST /v1/refunds$"


@pytest.fixture
def refunds(flow: Flow, stripe: Localstripe) -> Iterator[Proxy]:
    """The way to Stripe of the Celery worker that carries undos out, and a rule that allows them."""
    allow(action="create_payment", provider="stripe")
    proxy = flow.proxy(stripe.url)
    providers = json.loads(platform.IMPATIENT_PROVIDERS)
    providers["stripe"]["api_base"] = proxy.url
    flow.world.kill("celery")
    flow.world.start("celery", COUNTERMAND_PROVIDERS=json.dumps(providers))
    yield proxy


def paid(flow: Flow, proxy: Proxy, invoice: str) -> Json:
    """A payment of 125.00 EUR that a run has taken; returns its effect."""
    host(flow, proxy)
    run = bill(flow, invoice)
    flow.wait_status(run, "completed")
    return flow.effect(run)


def give_back(flow: Flow, effect: Json, amount: int) -> Json:
    """Support asks, an approver approves."""
    asked = flow.support.post(
        "/api/v1/compensations", json={"effect": effect["ref"], "amount": amount, "currency": "EUR", "reason": REASON, "note": ""}
    )
    assert asked.status_code == 201, asked.text
    one = asked.json()
    decision = {"decision": "approved", "version": one["version"], "comment": ""}
    told = flow.person("approver").post(f"/api/v1/compensations/{one['ref']}/decision", json=decision)
    assert told.status_code == 200, told.text
    return dict(one)


def undo_of(flow: Flow, one: Json, state: str) -> Json:
    """The undo's own effect once it is in that state."""

    def find() -> Json | None:
        ref = flow.get(f"/compensations/{one['ref']}")["effect"]
        shown = flow.get(f"/effects/{ref}") if ref else None
        return shown if shown and shown["state"] == state else None

    found = until(find, f"the undo of {one['original']} to be {state}")
    assert found is not None
    return found


def test_a_refund_whose_answer_is_lost_is_looked_up_and_not_made_again(flow: Flow, stripe: Localstripe, refunds: Proxy) -> None:
    effect = paid(flow, refunds, "INV-1")
    refunds.arm("lose_response", REFUND, times=9)
    one = give_back(flow, effect, 6000)
    undo = undo_of(flow, one, "landed")
    (refund,) = stripe.refunds()
    assert (refund["amount"], undo["external_id"], undo["how_we_know"]) == (6000, refund["id"], "look")
    assert said(undo)[0] == ("sender", "unknown") and undo["attempts"] == 1
    flow.world.kill("celery")
    flow.world.start("celery")
    again = flow.support.post(
        "/api/v1/compensations", json={"effect": effect["ref"], "amount": 6600, "currency": "EUR", "reason": REASON, "note": ""}
    )
    assert again.status_code == 409 and again.json()["code"] == "exceeds_landed" and "€65.00 EUR" in again.json()["detail"]
    assert len(refunds.asked(REFUND)) == len(stripe.refunds()) == 1
