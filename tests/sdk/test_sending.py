"""One attempt at an effect: what permits it, what forbids it, and what its end proves."""

import httpx
import pytest

from countermand import (
    ActionRefused,
    Countermand,
    EffectDidNotHappen,
    EffectRefused,
    Landed,
    NotSent,
    Op,
    Pending,
    Refused,
    Run,
    clock,
    sending,
)
from tests.sdk.double import Double
from tests.sdk.plans import Supplier, ends, order


def test_an_effect_lands_with_its_step_and_the_provider_gets_stable_names(plane: Double, cm: Countermand) -> None:
    run, supplier = plane.add(), Supplier()
    assert ends(cm, lambda r: order(r, supplier)) == "completed"
    (op,) = supplier.sent
    assert (op.key, op.reference, op.amount, op.currency) == (op.operation_id, "PO-1042", 12500, "EUR")
    (outcome,) = plane.bodies("/outcome")
    assert (outcome["verdict"], outcome["external_id"], outcome["attempt"]) == ("landed", "S-1", 1)
    assert run.steps["supplier.create_order:PO-1042"]["state"] == "done"
    assert run.result["external_id"] == "S-1"


def test_a_lost_answer_is_asked_again_with_the_same_nonce_and_sent_once(plane: Double, cm: Countermand) -> None:
    plane.add()
    plane.lose_answer("/effects")
    supplier = Supplier()
    assert ends(cm, lambda r: order(r, supplier)) == "completed"
    nonces = [body["nonce"] for body in plane.bodies("/effects")]
    assert len(nonces) == 2 and len(set(nonces)) == 1
    assert len(supplier.sent) == 1


def test_every_call_has_a_nonce_of_its_own(plane: Double, cm: Countermand) -> None:
    plane.add()
    supplier = Supplier()

    def plan(run: Run) -> None:
        order(run, supplier)
        order(run, supplier, ref="PO-1043")

    assert ends(cm, plan) == "completed"
    assert len({body["nonce"] for body in plane.bodies("/effects")}) == 2


def test_a_go_ahead_that_cannot_be_confirmed_sends_nothing_and_the_worker_says_it_stopped(plane: Double, cm: Countermand) -> None:
    plane.add()
    for _ in range(4):
        plane.once("/effects", (502, {}))
    supplier = Supplier()
    assert ends(cm, lambda r: order(r, supplier)) == "lost"
    assert supplier.sent == []
    assert len(plane.bodies("/stopped")) == 1


def test_the_same_answer_given_to_another_nonce_is_no_permission(plane: Double, cm: Countermand) -> None:
    run, supplier = plane.add(), Supplier()
    plane.once("/effects", (200, {"operation_id": "op", "state": "sending"}))
    assert ends(cm, lambda r: order(r, supplier)) == "suspended"
    assert supplier.sent == [] and run.waits == {"until": "evidence"}


def test_a_window_that_has_passed_forbids_the_send_and_another_is_asked_for(
    plane: Double, cm: Countermand, monkeypatch: pytest.MonkeyPatch
) -> None:
    plane.add()
    supplier, slept_s = Supplier(), []

    def reached(point: str, **facts: object) -> None:
        if point == "sending" and not slept_s:
            slept_s.append(60.0)  # the machine sleeps between the go-ahead and the write

    monkeypatch.setattr(sending, "reached", reached)
    monkeypatch.setattr(sending, "now_s", lambda: clock.now_s() + sum(slept_s))
    assert ends(cm, lambda r: order(r, supplier)) == "completed"
    assert [body["verdict"] for body in plane.bodies("/outcome")] == ["not_sent", "landed"]
    assert [op.attempt for op in supplier.sent] == [2]


def test_the_window_counts_from_the_start_of_the_first_question(plane: Double, cm: Countermand) -> None:
    """The second answer may name a whole window again; the permission is as old as the first question."""
    plane.add()
    plane.send_within_s = 0.15  # shorter than the pause before the question is asked again
    plane.outcome_state = lambda body: "absent" if body["verdict"] == "not_sent" else body["verdict"]
    plane.lose_answer("/effects")
    supplier = Supplier()

    def plan(run: Run) -> None:
        with pytest.raises(EffectDidNotHappen):
            order(run, supplier)

    assert ends(cm, plan) == "completed"
    assert supplier.sent == [] and [body["verdict"] for body in plane.bodies("/outcome")] == ["not_sent"]


@pytest.mark.parametrize("error", [ValueError("x"), httpx.ReadTimeout("slow"), httpx.ConnectError("no"), KeyError("id")])
def test_whatever_send_raises_that_is_no_verdict_is_unknown_and_the_run_waits(plane: Double, cm: Countermand, error: Exception) -> None:
    run = plane.add()

    def fails(op: Op) -> None:
        raise error

    def plan(r: Run) -> None:
        try:
            order(r, fails)
        except Exception:  # a broad except must not swallow the doubt
            pytest.fail("doubt reached the plan as an ordinary exception")

    assert ends(cm, plan) == "suspended"
    (outcome,) = plane.bodies("/outcome")
    assert outcome["verdict"] == "unknown" and type(error).__name__ in outcome["response"]["error"]
    assert run.waits == {"until": "evidence"}
    assert run.steps["supplier.create_order:PO-1042"]["state"] == "running"


def test_a_returned_error_response_is_not_taken_for_success(plane: Double, cm: Countermand) -> None:
    plane.add()
    bad = httpx.Response(502, request=httpx.Request("POST", "http://supplier"))
    assert ends(cm, lambda r: order(r, lambda op: bad)) == "suspended"
    assert plane.bodies("/outcome")[0]["verdict"] == "unknown"


@pytest.mark.parametrize(
    ("raised", "verdict", "ended"),
    [
        (Refused("no", response={"why": "closed"}), "refused", "failed"),
        (Pending("later", external_id="S-9"), "pending", "suspended"),
        (NotSent("no route"), "not_sent", "failed"),
    ],
)
def test_send_names_its_verdict_by_what_it_raises(plane: Double, cm: Countermand, raised: Exception, verdict: str, ended: str) -> None:
    plane.add()
    supplier = Supplier(lambda op: (_ for _ in ()).throw(raised))
    assert ends(cm, lambda r: order(r, supplier)) == ended
    assert plane.bodies("/outcome")[0]["verdict"] == verdict
    assert len(supplier.sent) == 1  # a send is never retried, not even one that says it was not sent


def test_landed_can_be_exact(plane: Double, cm: Countermand) -> None:
    plane.add()
    ends(cm, lambda r: order(r, lambda op: Landed("S-7", 12000, "EUR", {"partly": True})))
    (outcome,) = plane.bodies("/outcome")
    assert (outcome["external_id"], outcome["amount"], outcome["currency"]) == ("S-7", 12000, "EUR")
    assert outcome["response"] == {"partly": True}


def test_a_known_outcome_is_returned_without_sending(plane: Double, cm: Countermand) -> None:
    plane.add()
    plane.once("/effects", (200, {"operation_id": "op", "state": "landed", "external_id": "S-3", "landed_amount": 5}))
    supplier, seen = Supplier(), []
    assert ends(cm, lambda r: seen.append(order(r, supplier))) == "completed"
    assert supplier.sent == [] and (seen[0].external_id, seen[0].amount) == ("S-3", 5)


def test_a_refusal_is_stored_and_told_again_on_another_worker(plane: Double, cm: Countermand) -> None:
    run, seen = plane.add(), []
    supplier = Supplier(lambda op: (_ for _ in ()).throw(Refused("no")))

    def plan(r: Run) -> None:
        with pytest.raises(EffectRefused) as told:
            order(r, supplier)
        seen.append(str(told.value))
        if len(seen) == 1:
            r.lease.lose("as if this worker died")
            r.checkpoint()

    assert ends(cm, plan) == "lost"
    assert run.state == "scheduled"
    assert ends(cm, plan) == "completed"
    assert len(supplier.sent) == 1 and seen[0] == seen[1]


def test_a_run_that_fails_says_why_in_a_sentence(plane: Double, cm: Countermand) -> None:
    refused, broken = plane.add(), plane.add()
    supplier = Supplier(lambda op: (_ for _ in ()).throw(Refused("no")))
    assert ends(cm, lambda run: order(run, supplier)) == "failed"
    assert refused.error.startswith("supplier refused create_order")
    assert ends(cm, lambda run: {}["total"]) == "failed"
    assert broken.error == "KeyError: 'total'"


@pytest.mark.parametrize("code", ["already_landed", "payload_mismatch", "approval_required", "provider_unknown"])
def test_what_the_control_plane_does_not_allow_reaches_the_plan_with_its_code(plane: Double, cm: Countermand, code: str) -> None:
    plane.add()
    plane.once("/effects", (409, {"code": code, "detail": "Not so.", "effect": "E-1"}))

    def plan(run: Run) -> None:
        with pytest.raises(ActionRefused) as told:
            order(run, pytest.fail)
        assert told.value.code == code and told.value.facts["effect"] == "E-1"

    assert ends(cm, plan) == "completed"


def test_another_runs_doubt_is_waited_for_by_operation(plane: Double, cm: Countermand) -> None:
    run = plane.add()
    plane.once("/effects", (409, {"code": "in_doubt", "detail": "wait", "operation_id": "op-1", "run": "R-OTHER"}))
    assert ends(cm, lambda r: order(r, pytest.fail)) == "suspended"
    assert run.waits == {"until": "operation"}
    assert plane.bodies("/suspend")[0]["operation_id"] == "op-1"


def test_declare_first_begins_the_declared_effect_with_its_own_nonce(plane: Double, cm: Countermand) -> None:
    plane.add()
    supplier = Supplier()
    assert ends(cm, lambda r: order(r, supplier, declare_first=True)) == "completed"
    (declared,), (begun,) = plane.bodies("/effects"), plane.bodies("/begin")
    assert declared["begin"] is False and declared["nonce"] != begun["nonce"]
    assert len(supplier.sent) == 1


def test_effects_of_one_step_are_counted_the_same_on_every_replay(plane: Double, cm: Countermand) -> None:
    plane.add()
    supplier = Supplier()

    def both(run: Run) -> list[str]:
        return [order(run, supplier, ref=ref).operation_id for ref in ("PO-1", "PO-2")]

    assert ends(cm, lambda r: r.step("both", both)) == "completed"
    assert [(body["step"], body["ordinal"]) for body in plane.bodies("/effects")] == [("both", 1), ("both", 2)]
