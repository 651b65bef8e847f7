"""The in-process door gives what the API gives: the same plan through the SDK, and the same answers to the same questions."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path

import pytest
from django.db import OperationalError

from console.door import DjangoDoor
from countermand import Countermand
from countermand.doors import Door, HttpDoor
from countermand.errors import Problem, Unreachable
from runs import cancellation, leases
from tests.makers import SUPPORT, WORKER
from tests.wire import Api, claimed, effect_body, sent, worker

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def door() -> DjangoDoor:
    return DjangoDoor(WORKER)


def started(door: Door) -> tuple[str, str]:
    made = door.create_run({"agent": "purchase-order", "title": "Order", "claim": {"holder": "w-1"}})
    return made.body["run"]["id"], made.body["lease"]["token"]


def test_it_has_every_method_of_the_protocol():
    protocol = {name for name in vars(Door) if not name.startswith("_")}
    assert protocol <= set(dir(DjangoDoor)) and protocol <= set(dir(HttpDoor))


def test_it_answers_as_the_api_does(door: DjangoDoor):
    """The same questions, key by key; values differ where ids and times do."""
    api = worker()
    over_http, lease_http = claimed(api)
    run, lease = started(door)
    pairs = [
        (door.get_run(run).body, api.get(f"/runs/{over_http['id']}").data),
        (
            door.start_step(run, {"lease": lease, "key": "order", "kind": "tool"}).body,
            api.post(f"/runs/{over_http['id']}/steps", {"lease": lease_http, "key": "order", "kind": "tool"}).data,
        ),
    ]
    go = door.begin_effect(run, effect_body(lease))
    go_http = sent(api, over_http, lease_http, business_ref="PO-2")
    pairs.append((go.body, go_http))
    landed = {"attempt": 1, "verdict": "landed", "external_id": "S-1"}
    pairs += [
        (door.outcome(go.body["operation_id"], landed).body, api.post(f"/effects/{go_http['operation_id']}/outcome", landed).data),
        (door.heartbeat(run, {"lease": lease}).body, api.post(f"/runs/{over_http['id']}/heartbeat", {"lease": lease_http}).data),
        (door.get_account(run).body, api.get(f"/runs/{over_http['id']}/account").data),
    ]
    for inside, outside in pairs:
        assert _keys(inside) == _keys(outside)


def _keys(value: object) -> object:
    if isinstance(value, dict):
        return {key: _keys(inner) for key, inner in value.items()}
    return [_keys(inner) for inner in value] if isinstance(value, list) else type(value)


def test_refusals_are_the_sdks_problems(door: DjangoDoor):
    run, lease = started(door)
    with pytest.raises(Problem) as lost:
        door.start_step(run, {"lease": "0" * 32, "key": "a", "kind": "tool"})
    assert (lost.value.status, lost.value.code) == (409, "lease_lost")
    with pytest.raises(Problem) as wrong:
        door.start_step(run, {"lease": lease, "key": "a", "kind": "tool", "colour": "red"})
    assert (wrong.value.status, wrong.value.facts["field"]) == (400, "colour")
    with pytest.raises(Problem) as missing:
        door.get_run(str(uuid.uuid4()))
    assert missing.value.status == 404


def test_a_database_that_does_not_answer_is_unreachable(door: DjangoDoor, monkeypatch: pytest.MonkeyPatch):
    def fail(*args: object) -> None:
        raise OperationalError("server closed the connection unexpectedly")

    run, lease = started(door)
    monkeypatch.setattr(leases, "heartbeat", fail)
    with pytest.raises(Unreachable):
        door.heartbeat(run, {"lease": lease})


def test_waiting_for_directives_ends_with_the_cancel(door: DjangoDoor):
    run, _ = started(door)
    assert door.directives([(run, 1)], [], 0).body == {"directives": []}
    timer = threading.Timer(0.3, lambda: cancellation.request_cancel(SUPPORT, uuid.UUID(run)))
    timer.start()
    (line,) = door.directives([(run, 1)], [], 10).body["directives"]
    timer.join()
    assert (line["directive"], line["cancel"]["by"]["name"]) == ("cancel", SUPPORT.name)
    assert door.directives([(run, 1)], [run], 0).body == {"directives": []}


def test_claiming_waits_and_ends_empty_handed(door: DjangoDoor):
    assert door.claim({"holder": "w-2", "agents": ["purchase-order"], "wait_s": 0.3}).status == 204
    door.create_run({"agent": "purchase-order", "title": "Order"})
    assert door.claim({"holder": "w-2", "agents": ["purchase-order"], "wait_s": 5}).body["run"]["state"] == "running"


def test_a_plan_runs_in_process_through_the_sdk(door: DjangoDoor, tmp_path: Path):
    cm = Countermand(door=door, spool=str(tmp_path))
    orders: list[str] = []

    @cm.agent("purchase-order")
    def purchase_order(run):  # type: ignore[no-untyped-def]
        order = run.step("validate", lambda: {**run.input, "checked": True})

        def send(op):  # type: ignore[no-untyped-def]
            orders.append(op.reference)
            return {"external_id": f"S-{op.reference}"}

        placed = run.effect("supplier", "create_order", ref=order["ref"], amount=12500, currency="EUR", request=order, send=send)
        return {"order": placed.external_id}

    made = cm.create("purchase-order", input={"ref": "PO-7"}, business_ref="PO-7")
    assert cm.claim_once() == "completed"
    shown = worker().get(f"/runs/{made['id']}").data
    assert (shown["status"], shown["result"], shown["landed"], orders) == ("completed", {"order": "S-PO-7"}, 1, ["PO-7"])
    assert cm.claim_once() is None


def test_the_api_and_the_door_share_one_world(door: DjangoDoor):
    api: Api = worker()
    run, lease = started(door)
    assert api.post(f"/runs/{run}/cancellation", {"mode": "cancel"}).status_code == 202
    with pytest.raises(Problem) as cancelled:
        door.start_step(run, {"lease": lease, "key": "late", "kind": "tool"})
    assert cancelled.value.code == "cancelled"
