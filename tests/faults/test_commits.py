"""The connection to the database is lost during COMMIT: whoever asked cannot know whether it happened. Afterwards everything is right.

`make faults` plays all of it, `make test` a few.
"""

from __future__ import annotations

import pytest

from tests.commits import DatabaseProxy, Mode
from tests.flows.driver import LEASE_S, SHORT_LEASE_S, Flow

LOST: tuple[Mode, ...] = ("lose_commit", "lose_answer")
WRITES = {
    "the claim": "INSERT INTO .?runs_lease",
    "the start of a step": "INSERT INTO .?runs_step",
    "the sending": "INSERT INTO .?ledger_attempt",
    "the outcome": "INSERT INTO .?ledger_evidence",
    "the end": "INSERT INTO .?ledger_account",
}
QUICK = {("the sending", "lose_answer")}
OF_THE_WORKER = [
    pytest.param(what, how, id=f"{what}-{how}", marks=() if (what, how) in QUICK else pytest.mark.faults) for what in WRITES for how in LOST
]


@pytest.fixture
def database_of_the_web(flow: Flow) -> DatabaseProxy:
    """The way of the web process to its database."""
    proxy = flow.database_proxy()
    flow.world.kill("web")
    flow.world.start("web", DATABASE_URL=proxy.url)
    return proxy


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("what", "how"), OF_THE_WORKER)
def test_a_commit_of_the_worker_is_lost(flow: Flow, database_of_the_web: DatabaseProxy, what: str, how: Mode) -> None:
    """Whether it happened or not, asking again finds it out: one order, and the run completes. A claim that nobody heard of expires."""
    database_of_the_web.arm(how, WRITES[what])
    flow.host(lease_s=SHORT_LEASE_S if what == "the claim" else LEASE_S)
    run = flow.start("PO-1")
    flow.wait_status(run, "completed", "completed_reconciled")
    assert database_of_the_web.struck == [how]
    assert flow.effect(run)["state"] == "landed"
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", [pytest.param("lose_commit", marks=pytest.mark.faults), "lose_answer"])
def test_the_commit_of_a_cancel_is_lost(flow: Flow, database_of_the_web: DatabaseProxy, how: Mode) -> None:
    """The answer says that it is not known; asked again it is a first cancel or a repeat, and there is one, with what was in flight."""
    flow.hold("before_accept", "PO-2")
    flow.host()
    run = flow.start("PO-2")
    flow.wait_log("PO-2", "held")
    database_of_the_web.arm(how, "INSERT INTO .?runs_cancelrequest")
    lost = flow.cancel(run)
    assert lost.status_code == 503 and "not known whether anything was recorded" in lost.json()["detail"]
    assert database_of_the_web.struck == [how]
    again = flow.cancel(run)
    assert again.status_code == (202 if how == "lose_commit" else 200), again.text
    assert flow.kinds(run).count("cancel.accepted") == 1
    assert [line["ref"] for line in again.json()["in_flight"]] == [flow.effect(run)["ref"]]
    flow.world.release()
    flow.wait_status(run, "cancelled", "cancelled_reconciled")
    assert flow.effect(run)["state"] == "landed"
    assert flow.at_supplier("PO-2") == {"arrivals": 1, "executions": 1}
