"""A worker is killed at each moment of an order, and another one finishes the run: never a second order, nothing done twice, and
nothing sent again before it is proved that the first one never left."""

from tests.flows.driver import SHORT_LEASE_S, Flow, Json, kill, words


def killed_at(flow: Flow, reference: str, point: str) -> str:
    """A run whose worker was killed at `point` while another worker host is up; the run's reference. Nothing stops there any more."""
    host = flow.host(point)
    run = flow.start(reference)
    standing = host.stands_at(point)
    flow.host()
    kill(standing.pid)
    host.points.pass_all()
    return run


def assert_finished_once(flow: Flow, run: str, reference: str, *, arrivals: int = 1) -> Json:
    """Completed by another worker, with one order at the supplier and one note to the requester. Returns the run."""
    ended = flow.wait_status(run, "completed", "completed_reconciled")
    assert flow.at_supplier(reference) == {"arrivals": arrivals, "executions": 1}
    holders = [event["subject"] for event in flow.events(run) if event["kind"] == "run.claimed"]
    assert len(set(holders)) == len(holders) >= 2
    assert flow.notes() == [run]
    finished = [event["subject"] for event in flow.events(run) if event["kind"] == "step.finished"]
    assert finished == ["validate", "order", "notify"]
    assert flow.steps_run(run).count("validate") == flow.steps_run(run).count("notify") == 1
    return ended


def assert_sent_again_only_when_proved_absent(flow: Flow, run: str) -> None:
    effect = flow.effect(run)
    said = [(one["source"], one["verdict"]) for one in effect["evidence"]]
    assert said[0] == ("supervisor", "sender_stopped")
    assert said.count(("look", "empty")) >= 2 and ("look", "absent") in said
    assert said[-1] == ("sender", "landed")
    kinds = flow.kinds(run)
    second = [position for position, kind in enumerate(kinds) if kind == "effect.sending"][1]
    assert kinds.index("lease.reaped") < kinds.index("effect.absent") < second
    assert effect["attempts"] == 2
    sent = [(entry["idempotency_key"], entry["attempt"]) for entry in flow.world.supplier_log(kind="execution")]
    assert sent == [(effect["operation_id"], "2")]


def test_before_the_declare(flow: Flow) -> None:
    run = killed_at(flow, "PO-1", "before_declare")
    assert assert_finished_once(flow, run, "PO-1")["status"] == "completed"
    assert flow.effect(run)["attempts"] == 1


def test_permitted_and_not_a_byte_written(flow: Flow) -> None:
    run = killed_at(flow, "PO-2", "sending")
    assert assert_finished_once(flow, run, "PO-2")["status"] == "completed_reconciled"
    assert_sent_again_only_when_proved_absent(flow, run)


def test_held_by_the_supplier_that_then_lets_it_fall(flow: Flow) -> None:
    flow.hold("before_accept", "PO-3", times=1)
    host = flow.host()
    run = flow.start("PO-3")
    flow.wait_log("PO-3", "held")
    flow.host()
    host.children()[0].kill()
    assert flow.wait_log("PO-3", "abandoned")["detail"]["why"] == "client_gone"
    assert_finished_once(flow, run, "PO-3", arrivals=2)
    assert_sent_again_only_when_proved_absent(flow, run)


def test_held_by_the_supplier_that_carries_it_out_afterwards(flow: Flow) -> None:
    flow.hold("before_accept", "PO-4", commit_after_client_gone=True)
    host = flow.host()
    run = flow.start("PO-4")
    flow.wait_log("PO-4", "held")
    flow.host()
    flow.world.control("lookup_down", reference="PO-4")  # or else a slow test would promise too short a max_in_flight
    host.children()[0].kill()
    flow.wait_status(run, "awaiting_evidence")
    flow.world.release(reference="PO-4")
    assert flow.wait_log("PO-4", "execution")
    flow.world.control("lookup_down", reference="PO-4", times=0)
    assert_finished_once(flow, run, "PO-4")
    effect = flow.effect(run)
    assert (effect["how_we_know"], effect["attempts"]) == ("look", 1)


def test_after_the_answer_and_before_it_is_recorded(flow: Flow) -> None:
    run = killed_at(flow, "PO-5", "response_returned")
    assert assert_finished_once(flow, run, "PO-5")["status"] == "completed_reconciled"
    effect = flow.effect(run)
    assert (effect["state"], effect["how_we_know"], effect["attempts"]) == ("landed", "look", 1)
    assert words(effect["sentence"]) == (
        "Landed. Supplier confirmed this order at «t». It is in effect now. We know it from a look at Supplier."
    )


def test_recorded_and_not_yet_a_finished_step(flow: Flow) -> None:
    run = killed_at(flow, "PO-6", "recorded")
    assert assert_finished_once(flow, run, "PO-6")["status"] == "completed"
    effect = flow.effect(run)
    assert (effect["how_we_know"], effect["attempts"]) == ("sender", 1)


def test_with_the_whole_host_gone_it_goes_to_a_person(flow: Flow) -> None:
    host = flow.host("sending", lease_s=SHORT_LEASE_S)
    run = flow.start("PO-7")
    standing = host.stands_at("sending")
    holder = flow.wait_event(run, "run.claimed")["subject"]
    assert f":{standing.pid}:" in holder
    host.kill_all()
    flow.host()
    effect = flow.wait_effect(run, "ambiguous")
    assert words(effect["sentence"]).startswith("A person must find out. We sent this order at «t». After ")
    assert f", and worker {holder} was never confirmed stopped. Look it up by reference PO-7" in effect["sentence"]
    (case,) = flow.cases(run)
    assert case["kind"] == "not_found_sender_alive"
    assert case["why"].endswith(f"looks found nothing, but worker {holder} was never confirmed stopped.")
    assert flow.run(run)["status"] == "awaiting_evidence"
    assert flow.at_supplier("PO-7") == {"arrivals": 0, "executions": 0}
    settle = f"/api/v1/cases/{case['ref']}"
    assert flow.support.post(f"{settle}/claim", json={}).status_code == 200
    found = {"verdict": "did_not_happen", "evidence": {"seen_where": "provider_dashboard", "seen_at": effect["sent_at"]}}
    kept = flow.support.post(f"{settle}/settlement", json=found).json()
    assert kept["outcome"] == "kept" and flow.effect(run)["state"] == "ambiguous"
    gone = flow.support.post(f"{settle}/settlement", json={**found, "sender_gone": "The host was switched off; I stood next to it."})
    assert gone.json()["outcome"] == "settled", gone.text
    assert_finished_once(flow, run, "PO-7")
    assert flow.effect(run)["attempts"] == 2
