"""Servers and hosts are killed with SIGKILL in the middle of the work and started again: everything goes on and nothing is lost."""

from datetime import datetime, timedelta
from pathlib import Path

from tests.flows.driver import SHORT_LEASE_S, Flow, until
from tests.platform import IMPATIENCE
from tests.world import SERVERS


def spooled(folder: Path) -> list[Path]:
    return list(folder.rglob("[0-9]*.json"))


def test_the_web_server_is_gone_while_an_outcome_is_known(flow: Flow) -> None:
    host = flow.host("response_returned")
    run = flow.start("PO-1")
    standing = host.stands_at("response_returned")
    flow.shaken.add("web")
    flow.world.kill("web")
    standing.release()
    until(lambda: spooled(host.folder), "the outcome to be in the spool")
    flow.world.start("web")
    flow.wait_status(run, "completed", "completed_reconciled")
    effect = flow.effect(run)
    assert [(one["source"], one["verdict"]) for one in effect["evidence"]][-1] == ("sender", "landed")
    assert flow.at_supplier("PO-1") == {"arrivals": 1, "executions": 1}
    until(lambda: not spooled(host.folder), "the spool to be empty")


def test_an_outcome_outlives_the_web_server_its_worker_and_its_host(flow: Flow) -> None:
    host = flow.host("response_returned", lease_s=SHORT_LEASE_S)
    run = flow.start("PO-2")
    standing = host.stands_at("response_returned")
    flow.shaken.add("web")
    flow.world.control("lookup_down", reference="PO-2")  # only the spool may tell
    flow.world.kill("web")
    standing.release()
    until(lambda: spooled(host.folder), "the outcome to be in the spool")
    host.kill_all()
    flow.world.start("web")
    flow.wait_effect(run, "unknown")
    flow.host(spool=host.folder)
    flow.wait_status(run, "completed_reconciled")
    effect = flow.effect(run)
    assert (effect["how_we_know"], effect["attempts"]) == ("sender", 1)
    assert flow.at_supplier("PO-2") == {"arrivals": 1, "executions": 1}
    assert not spooled(host.folder) and not list(host.folder.rglob("dead/*"))


def test_the_celery_worker_is_gone_while_an_answer_is_lost(flow: Flow) -> None:
    flow.world.control("drop_response", reference="PO-3", times=1)
    flow.world.kill("celery")
    flow.world.kill("beat")
    flow.host()
    run = flow.start("PO-3")
    flow.wait_status(run, "awaiting_evidence")
    assert flow.effect(run)["looks"] == 0
    flow.world.start("celery")
    flow.world.start("beat")
    flow.wait_status(run, "completed_reconciled")
    assert flow.at_supplier("PO-3") == {"arrivals": 1, "executions": 1}


def test_everything_is_killed_in_the_middle_of_the_work(flow: Flow) -> None:
    """Runs in every situation at once; then every process of ours is killed, and started again."""
    flow.hold("before_accept", "PO-held", times=1)
    flow.hold("after_accept", "PO-taken")
    flow.world.control("drop_response", reference="PO-lost", times=1)
    host = flow.host(concurrency=4)
    paused = flow.start("PO-paused", pause_before_order_s=2)
    runs = {"PO-paused": paused, **{name: flow.start(name) for name in ("PO-held", "PO-taken", "PO-lost")}}
    for name in ("PO-held", "PO-taken"):
        flow.wait_log(name, "held")
    flow.wait_log("PO-lost", "dropped")
    flow.wait_event(paused, "step.started")
    closing = flow.start("PO-cancelled", pause_before_order_s=600)
    receipt = flow.accepted(closing)
    flow.shaken.update(SERVERS)
    for name in ("web", "celery", "beat"):
        flow.world.kill(name)
    host.children()[0].kill()  # its supervisor is there, and says so once somebody listens
    flow.world.release()
    for name in ("web", "celery", "beat"):
        flow.world.start(name)
    for name, run in runs.items():
        ended = flow.wait_status(run, "completed", "completed_reconciled")
        assert ended["result"]["amount"] == 12500
        assert flow.at_supplier(name)["executions"] == 1
    assert sorted(flow.notes()) == sorted(runs.values())
    flow.wait_status(closing, "cancelled")
    again = flow.cancel(closing)
    assert (again.status_code, again.json()) == (200, receipt)
    assert flow.at_supplier("PO-cancelled") == {"arrivals": 0, "executions": 0}


def test_the_supplier_is_down_while_it_is_asked(flow: Flow) -> None:
    references = ("PO-a", "PO-b", "PO-c")
    for reference in references:
        flow.world.control("drop_response", reference=reference, times=1)
    flow.world.control("lookup_down")  # until it is really gone
    flow.host(concurrency=3)
    runs = [flow.start(reference) for reference in references]
    for run, reference in zip(runs, references, strict=True):
        flow.wait_log(reference, "dropped")
        flow.wait_status(run, "awaiting_evidence")
    flow.shaken.add("supplier")
    flow.world.kill("supplier")
    until(flow.alerts, "the alert")
    doubt_began = min(datetime.fromisoformat(flow.wait_event(run, "effect.unknown")["at"]) for run in runs)
    case = until(lambda: flow.get("/cases", kind="provider_down")["results"], "the grouped case")[0]
    for run in runs:
        assert flow.effect(run)["state"] == "unknown" and flow.cases(run) == []
        assert flow.run(run)["needs_person"] == 0
    ceiling = timedelta(seconds=IMPATIENCE["person_after_unreachable_s"])
    assert datetime.fromisoformat(case["opened_at"]) >= doubt_began + ceiling
    assert [one["ref"] for one in flow.get("/cases")["results"]] == [case["ref"]]
    assert flow.alerts() == ["provider.down"]
    flow.world.start("supplier")
    for run, reference in zip(runs, references, strict=True):
        flow.wait_status(run, "completed_reconciled")
        assert flow.at_supplier(reference) == {"arrivals": 1, "executions": 1}
    until(lambda: flow.get("/cases")["results"] == [], "the case to settle itself")
    assert flow.get(f"/cases/{case['ref']}")["finding"] == {"verdict": "settled_itself"}
    assert flow.alerts() == ["provider.down", "provider.up"]
