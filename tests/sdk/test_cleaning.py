"""Cleanup items: their own lease, their own budget, and said truthfully how they ended."""

from countermand import Cleanup, Countermand
from tests.sdk.double import Double, Held, Json
from tests.sdk.plans import Supplier


def _due(plane: Double, run: Held, calls: int = 3) -> None:
    item = {"id": "c-1", "run": run.id, "key": "release-hold", "handler": "tidy", "arguments": {"hold": "H-1"}}
    lease = {"token": "own", "epoch": 2, "expires_at": "2026-01-01T00:00:00+00:00", "expires_in_s": 30}
    plane.cleanups.append({"cleanup": item, "lease": lease, "budget": {"seconds": 60, "calls": calls}})


def _finished(plane: Double) -> Json:
    (body,) = plane.bodies("/cleanups/c-1/finish")
    return body


def _tidy(cm: Countermand, supplier: Supplier, times: int = 1) -> None:
    @cm.cleanup("tidy")
    def tidy(scope: Cleanup, hold: str) -> None:
        for n in range(times):
            scope.effect("supplier", "release_hold", ref=f"{hold}-{n}", request={}, send=supplier)


def test_its_effects_act_after_the_cancel_under_the_items_own_lease(plane: Double, cm: Countermand) -> None:
    run, supplier = plane.add(), Supplier()
    plane.cancel(run)
    _due(plane, run)
    _tidy(cm, supplier)
    assert cm.clean_once() == "done"
    (asked,) = plane.bodies("/effects")
    assert (asked["role"], asked["lease"], asked["step"], asked["ordinal"]) == ("cleanup", "own", "release-hold", 1)
    assert len(supplier.sent) == 1 and _finished(plane) == {"lease": "own", "outcome": "done"}


def test_beyond_its_calls_nothing_is_sent_and_the_item_says_so(plane: Double, cm: Countermand) -> None:
    run, supplier = plane.add(), Supplier()
    _due(plane, run, calls=3)
    _tidy(cm, supplier, times=5)
    assert cm.clean_once() == "failed"
    assert len(supplier.sent) == 3 and "used up" in _finished(plane)["detail"]


def test_an_unknown_cleanup_action_is_said_and_not_repeated(plane: Double, cm: Countermand) -> None:
    run = plane.add()
    _due(plane, run)
    supplier = Supplier(lambda op: (_ for _ in ()).throw(TimeoutError()))
    _tidy(cm, supplier)
    assert cm.clean_once() == "failed"
    assert len(supplier.sent) == 1 and "not known" in _finished(plane)["detail"]


def test_a_refusal_for_want_of_budget_fails_the_item_without_a_send(plane: Double, cm: Countermand) -> None:
    run, supplier = plane.add(), Supplier()
    _due(plane, run)
    _tidy(cm, supplier)
    plane.once("/effects", (409, {"code": "cancelled", "detail": "its budget of 3 calls was used up"}))
    assert cm.clean_once() == "failed"
    assert supplier.sent == [] and "3 calls" in _finished(plane)["detail"]


def test_nothing_to_clean(cm: Countermand) -> None:
    assert cm.clean_once() is None
