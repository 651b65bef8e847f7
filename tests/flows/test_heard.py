"""How soon a worker hears of a cancel, by the control plane's own clock. The figures are printed; only their order is asserted."""

import statistics
from datetime import datetime

from tests.flows.driver import Flow

ROUNDS, AT_A_TIME = 5, 4


def test_cancels_are_heard(flow: Flow) -> None:
    flow.host(concurrency=AT_A_TIME)
    waits_ms: dict[str, list[float]] = {"heard": [], "quiet": []}
    for number in range(ROUNDS):
        runs = [flow.start(f"PO-{number}-{one}", pause_before_order_s=600) for one in range(AT_A_TIME)]
        for run in runs:
            flow.wait_event(run, "step.started")
        for run in runs:
            assert flow.accepted(run)["in_flight"] == []
        for run in runs:
            ended = flow.wait_status(run, "cancelled")
            assert ended["asked_at"] < ended["heard_at"] < ended["quiet_at"] <= ended["closed_at"]
            asked = datetime.fromisoformat(ended["asked_at"])
            for name, waits in waits_ms.items():
                waits.append((datetime.fromisoformat(ended[f"{name}_at"]) - asked).total_seconds() * 1000)
    for name, waits in waits_ms.items():
        cuts = statistics.quantiles(waits, n=20)
        print(f"cancel accepted → {name}: p50 {statistics.median(waits):.0f} ms, p95 {cuts[-1]:.0f} ms over {len(waits)} cancels")
    assert flow.world.supplier_log(kind="arrival") == []
