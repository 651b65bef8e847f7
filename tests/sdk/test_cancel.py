"""Hearing a cancel: soon, never in the middle of a send, and never swallowed."""

import threading
import time

import pytest

from countermand import Countermand, LeaseLost, Op, Run, RunCancelled
from countermand.doors import Answer
from countermand.errors import Json
from tests.sdk.double import Double
from tests.sdk.plans import Supplier, ends, order


def test_a_long_loop_hears_it_through_directives(plane: Double, cm: Countermand) -> None:
    run = plane.add()

    def plan(r: Run) -> None:
        plane.cancel(run)
        asked_s = time.monotonic()
        assert r.cancelled.wait(5)
        assert time.monotonic() - asked_s < 1
        r.checkpoint()

    assert ends(cm, plan) == "cancelled"
    assert [len(plane.bodies("/heard")), len(plane.bodies("/stopped"))] == [1, 1]


def test_heard_is_told_before_stopped_however_long_it_takes(plane: Double, cm: Countermand, monkeypatch: pytest.MonkeyPatch) -> None:
    run, tell = plane.add(), cm.door.heard

    def slowly(run_id: str, body: Json) -> Answer:
        with plane.changed:
            plane.changed.wait_for(lambda: plane.bodies(f"/runs/{run.id}/stopped"), 0.3)
        return tell(run_id, body)

    def plan(r: Run) -> None:
        plane.cancel(run)
        r.cancelled.wait(5)
        r.checkpoint()

    monkeypatch.setattr(cm.door, "heard", slowly)
    assert ends(cm, plan) == "cancelled"
    told = [path.rsplit("/", 1)[1] for _, path, _ in plane.calls if path.endswith(("/heard", "/stopped"))]
    assert told == ["heard", "stopped"]


def test_a_broad_except_cannot_swallow_it(plane: Double, cm: Countermand) -> None:
    run = plane.add()

    def plan(r: Run) -> str:
        plane.cancel(run)
        r.cancelled.wait(5)
        try:
            r.step("next", lambda: "done")
        except Exception:
            return "swallowed"
        return "went on"

    assert ends(cm, plan) == "cancelled"
    assert plane.bodies("/finish") == []


def test_a_plan_that_swallows_it_anyway_still_starts_nothing_and_does_not_complete(plane: Double, cm: Countermand) -> None:
    run, supplier = plane.add(), Supplier()

    def plan(r: Run) -> str:
        plane.cancel(run)
        for _ in range(2):
            try:
                order(r, supplier)
            except BaseException:  # noqa: S112
                continue
        return "swallowed"

    assert ends(cm, plan) == "cancelled"
    assert supplier.sent == [] and run.result is None and len(plane.bodies("/stopped")) == 1


def test_it_is_held_back_while_a_send_runs_and_raised_after_its_outcome(plane: Double, cm: Countermand) -> None:
    run = plane.add()
    marks: list[str] = []

    def send(op: Op) -> dict[str, str]:
        plane.cancel(run)
        current[0].cancelled.wait(5)
        current[0].checkpoint()  # inside a send nothing interrupts
        marks.append("sent")
        return {"id": "S-1"}

    current: list[Run] = []

    def plan(r: Run) -> None:
        current.append(r)
        try:
            order(r, send)
        except RunCancelled:
            marks.append("cancelled")
            raise
        marks.append("went on")

    assert ends(cm, plan) == "cancelled"
    assert marks == ["sent", "cancelled"]
    paths = [path.rsplit("/", 1)[-1] for _, path, _ in plane.calls]
    assert plane.bodies("/outcome")[0]["verdict"] == "landed"
    assert paths.index("outcome") < paths.index("stopped")


def test_the_worker_says_stopped_only_after_every_send_of_the_plan_has_ended(plane: Double, cm: Countermand) -> None:
    run = plane.add()
    inside, release = threading.Event(), threading.Event()

    def send(op: Op) -> dict[str, str]:
        inside.set()
        release.wait(10)
        return {"id": "S-1"}

    current: list[Run] = []
    sender = threading.Thread(target=lambda: pytest.raises((RunCancelled, LeaseLost), order, current[0], send))

    def plan(r: Run) -> None:
        current.append(r)
        sender.start()
        inside.wait(5)
        plane.cancel(run)
        r.cancelled.wait(5)
        threading.Timer(0.3, release.set).start()
        r.checkpoint()

    assert ends(cm, plan) == "cancelled"
    sender.join(5)
    paths = [path.rsplit("/", 1)[-1] for _, path, _ in plane.calls]
    assert paths.index("outcome") < paths.index("stopped")


def test_a_tight_loop_of_progress_hears_it_within_a_second_without_directives(plane: Double, cm: Countermand) -> None:
    held = plane.add()

    def work(run: Run) -> None:
        plane.cancel(held)
        until_s = time.monotonic() + 5
        while time.monotonic() < until_s:
            run.progress(0.4, "40 of 100")
            time.sleep(0.01)

    def plan(r: Run) -> None:
        r.lease._told = lambda body: None  # type: ignore[method-assign]  # directives do not get through
        started_s = time.monotonic()
        try:
            r.step("work", work, hears_cancel_every_s=1)
        finally:
            assert time.monotonic() - started_s < 1.5

    assert ends(cm, plan) == "cancelled"
    beat = next(body for body in plane.bodies("/heartbeat") if "steps" in body)
    assert beat["steps"] == [{"key": "work", "progress": 0.4, "message": "40 of 100"}]


def test_a_model_answer_after_the_cancel_is_reported_with_its_cost_and_thrown_away(plane: Double, cm: Countermand) -> None:
    run, seen = plane.add(), []

    def ask() -> dict[str, str]:
        plane.cancel(run)
        return {"tool": "pay"}

    cost = {"currency": "USD", "micros": 1200}
    assert ends(cm, lambda r: seen.append(r.model_call("plan", ask, cost=lambda said: cost))) == "cancelled"
    assert seen == []
    (finished,) = [body for body in plane.bodies("/steps/plan/finish")]
    assert finished["cost"] == cost and finished["result"] == {"tool": "pay"}


def test_a_stream_is_no_longer_read_after_the_cancel(plane: Double, cm: Countermand) -> None:
    run, read, closed = plane.add(), [], []

    def stream(r: Run):  # noqa: ANN202
        try:
            for n in range(100):
                read.append(n)
                if n == 2:
                    plane.cancel(run)
                    r.cancelled.wait(5)
                yield f"{n} "
        finally:
            closed.append(True)

    def plan(r: Run) -> None:
        r.model_call("plan", lambda: stream(r))

    assert ends(cm, plan) == "cancelled"
    assert read == [0, 1, 2] and closed == [True]


def test_a_lost_lease_ends_the_plan_and_the_worker_says_it_stopped(plane: Double, cm: Countermand) -> None:
    run = plane.add()

    def plan(r: Run) -> None:
        run.token = "another worker's"
        with pytest.raises(LeaseLost):
            r.step("next", lambda: pytest.fail("ran"))
        raise LeaseLost("passed on")

    assert ends(cm, plan) == "lost"
    assert len(plane.bodies("/stopped")) == 1


def test_cancelling_one_of_two_runs_in_one_process_leaves_the_other(plane: Double, cm: Countermand) -> None:
    first, second = plane.add(n=1), plane.add(n=2)
    ready = threading.Barrier(2, timeout=5)

    def plan(r: Run) -> str:
        ready.wait()
        if r.input["n"] == 1:
            plane.cancel(first)
            r.cancelled.wait(5)
        return r.step("work", lambda: "done")

    cm.agent("agent")(plan)
    threads = [threading.Thread(target=cm.claim_once) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert (first.state, second.state, second.result) == ("cancelled", "completed", "done")
