"""What comes too late: a packet that was under way longer than anybody promised, and a worker that slept through its lease."""

import os
import signal

from tests.flows.driver import SHORT_LEASE_S, Flow, freeze, kill, until, words


def test_a_success_after_absent_and_another_success_is_kept_for_a_person(flow: Flow) -> None:
    late = flow.proxy(flow.world.supplier_url)
    late.arm("hold_request", r"POST /orders$")
    host = flow.host(SUPPLIER_URL=late.url)
    first = flow.start("PO-1")
    until(lambda: late.asked(r"POST /orders$"), "the order to be under way")
    flow.accepted(first)
    host.children()[0].kill()
    flow.wait_status(first, "cancelled_reconciled")
    lost = flow.effect(first)
    assert lost["state"] == "absent" and flow.account(first)["final"] is True

    second = flow.start("PO-1")
    flow.wait_status(second, "completed")
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}

    flow.world.control("webhook_off", times=0)
    late.release()
    flow.wait_effect(first, "conflicted")
    reopened = flow.wait_status(first, "cancelled_unresolved")
    assert reopened["settled_at"] is None and flow.account(first)["final"] is False
    lost, other = flow.effect(first), flow.effect(second)
    (news,) = [one for one in lost["evidence"] if one["source"] == "webhook"]
    assert (news["verdict"], news["used_as"]) == ("landed", "conflicts")
    assert "a webhook of Supplier says it happened" in lost["sentence"]
    assert lost["sentence"].endswith("A person must decide. Nothing is repeated meanwhile.")
    (case,) = flow.cases(first)
    assert case["kind"] == "conflicting"
    assert f"The same business action is also held by {other['ref']} of {second}." in case["why"]
    assert other["state"] == "landed" and flow.run(second)["status"] == "completed"
    delivered = [entry["detail"]["answer"] for entry in flow.world.supplier_log(reference="PO-1", kind="webhook")]
    assert delivered == ["200"]
    # The supplier broke its promise of how long a packet lives: it has two orders now, under two operation ids, and we know both.
    keys = [entry["idempotency_key"] for entry in flow.world.supplier_log(kind="execution")]
    assert keys == [other["operation_id"], lost["operation_id"]]


def test_a_late_packet_of_an_attempt_that_was_sent_again_is_the_same_order(flow: Flow) -> None:
    late = flow.proxy(flow.world.supplier_url)
    late.arm("hold_request", r"POST /orders$")
    host = flow.host(SUPPLIER_URL=late.url)
    run = flow.start("PO-2")
    until(lambda: late.asked(r"POST /orders$"), "the order to be under way")
    host.children()[0].kill()
    flow.wait_status(run, "completed_reconciled")
    late.release()
    assert flow.wait_log("PO-2", "replay")
    assert flow.at_supplier("PO-2") == {"arrivals": 2, "executions": 1}
    assert flow.effect(run)["state"] == "landed"


def test_a_worker_that_sleeps_before_the_send_and_wakes_after_its_lease(flow: Flow) -> None:
    plane = flow.proxy(flow.world.url)
    host = flow.host("before_declare", lease_s=SHORT_LEASE_S, COUNTERMAND_URL=plane.url)
    run = flow.start("PO-3")
    standing = host.stands_at("before_declare")
    freeze(standing.pid)
    standing.release()
    flow.wait_event(run, "lease.expired")
    asked_before = len(plane.seen)
    flow.host()
    flow.wait_status(run, "completed")
    os.kill(standing.pid, signal.SIGCONT)
    told = flow.wait_event(run, "sender.stopped")
    assert told["data"]["basis"] == "worker" and f":{standing.pid}:" in told["subject"]
    acts = [(one.what, one.status) for one in plane.seen[asked_before:] if "/steps" in one.what or "/effects" in one.what]
    assert acts and {status for _, status in acts} == {409}, acts
    assert flow.at_supplier("PO-3") == {"arrivals": 1, "executions": 1}
    assert flow.effect(run)["attempts"] == 1 and flow.notes() == [run]


def test_a_worker_that_sleeps_with_the_permission_sends_nothing_when_it_wakes(flow: Flow) -> None:
    host = flow.host("sending", lease_s=SHORT_LEASE_S)
    run = flow.start("PO-4")
    standing = host.stands_at("sending")
    freeze(standing.pid)
    standing.release()
    flow.wait_status(run, "awaiting_evidence")
    effect = flow.wait_effect(run, "ambiguous")
    assert "was never confirmed stopped" in effect["sentence"]
    (case,) = flow.cases(run)
    assert case["kind"] == "not_found_sender_alive"
    host.points.pass_all()
    os.kill(standing.pid, signal.SIGCONT)
    flow.wait_status(run, "completed_reconciled")
    effect = flow.effect(run)
    reports = [(one["verdict"], one["used_as"]) for one in effect["evidence"] if one["source"] == "sender"]
    assert reports == [("not_sent", "applied"), ("landed", "applied")]
    assert effect["attempts"] == 2 and flow.at_supplier("PO-4") == {"arrivals": 1, "executions": 1}
    assert until(lambda: not flow.cases(run), "the case to settle itself")


def test_a_worker_that_sleeps_through_the_answer_reports_it_when_it_wakes(flow: Flow) -> None:
    flow.hold("after_accept", "PO-5")
    host = flow.host(lease_s=SHORT_LEASE_S)
    run = flow.start("PO-5")
    flow.wait_log("PO-5", "held")
    (child,) = host.children()
    child.suspend()
    flow.world.release(reference="PO-5")
    flow.host()
    flow.wait_status(run, "completed_reconciled")
    assert flow.effect(run)["how_we_know"] == "look"
    child.resume()
    until(lambda: any(one["source"] == "sender" for one in flow.effect(run)["evidence"]), "the late report")
    effect = flow.effect(run)
    (report,) = [one for one in effect["evidence"] if one["source"] == "sender"]
    assert (report["verdict"], report["used_as"]) == ("landed", "agrees")
    assert words(effect["sentence"]).endswith("We know it from a look at Supplier.")
    assert flow.at_supplier("PO-5") == {"arrivals": 1, "executions": 1} and flow.notes() == [run]


def test_a_sleeper_that_is_killed_in_its_sleep_is_proved_gone(flow: Flow) -> None:
    host = flow.host("sending", lease_s=SHORT_LEASE_S)
    run = flow.start("PO-6")
    standing = host.stands_at("sending")
    freeze(standing.pid)
    flow.wait_status(run, "awaiting_evidence")
    host.points.pass_all()
    kill(standing.pid)
    flow.wait_status(run, "completed_reconciled")
    assert flow.effect(run)["attempts"] == 2
    assert flow.at_supplier("PO-6") == {"arrivals": 1, "executions": 1}
