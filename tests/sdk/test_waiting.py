"""Waiting without a process, and replays: what a plan gets when it is entered again from the top."""

import datetime

import pytest

from countermand import (
    Approval,
    ApprovalRejected,
    ChildCancelled,
    Countermand,
    Run,
    RunWaits,
    StepFailed,
    Unreachable,
)
from tests.sdk.double import Double
from tests.sdk.plans import Supplier, ends, order


def test_finished_steps_return_what_they_stored_and_are_not_run_again(plane: Double, cm: Countermand) -> None:
    run, ran, got = plane.add(), [], []

    def plan(r: Run) -> None:
        got.append(r.step("validate", lambda: ran.append(1) or {"pair": (1, 2)}))
        if len(got) == 1:
            r.lease.lose("as if this worker died")
            r.checkpoint()

    assert ends(cm, plan) == "lost"
    assert run.state == "scheduled"
    assert ends(cm, plan) == "completed"
    assert ran == [1] and got == [{"pair": [1, 2]}] * 2  # the first worker sees what the others will see


def test_a_step_that_raised_raises_the_same_again(plane: Double, cm: Countermand) -> None:
    plane.add()
    seen = []

    def plan(r: Run) -> None:
        with pytest.raises(StepFailed, match="no such order") as told:
            r.step("validate", lambda: (_ for _ in ()).throw(ValueError("no such order")))
        seen.append((str(told.value), told.value.facts["error"]["type"]))
        if len(seen) == 1:
            r.lease.lose("as if this worker died")
            r.checkpoint()

    assert ends(cm, plan) == "lost"
    assert ends(cm, plan) == "completed"
    assert seen[0][1] == "ValueError" and seen[0] == seen[1]


def test_a_result_that_is_not_json_fails_the_step_and_says_what_to_return(plane: Double, cm: Countermand) -> None:
    run = plane.add()
    assert ends(cm, lambda r: r.step("validate", lambda: {1, 2})) == "failed"
    assert "not JSON" in run.error and "return dicts" in run.error


def test_a_step_gets_the_run_when_it_asks_for_it(plane: Double, cm: Countermand) -> None:
    plane.add()

    def work(run: Run, factor: int) -> int:
        return factor * len(run.id)

    assert ends(cm, lambda r: r.step("work", work, 2)) == "completed"


def test_an_outage_of_the_control_plane_is_waited_out_while_the_lease_lasts(plane: Double, cm: Countermand) -> None:
    run = plane.add()
    for path in ("/steps", "/steps", "/finish", "/finish"):
        plane.once(path, (503, {}))
    assert ends(cm, lambda r: r.step("work", lambda: 1)) == "completed"
    assert run.result == 1


def test_an_approval_waits_without_a_lease_and_is_named_by_the_effect(plane: Double, cm: Countermand) -> None:
    run, supplier = plane.add(), Supplier()

    def plan(r: Run) -> None:
        yes = r.approval("confirm", question="Send it?", action={"provider": "supplier"})
        order(r, supplier, approval=yes)

    assert ends(cm, plan) == "suspended"
    assert run.state == "awaiting_approval" and run.token == ""
    plane.approvals["confirm"] = {"decision": "approved", "by": "Ann", "comment": "", "id": "a-1"}
    run.state, run.waits = "scheduled", None
    assert ends(cm, plan) == "completed"
    assert plane.bodies("/effects")[0]["approval"] == "a-1" and len(supplier.sent) == 1


def test_a_no_reaches_the_plan(plane: Double, cm: Countermand) -> None:
    plane.add()
    plane.approvals["confirm"] = {"decision": "rejected", "by": "Ann", "comment": "too much"}

    def plan(r: Run) -> str:
        with pytest.raises(ApprovalRejected) as told:
            r.approval("confirm", question="Send it?")
        return str(told.value.facts["comment"])

    assert ends(cm, plan) == "completed"
    assert Approval("a-1").by is None


def test_a_childs_result_is_awaited_without_a_process(plane: Double, cm: Countermand) -> None:
    parent = plane.add()
    assert ends(cm, lambda r: r.child("part", input={"n": 1})) == "suspended"
    (child,) = [run for run in plane.runs.values() if run.agent == "part"]
    assert parent.waits == {"until": "child"} and plane.bodies("/runs")[0]["parent"]["run"] == parent.id
    child.state, child.result = "completed", {"ok": True}
    parent.state, parent.waits = "scheduled", None
    plane.once("/runs", (200, child.shape()))
    assert ends(cm, lambda r: r.child("part", input={"n": 1})) == "completed"
    assert parent.result == {"ok": True}


def test_a_cancelled_childs_account_is_told_and_its_output_is_not(plane: Double, cm: Countermand) -> None:
    plane.add()
    plane.once("/runs", lambda body: (201, _cancelled_child(plane)))

    def plan(r: Run) -> None:
        with pytest.raises(ChildCancelled) as told:
            r.child("part")
        assert told.value.facts["account"]["stopped"] == []
        assert "result" not in told.value.facts

    assert ends(cm, plan) == "completed"


def _cancelled_child(plane: Double) -> dict[str, object]:
    child = plane.add("part")
    child.state, child.result = "cancelled", {"secret": 1}
    return child.shape()


def test_a_time_is_waited_for_by_the_control_planes_clock(plane: Double, cm: Countermand) -> None:
    run = plane.add()
    later = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).isoformat()
    assert ends(cm, lambda r: r.sleep_until("pause", later)) == "suspended"
    assert run.waits == {"until": "time"} and plane.bodies("/suspend")[0]["wake_at"] == later
    past = (datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)).isoformat()
    run.state, run.waits = "scheduled", None
    assert ends(cm, lambda r: r.sleep_until("pause", past)) == "completed"


def test_a_run_of_ones_own_process(plane: Double, cm: Countermand) -> None:
    with cm.start("agent", business_ref="PO-1042", input={"ref": "PO-1042"}) as run:
        assert run.input == {"ref": "PO-1042"}
        sent = order(run, Supplier())
    assert sent.external_id == "S-1"
    (held,) = plane.runs.values()
    assert held.state == "completed"


def test_an_exception_fails_the_run_of_ones_own_process(plane: Double, cm: Countermand) -> None:
    with pytest.raises(KeyError), cm.start("agent"):
        raise KeyError("lines")
    (held,) = plane.runs.values()
    assert held.state == "failed" and "KeyError" in held.error


def test_doubt_blocks_ones_own_process_for_a_bounded_time_then_gives_the_run_to_a_worker(plane: Double, cm: Countermand) -> None:
    supplier = Supplier(lambda op: (_ for _ in ()).throw(TimeoutError()))
    with pytest.raises(RunWaits, match="cm.work"), cm.start("agent", block_s=0.3) as run:
        order(run, supplier)
    (held,) = plane.runs.values()
    assert held.state == "awaiting_evidence" and len(supplier.sent) == 1


def test_doubt_that_is_settled_meanwhile_lets_ones_own_process_go_on(plane: Double, cm: Countermand) -> None:
    def send(op: object) -> None:
        # A look settles it before the plan asks for the second time.
        plane.once("/effects", (200, {"operation_id": "op", "state": "landed", "external_id": "S-5"}))
        raise TimeoutError

    with cm.start("agent", block_s=10) as run:
        sent = order(run, send)
    assert sent.external_id == "S-5"


def test_without_a_control_plane_nothing_starts(plane: Double, cm: Countermand) -> None:
    plane.down = True
    with pytest.raises(Unreachable), cm.start("agent"):
        pytest.fail("started")
