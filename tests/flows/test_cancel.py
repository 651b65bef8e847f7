"""One order, cancelled at each moment of its life: five different truths, told the same way by supplier, effect, receipt, run and page."""

from tests.flows.driver import AMOUNT, CURRENCY, Flow, Json, kill, words
from tests.flows.webhooks import news_of_order

STOPPED = "Not sent. This order was stopped before it left us. Nothing reached Supplier. There is nothing to undo."
IN_FLIGHT = (
    "In flight. We had already sent this order to Supplier at «t» when the cancel was accepted at «t». It can't be called back."
    " We are waiting for the answer and will start nothing new. If it lands, it stays in effect until somebody undoes it with Supplier."
)
LEARNED = (
    "Landed. We learned it after the cancel. It was sent at «t», before the cancel was accepted at «t»;"
    " Supplier's answer reached us at «t». It is in effect now."
)
NOT_CHANGED = "Landed. Supplier confirmed this order at «t». It is in effect now. We know it from the sender's answer."
UNKNOWN = "We don't know yet. We sent this order at «t» and got no clear answer. It may or may not have happened."


def sentence(effect: Json) -> str:
    return words(str(effect["sentence"]))


def in_flight(receipt: Json) -> list[tuple[str, int, str, int, str]]:
    names = ("operation_id", "attempt", "business_ref", "amount", "currency")
    return [tuple(line[name] for name in names) for line in receipt["in_flight"]]


def assert_stop_was_told(run: Json) -> None:
    """Asked, heard, quiet and settled, in this order, and by the worker's own word."""
    assert run["asked_at"] <= run["heard_at"] <= run["quiet_at"] <= run["settled_at"]
    assert (run["quiet_basis"], run["cancel"]["by"]["name"]) == ("stopped", "Support")


def test_before_anything_is_declared(flow: Flow) -> None:
    host = flow.host("before_declare")
    run = flow.start("PO-1")
    standing = host.stands_at("before_declare")
    receipt = flow.accepted(run)
    assert receipt["in_flight"] == receipt["withheld"] == receipt["landed"] == receipt["unresolved"] == []
    assert [line["step"] for line in receipt["running"]] == ["order"]
    assert [line["step"] for line in receipt["not_started"]] == ["notify"]
    standing.release()
    ended = flow.wait_status(run, "cancelled")
    assert_stop_was_told(ended)
    assert flow.effects(run) == [] and ended["effects_total"] == 0
    assert "Stopped. It had sent nothing." in flow.page(run)
    assert flow.at_supplier("PO-1") == {"arrivals": 0, "executions": 0}
    assert flow.notes() == []


def test_before_the_send(flow: Flow) -> None:
    host = flow.host("declared")
    run = flow.start("PO-2", declare_first=True)
    standing = host.stands_at("declared")
    effect = flow.effect(run)
    receipt = flow.accepted(run)
    assert [line["operation_id"] for line in receipt["withheld"]] == [effect["operation_id"]]
    assert receipt["in_flight"] == receipt["landed"] == []
    standing.release()
    ended = flow.wait_status(run, "cancelled")
    assert_stop_was_told(ended)
    assert ended["settlement"] == "clear"
    effect = flow.effect(run)
    assert (effect["state"], sentence(effect)) == ("withheld", STOPPED)
    assert STOPPED in flow.page(run)
    assert flow.run(run)["refused_after_cancel"] == 1
    assert flow.at_supplier("PO-2") == {"arrivals": 0, "executions": 0}


def test_while_the_supplier_holds_the_request(flow: Flow) -> None:
    flow.hold("before_accept", "PO-3")
    flow.host()
    run = flow.start("PO-3")
    flow.wait_log("PO-3", "held")
    effect = flow.effect(run)
    receipt = flow.accepted(run)
    assert in_flight(receipt) == [(effect["operation_id"], 1, "PO-3", AMOUNT, CURRENCY)]
    assert receipt["withheld"] == receipt["landed"] == receipt["unresolved"] == []
    assert sentence(flow.effect(run)) == IN_FLIGHT
    assert IN_FLIGHT in flow.page(run)
    assert flow.run(run)["status"] == "cancelling"
    flow.world.release(reference="PO-3")
    ended = flow.wait_status(run, "cancelled")
    assert_stop_was_told(ended)
    effect = flow.effect(run)
    assert (effect["state"], effect["confirmed_relative_to_cancel"], effect["how_we_know"]) == ("landed", "after", "sender")
    assert sentence(effect) == f"{LEARNED} We know it from the sender's answer."
    assert flow.at_supplier("PO-3") == {"arrivals": 1, "executions": 1}
    assert flow.notes() == [] and flow.account(run)["landed"][0]["ref"] == effect["ref"]
    again = flow.cancel(run)
    assert (again.status_code, again.json()) == (200, receipt)


def test_after_the_supplier_accepted_and_before_its_answer(flow: Flow) -> None:
    flow.hold("after_accept", "PO-4")
    flow.host()
    run = flow.start("PO-4")
    flow.wait_log("PO-4", "held")
    receipt = flow.accepted(run)
    assert in_flight(receipt) == [(flow.effect(run)["operation_id"], 1, "PO-4", AMOUNT, CURRENCY)]
    assert sentence(flow.effect(run)) == IN_FLIGHT
    assert news_of_order(flow, "PO-4").status_code == 200
    effect = flow.wait_effect(run, "landed")
    told = f"{LEARNED} By Supplier's clock it happened at «t». We know it from a webhook of Supplier."
    assert sentence(effect) == told
    (news,) = [one for one in effect["evidence"] if one["source"] == "webhook"]
    assert news["provider_time"] < flow.run(run)["asked_at"] < effect["known_at"]
    flow.world.release(reference="PO-4")
    ended = flow.wait_status(run, "cancelled")
    assert_stop_was_told(ended)
    effect = flow.effect(run)
    assert [(one["source"], one["used_as"]) for one in effect["evidence"]] == [("webhook", "applied"), ("sender", "agrees")]
    assert sentence(effect) == told and told in flow.page(run)
    assert flow.at_supplier("PO-4") == {"arrivals": 1, "executions": 1}


def test_after_the_answer_and_before_it_is_recorded(flow: Flow) -> None:
    host = flow.host("response_returned")
    run = flow.start("PO-5")
    standing = host.stands_at("response_returned")
    receipt = flow.accepted(run)
    assert in_flight(receipt) == [(flow.effect(run)["operation_id"], 1, "PO-5", AMOUNT, CURRENCY)]
    flow.wait_event(run, "cancel.heard")
    flow.world.control("lookup_down", reference="PO-5")
    kill(standing.pid)
    assert sentence(flow.wait_effect(run, "unknown")).startswith(UNKNOWN)
    closed = flow.wait_status(run, "cancelled_pending")
    assert UNKNOWN in flow.page(run)
    assert closed["quiet_basis"] == "reaped" and closed["heard_at"]
    flow.world.control("lookup_down", reference="PO-5", times=0)
    ended = flow.wait_status(run, "cancelled_reconciled")
    assert ended["asked_at"] <= ended["quiet_at"] <= ended["settled_at"]
    effect = flow.effect(run)
    told = f"{LEARNED} By Supplier's clock it happened at «t». We know it from a look at Supplier."
    assert (effect["state"], effect["how_we_know"], sentence(effect)) == ("landed", "look", told)
    assert told in flow.page(run)
    assert flow.at_supplier("PO-5") == {"arrivals": 1, "executions": 1}
    assert flow.account(run)["final"] is True


def test_after_completion(flow: Flow) -> None:
    flow.host()
    run = flow.start("PO-6")
    flow.wait_status(run, "completed")
    answer = flow.cancel(run)
    assert answer.status_code == 409
    told = answer.json()
    (order,) = told["landed"]
    assert (told["code"], told["run_status"], order["business_ref"]) == ("already_closed", "completed", "PO-6")
    assert told["result"] == flow.run(run)["result"] == {"supplier_order": order["external_id"], "amount": AMOUNT, "currency": CURRENCY}
    effect = flow.effect(run)
    assert (effect["state"], sentence(effect)) == ("landed", NOT_CHANGED)
    assert NOT_CHANGED in flow.page(run)
    assert flow.run(run)["cancel"] is None and flow.notes() == [run]
    assert flow.at_supplier("PO-6") == {"arrivals": 1, "executions": 1}


def test_landed_before_the_cancel_of_a_run_that_still_works(flow: Flow) -> None:
    host = flow.host("recorded")
    run = flow.start("PO-7")
    standing = host.stands_at("recorded")
    receipt = flow.accepted(run)
    assert receipt["in_flight"] == [] and [line["business_ref"] for line in receipt["landed"]] == ["PO-7"]
    standing.release()
    assert_stop_was_told(flow.wait_status(run, "cancelled"))
    effect = flow.effect(run)
    assert effect["confirmed_relative_to_cancel"] == "before"
    assert sentence(effect) == (
        "Landed before the cancel. Supplier confirmed this order at «t»; the cancel was accepted at «t»."
        " Cancelling did not change it. It is in effect now. We know it from the sender's answer."
    )
    assert flow.at_supplier("PO-7") == {"arrivals": 1, "executions": 1} and flow.notes() == []


def test_permitted_but_not_a_byte_written(flow: Flow) -> None:
    host = flow.host("sending")
    run = flow.start("PO-8")
    standing = host.stands_at("sending")
    receipt = flow.accepted(run)
    assert in_flight(receipt) == [(flow.effect(run)["operation_id"], 1, "PO-8", AMOUNT, CURRENCY)]
    kill(standing.pid)
    ended = flow.wait_status(run, "cancelled_reconciled")
    assert ended["quiet_basis"] == "reaped"
    effect = flow.effect(run)
    assert effect["state"] == "absent"
    assert sentence(effect).startswith("Proved not to have happened: its sender had stopped, and ")
    assert flow.at_supplier("PO-8") == {"arrivals": 0, "executions": 0}
