"""Money through Stripe's emulator with real processes. It honours no idempotency key: what keeps it at one charge is ours alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import pytest

from tests import platform
from tests.flows.driver import SHORT_LEASE_S, Flow, Host, Json, until
from tests.localstripe import DECLINED_CARD, GOOD_CARD, KEY, Localstripe, localstripe, localstripe_process
from tests.proxy import Proxy

__all__ = ["localstripe", "localstripe_process"]
PROGRAM = "tests.flows.programs"
SEND = r"POST /v1/payment_intents$"


@pytest.fixture
def stripe(flow: Flow, localstripe: Localstripe) -> Iterator[Localstripe]:
    """Stripe, whose own word on what was executed the checker hears at the end."""
    flow.executions.append(localstripe.executions)
    yield localstripe


def host(flow: Flow, proxy: Proxy, *points: str, **options: Any) -> Host:
    return flow.host(*points, program=PROGRAM, STRIPE_URL=proxy.url, STRIPE_KEY=KEY, **options)


def bill(flow: Flow, invoice: str, amount: int = 12500, currency: str = "EUR", card: str = GOOD_CARD, **values: Any) -> str:
    """A run that takes one payment; returns its reference."""
    given = {"invoice": invoice, "amount": amount, "currency": currency, "payment_method": card, **values}
    body = {"agent": "pay", "title": f"Payment of {invoice}", "business_ref": invoice, "input": given}
    answer = flow.world.api.post("/runs", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["ref"])


def said(effect: Json) -> list[tuple[str, str]]:
    return [(one["source"], one["verdict"]) for one in effect["evidence"]]


def assert_paid_once(stripe: Localstripe, proxy: Proxy, invoice: str) -> Json:
    (payment,) = stripe.payments(invoice)
    assert payment["status"] == "succeeded"
    assert len([one for one in proxy.asked(SEND) if f"={invoice}&" in one.body.decode()]) == 1
    return dict(payment)


def test_a_lost_answer_another_worker_and_a_second_run_make_one_charge(flow: Flow, stripe: Localstripe) -> None:
    proxy = flow.proxy(stripe.url)
    proxy.arm("lose_response", SEND, times=9)
    flow.world.kill("celery")  # nobody looks until all of it has happened
    flow.world.kill("beat")
    first = host(flow, proxy)
    run = bill(flow, "INV-1")
    flow.wait_status(run, "awaiting_evidence")
    first.kill_all()
    host(flow, proxy)
    second, third = bill(flow, "INV-1", if_exists="reuse"), bill(flow, "INV-1")
    for other in (second, third):
        flow.wait_status(other, "awaiting_evidence")
        assert flow.effects(other) == [] and flow.run(other)["waits_for"]
    assert (flow.effect(run)["state"], flow.effect(run)["looks"]) == ("unknown", 0)
    flow.world.start("celery")
    flow.world.start("beat")
    ended = flow.wait_status(run, "completed_reconciled")
    payment = assert_paid_once(stripe, proxy, "INV-1")
    assert ended["result"] == {"payment": payment["id"], "amount": 12500, "currency": "EUR"}
    assert flow.wait_status(second, "completed")["result"] == ended["result"]
    assert flow.wait_status(third, "failed")["settlement"] == "clear"
    effect = flow.effect(run)
    assert said(effect) == [("sender", "unknown"), ("look", "landed")]
    assert (effect["attempts"], effect["how_we_know"], effect["external_id"]) == (1, "look", payment["id"])
    assert flow.effects(second) == flow.effects(third) == [] and flow.get("/cases")["results"] == []
    assert_paid_once(stripe, proxy, "INV-1")


def test_a_charge_that_arrives_when_its_sender_is_dead_is_found_and_not_made_again(flow: Flow, stripe: Localstripe) -> None:
    proxy = flow.proxy(stripe.url)
    proxy.arm("hold_request", SEND)
    first = host(flow, proxy, lease_s=SHORT_LEASE_S)
    run = bill(flow, "INV-2")
    until(lambda: proxy.asked(SEND), "the payment to be under way")
    first.kill_all()
    flow.wait_status(run, "awaiting_evidence")
    host(flow, proxy)
    until(lambda: flow.effect(run)["looks"] >= 3, "three looks that find nothing")
    assert (flow.effect(run)["state"], stripe.payments("INV-2")) == ("unknown", []), "nobody has said that its sender is gone"
    proxy.release()
    ended = flow.wait_status(run, "completed_reconciled")
    assert ended["result"]["payment"] == assert_paid_once(stripe, proxy, "INV-2")["id"]
    assert flow.effect(run)["attempts"] == 1


def test_a_declined_card_is_refused_and_the_next_run_may_try_again(flow: Flow, stripe: Localstripe) -> None:
    proxy = flow.proxy(stripe.url)
    host(flow, proxy)
    declined = bill(flow, "INV-3", card=DECLINED_CARD)
    flow.wait_status(declined, "failed")
    assert (flow.effect(declined)["state"], stripe.executions()) == ("refused", [])
    proxy.arm("lose_response", SEND)  # the look meets both, and must not take the old refusal for an answer
    again = bill(flow, "INV-3")
    ended = flow.wait_status(again, "completed_reconciled")
    paid = [payment for payment in stripe.payments("INV-3") if payment["status"] == "succeeded"]
    assert [payment["id"] for payment in paid] == [ended["result"]["payment"]] and len(stripe.payments("INV-3")) == 2


def test_its_own_event_settles_what_no_look_can(flow: Flow, stripe: Localstripe) -> None:
    proxy = flow.proxy(stripe.url)
    proxy.arm("lose_response", SEND)
    deaf = json.loads(platform.IMPATIENT_PROVIDERS)
    deaf["stripe"]["api_base"] = "http://127.0.0.1:1"
    flow.world.kill("celery")
    flow.world.start("celery", COUNTERMAND_PROVIDERS=json.dumps(deaf))
    stripe.send_events(f"{flow.world.url}/api/v1/webhooks/stripe", platform.STRIPE_WEBHOOK_SECRET)
    host(flow, proxy)
    run = bill(flow, "INV-4")
    flow.wait_status(run, "completed_reconciled")
    effect = flow.effect(run)
    assert effect["how_we_know"] == "webhook" and effect["external_id"] == assert_paid_once(stripe, proxy, "INV-4")["id"]
    assert ("look", "landed") not in said(effect)


@pytest.mark.parametrize(
    ("currency", "minor", "shown"), [("JPY", 5800, "¥5,800 JPY"), ("KWD", 1250, "1.250 KWD"), ("EUR", 29, "€0.29 EUR")]
)
def test_amounts_come_through_unchanged_to_the_wire_and_the_screen(
    flow: Flow, stripe: Localstripe, currency: str, minor: int, shown: str
) -> None:
    proxy = flow.proxy(stripe.url)
    host(flow, proxy)
    run = bill(flow, f"INV-{currency}", minor, currency)
    assert flow.wait_status(run, "completed")["result"]["amount"] == minor
    (sent,) = proxy.asked(SEND)
    assert parse_qs(sent.body.decode())["amount"] == [str(minor)]
    effect = flow.effect(run)
    assert (effect["amount"], effect["currency"]) == (minor, currency)
    assert shown in flow.page(run)
