"""The whole life of a run with real processes: cleanup that is killed, cancels that are heard, silent hosts, Celery and asyncio."""

from __future__ import annotations

import json
import os
import re
import signal
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from examples.purchase_orders.agent import AGENT
from examples.purchase_orders.situations import BY_KEY
from ledger import policies
from runs.models import Delivery
from tests.flows.driver import SHORT_LEASE_S, Flow, Host, Json, kill, until
from tests.makers import ADMIN

PROGRAM = "tests.flows.programs"
ITEMS = ["one", "two", "three"]


def host(flow: Flow, *points: str, **options: Any) -> Host:
    return flow.host(*points, program=PROGRAM, **options)


def create(flow: Flow, agent: str, given: Json | None = None, **values: Any) -> str:
    """A run of one of the programs' agents; returns its reference once a worker has begun it."""
    answer = flow.world.api.post("/runs", json={"agent": agent, "title": agent, "input": given or {}, **values})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["ref"])


def begun(flow: Flow, agent: str, given: Json | None = None, **values: Any) -> str:
    run = create(flow, agent, given, **values)
    flow.wait_event(run, "step.started")
    return run


def notes(flow: Flow, run: str) -> list[str]:
    """What the handlers left behind: one line for each time one was called."""
    path = flow.outbox / f"{run}.notes"
    return path.read_text("utf-8").split() if path.exists() else []


def items(flow: Flow, run: str) -> dict[str, str]:
    return {item["key"]: item["state"] for item in flow.account(run)["cleanups"]}


# Cleanup in other hands ---------------------------------------------------------------------------------------------


def cleaning_stands(flow: Flow) -> tuple[Host, str, Any]:
    """A cancelled run whose first item has been done and not yet reported: the worker stands right there."""
    first = host(flow, "noted")
    run = begun(flow, "tidy", {"tidy": ITEMS})
    receipt = flow.accepted(run)
    assert [line["key"] for line in receipt["cleanups"]] == ITEMS
    return first, run, first.stands_at("noted")


def test_sigterm_in_the_middle_of_a_cleanup_finishes_the_item_and_a_restart_goes_on(flow: Flow) -> None:
    first, run, standing = cleaning_stands(flow)
    supervisor = first.supervisor
    supervisor.send_signal(signal.SIGTERM)
    first.points.pass_all()
    standing.release()
    supervisor.wait(60)
    assert notes(flow, run)[0] == "one"
    host(flow)
    flow.wait_status(run, "cancelled")
    assert notes(flow, run) == ITEMS
    assert items(flow, run) == dict.fromkeys(ITEMS, "done")
    assert flow.kinds(run).count("cleanup.claimed") == 3


def test_sigkill_in_the_middle_of_a_cleanup_leaves_the_item_behind_and_the_rest_is_done(flow: Flow) -> None:
    first, run, standing = cleaning_stands(flow)
    kill(standing.pid)
    first.points.pass_all()
    flow.wait_status(run, "cancelled_unresolved")
    assert notes(flow, run) == ITEMS, "each handler was called once"
    assert items(flow, run) == {"one": "left_behind", "two": "done", "three": "done"}
    (case,) = until(lambda: flow.cases(run), "the case of what was left behind")
    assert case["kind"] == "left_behind" and "its worker was lost; it is never run twice" in case["why"]


def test_sigkill_of_the_whole_host_in_the_middle_of_a_cleanup_and_a_restart(flow: Flow) -> None:
    first, run, _ = cleaning_stands(flow)
    first.kill_all()
    host(flow)
    flow.wait_status(run, "cancelled_unresolved")
    assert notes(flow, run) == ITEMS
    assert items(flow, run) == {"one": "left_behind", "two": "done", "three": "done"}


def test_a_second_person_cancels_in_the_middle_of_a_cleanup(flow: Flow) -> None:
    first, run, standing = cleaning_stands(flow)
    asked = flow.run(run)["cancel"]
    other = flow.person("approver")
    again = other.post(f"/api/v1/runs/{run}/cancellation", json={"mode": "cancel", "reason": "Me too!"})
    assert again.status_code == 200, again.text
    first.points.pass_all()
    standing.release()
    flow.wait_status(run, "cancelled")
    assert flow.run(run)["cancel"] == asked
    assert notes(flow, run) == ITEMS


# Hearing ------------------------------------------------------------------------------------------------------------


def test_a_tool_that_beats_in_a_tight_loop_hears_the_cancel(flow: Flow) -> None:
    host(flow, lease_s=60)
    run = begun(flow, "beats")
    flow.accepted(run)
    seen = flow.wait_status(run, "cancelled")
    assert seen["quiet_basis"] == "stopped" and seen["heard_at"]
    assert [event["subject"] for event in flow.events(run) if event["kind"] == "step.started"] == ["tight"]


def test_two_runs_in_one_process_and_one_of_them_is_cancelled(flow: Flow) -> None:
    host(flow, concurrency=2)
    done = flow.folder / "done"
    one = begun(flow, "waits", {"until": str(done)})
    two = begun(flow, "waits", {"until": str(done)})
    assert flow.run(one)["lease"]["holder"] == flow.run(two)["lease"]["holder"]
    flow.accepted(one)
    flow.wait_status(one, "cancelled")
    other = flow.run(two)
    assert (other["status"], other["cancel"]) == ("running", None)
    done.touch()
    assert flow.wait_status(two, "completed")["quiet_basis"] in ("", None)
    assert flow.kinds(two).count("run.claimed") == 1, "the same lease all the way"


def test_a_child_that_is_killed_with_two_runs_gives_both_to_another(flow: Flow) -> None:
    """What a process held is known to be free as soon as it is reaped, both runs alike."""
    made = host(flow, concurrency=2)
    done = flow.folder / "done"
    runs = [begun(flow, "waits", {"until": str(done)}) for _ in range(2)]
    made.children()[0].kill()
    done.touch()
    for run in runs:
        flow.wait_status(run, "completed")
        assert "lease.reaped" in flow.kinds(run)


# Approvals ----------------------------------------------------------------------------------------------------------


def asks(flow: Flow, reference: str) -> tuple[str, httpx.Client, str]:
    """A large order that waits for a person while no worker is there; the run, an approver, and where they decide."""
    policies.require_approval(ADMIN, "supplier", "create_order", "over", Decimal(5000))
    made = flow.host()
    run = create(flow, AGENT, BY_KEY["needs_approval"].run_input(reference), business_ref=reference)
    seen = flow.wait_status(run, "awaiting_approval")
    assert seen["lease"] is None
    flow.world.stop(made.name)
    approver = flow.person("approver")
    inbox = approver.get("/approvals/").text
    assert f"Send {reference} over 6106.00 EUR to Kugel" in inbox and "€6,106.00 EUR" in inbox
    found = re.search(r"/approvals/[^/]+/approve", inbox)
    assert found is not None
    return run, approver, found.group()


def decide(approver: httpx.Client, where: str) -> httpx.Response:
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', approver.get(where).text)
    assert digest is not None
    return approver.post(where, data={"digest": digest.group(1), "csrfmiddlewaretoken": approver.cookies["csrftoken"]})


def test_a_large_order_is_sent_only_when_a_person_has_approved_it(flow: Flow) -> None:
    run, approver, where = asks(flow, "PO-7")
    assert decide(approver, where).status_code == 302
    assert flow.run(run)["status"] == "scheduled" and flow.at_supplier("PO-7")["arrivals"] == 0
    flow.host()
    flow.wait_status(run, "completed")
    assert flow.at_supplier("PO-7") == {"arrivals": 1, "executions": 1}
    assert flow.steps_run(run) == ["validate", "order", "notify"], "what was finished before the wait is not done again"
    assert "Approved by Approver" in approver.get("/approvals/?tab=decided").text


def test_approving_a_second_after_the_cancel_is_refused_and_sends_nothing(flow: Flow) -> None:
    run, approver, where = asks(flow, "PO-8")
    opened = approver.get(where).text
    flow.accepted(run)
    flow.wait_status(run, "cancelled")
    digest = re.search(r'name="digest" value="([0-9a-f]+)"', opened)
    assert digest is not None
    late = approver.post(where, data={"digest": digest.group(1), "csrfmiddlewaretoken": approver.cookies["csrftoken"]})
    assert late.status_code == 409 and "Your decision changed nothing." in late.text
    flow.host()
    assert flow.run(run)["status"] == "cancelled" and flow.at_supplier("PO-8") == {"arrivals": 0, "executions": 0}


# Silence ------------------------------------------------------------------------------------------------------------


def in_flight(flow: Flow, reference: str) -> tuple[Host, str]:
    """A run whose order the supplier holds, with a short lease and a short time to answer."""
    flow.hold("before_accept", reference)
    made = flow.host(lease_s=SHORT_LEASE_S)
    run = flow.start(reference, answer_timeout_s=2)
    flow.wait_log(reference, "held")
    return made, run


def test_kill_9_of_the_worker_right_after_the_cancel(flow: Flow) -> None:
    made, run = in_flight(flow, "PO-1")
    receipt = flow.accepted(run)
    made.children()[0].kill()
    assert [line["state"] for line in receipt["in_flight"]] == ["sending"]
    seen = flow.wait_status(run, "cancelled_pending", "cancelled_unresolved", "cancelled_reconciled")
    assert (seen["quiet_basis"], seen["heard_at"] is None or seen["heard_at"] <= seen["quiet_at"]) == ("reaped", True)
    flow.wait_status(run, "cancelled_reconciled")
    assert flow.account(run)["final"]


def test_kill_9_of_the_whole_host_right_after_the_cancel(flow: Flow) -> None:
    """Nobody is left to say anything: the lease and the time to answer end, and the page says that it is presumed."""
    made, run = in_flight(flow, "PO-2")
    flow.accepted(run)
    made.kill_all()
    seen = flow.wait_status(run, "cancelled_pending", "cancelled_unresolved")
    assert seen["quiet_basis"] == "presumed"
    effect = flow.effect(run)
    assert effect["state"] in ("unknown", "ambiguous")
    told = [event["at"] for event in flow.events(run) if event["kind"] in ("cancel.accepted", "run.quiet", "run.cancelled")]
    assert told == sorted(told) and len(told) == 3
    page = flow.support.get(f"/runs/{run}/").text
    assert "has not answered since" in page and "it may still be computing" in page


def test_a_tool_that_cannot_hear_is_waited_for_and_starts_nothing_more(flow: Flow) -> None:
    host(flow)
    done = flow.folder / "done"
    run = begun(flow, "deaf", {"until": str(done)})
    receipt = flow.accepted(run)
    assert [(line["step"], line["hears_cancel"]) for line in receipt["running"]] == [("deaf", False)]
    flow.wait_event(run, "cancel.heard")
    assert flow.run(run)["status"] == "cancelling"
    done.touch()
    assert flow.wait_status(run, "cancelled")["quiet_basis"] == "stopped"


# Other front doors --------------------------------------------------------------------------------------------------


def test_the_same_plan_async(flow: Flow) -> None:
    host(flow, FLOWS_ASYNC="1")
    run = create(flow, "order-async", order_of("PO-3"))
    flow.wait_status(run, "completed")
    assert flow.at_supplier("PO-3") == {"arrivals": 1, "executions": 1}
    assert flow.steps_run(run) == ["validate", "order", "notify"]


def test_an_async_send_is_never_interrupted_by_the_cancel(flow: Flow) -> None:
    flow.hold("before_accept", "PO-4")
    host(flow, FLOWS_ASYNC="1")
    run = create(flow, "order-async", order_of("PO-4"))
    flow.wait_log("PO-4", "held")
    flow.accepted(run)
    flow.wait_event(run, "cancel.heard")
    flow.world.release(reference="PO-4")
    flow.wait_status(run, "cancelled")
    effect = flow.effect(run)
    assert (effect["state"], effect["confirmed_relative_to_cancel"]) == ("landed", "after")
    assert "notify" not in flow.steps_run(run)


def order_of(reference: str) -> Json:
    line = {"sku": "BRG-6204-2RS", "quantity": 10, "unit_price": "12.50"}
    return {"order": {"po_number": reference, "supplier": "Kugel & Sohn GmbH", "currency": "EUR", "total": "125.00", "lines": [line]}}


def test_a_run_that_executes_inside_celery_is_cancelled_by_directive(flow: Flow) -> None:
    agents = json.dumps({"waits": f"{PROGRAM}:waits"})
    flow.shaken |= {"beat", "celery-agents"}
    flow.world.stop("beat")
    flow.world.start("beat", COUNTERMAND_CELERY_AGENTS=agents)
    flow.world.start("celery-agents", COUNTERMAND_CELERY_AGENTS=agents)
    host(flow)  # a worker outside of Celery, that knows the agent too
    done = flow.folder / "done"
    first = create(flow, "waits", {"until": str(done)}, runtime="celery")
    second = create(flow, "waits", {"until": str(Path(os.devnull))}, runtime="celery")
    flow.wait_event(first, "step.started")
    flow.accepted(first)
    flow.wait_status(first, "cancelled")
    delivery = Delivery.objects.get(run__ref=first)
    assert (delivery.runtime, delivery.state) == ("celery", "acknowledged")
    assert flow.wait_status(second, "completed")["status"] == "completed", "the worker goes on with the next"
    pid = flow.world.pid("celery-agents")
    holders = {event["subject"] for run in (first, second) for event in flow.events(run) if event["kind"] == "run.claimed"}
    assert all(f":{pid}:" in holder for holder in holders), holders
