"""A known fact is never lost: over an outage, over two processes, on a full disk, and when nobody can ever accept it."""

import errno
import json
import logging
import multiprocessing
import os
from pathlib import Path

import pytest

from countermand import Countermand, Spool, SpoolFull, Unreachable
from countermand import spool as spooling
from tests.sdk.double import Double
from tests.sdk.plans import Supplier, ends, order


def test_facts_leave_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    spool, seen = Spool(tmp_path), []
    for n in range(3):
        spool.append({"n": n})
    assert spool.deliver(seen.append) == 3
    assert [fact["n"] for fact in seen] == [0, 1, 2] and spool.waiting() == []


def test_delivery_stops_at_the_first_that_cannot_be_told_and_keeps_the_rest(tmp_path: Path) -> None:
    spool = Spool(tmp_path)
    for n in range(3):
        spool.append({"n": n})

    def send(fact: dict[str, int]) -> None:
        if fact["n"] == 1:
            raise Unreachable("down")

    assert spool.deliver(send) == 1
    assert [json.loads(path.read_text())["n"] for path in spool.waiting()] == [1, 2]


def _append(folder: Path, who: int) -> None:
    spool = Spool(folder)
    for n in range(20):
        spool.append({"who": who, "n": n})


def _deliver(folder: Path, delivered: Path) -> None:
    spool = Spool(folder)
    for _ in range(200):
        spool.deliver(lambda fact: _note(delivered, fact))


def _note(delivered: Path, fact: dict[str, int]) -> None:
    with delivered.open("a") as out:
        out.write(json.dumps(fact) + "\n")


def test_processes_that_write_and_deliver_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    folder, delivered = tmp_path / "spool", tmp_path / "delivered"
    folder.mkdir()
    writers = [fork.Process(target=_append, args=(folder, who)) for who in range(3)]
    readers = [fork.Process(target=_deliver, args=(folder, delivered)) for _ in range(2)]
    for process in writers + readers:
        process.start()
    for process in writers + readers:
        process.join(30)
        assert process.exitcode == 0
    Spool(folder).deliver(lambda fact: _note(delivered, fact))
    facts = [json.loads(line) for line in delivered.read_text().splitlines()]
    assert len(facts) == 60
    for who in range(3):
        assert [fact["n"] for fact in facts if fact["who"] == who] == list(range(20))


def test_a_full_disk_is_said_and_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spool = Spool(tmp_path)
    _fill_disk(monkeypatch)
    with pytest.raises(SpoolFull, match="No space left"):
        spool.append({"n": 1})
    assert spool.waiting() == [] and list(tmp_path.glob("*.part")) == list(tmp_path.glob(".*.part")) == []
    assert any(record.levelno == logging.CRITICAL for record in caplog.records)


def _fill_disk(monkeypatch: pytest.MonkeyPatch, until: list[bool] | None = None) -> None:
    real = os.write

    def write(handle: int, data: bytes) -> int:
        if until is None or not until:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(handle, data)

    monkeypatch.setattr(spooling.os, "write", write)


def test_with_disk_full_and_control_plane_down_the_fact_is_held_until_either_takes_it(
    plane: Double, cm: Countermand, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plane.add()
    _fill_disk(monkeypatch)
    for _ in range(2):
        plane.once("/outcome", (503, {}))
    assert ends(cm, lambda r: order(r, Supplier())) == "completed"
    assert [body["verdict"] for body in plane.bodies("/outcome")] == ["landed"] * 3
    assert run.state == "completed"


def test_an_outcome_that_cannot_be_told_is_on_disk_before_anything_is_waited_for(plane: Double, cm: Countermand) -> None:
    plane.add()
    plane.once("/outcome", (502, {}))
    during: list[int] = []
    plane.once("/outcome", lambda body: during.append(len(cm.facts.spool.waiting())))  # type: ignore[arg-type,return-value,func-returns-value]
    assert ends(cm, lambda r: order(r, Supplier())) == "completed"
    assert during == [1] and cm.facts.spool.waiting() == []


def test_an_outcome_outlives_the_lease_and_is_delivered_at_the_next_start(plane: Double, cm: Countermand) -> None:
    plane.add()
    plane.ttl_s = 0.4

    def send(op: object) -> dict[str, str]:
        plane.down = True
        return {"id": "S-1"}

    assert ends(cm, lambda r: order(r, send)) == "lost"
    assert cm.facts.undelivered == 2  # the outcome, and that this worker has stopped
    plane.down = False
    before = len(plane.bodies("/outcome"))
    assert cm.deliver_spool() == 2 and cm.facts.undelivered == 0
    assert plane.bodies("/outcome")[before:][0]["external_id"] == "S-1"
    assert plane.calls[-1][1].endswith("/stopped")


@pytest.mark.parametrize(("status", "dead"), [(404, 1), (422, 1), (401, 0), (403, 0)])
def test_a_fact_that_can_never_be_accepted_is_kept_aside_and_said(
    plane: Double, cm: Countermand, caplog: pytest.LogCaptureFixture, status: int, dead: int
) -> None:
    plane.once("/outcome", (status, {"code": "not_found", "detail": "No such attempt."}))
    cm.facts.tell("outcome", "op", {"attempt": 1, "verdict": "landed"})
    graves = list((cm.facts.spool.folder / "dead").glob("*.json"))
    assert (len(graves), len(cm.facts.spool.waiting())) == (dead, 1 - dead)
    assert any(record.levelno >= logging.ERROR for record in caplog.records)


def test_one_bad_file_does_not_hold_up_the_rest(tmp_path: Path) -> None:
    spool, seen = Spool(tmp_path), []
    spool.append({"n": 1}).write_text("{torn")
    spool.append({"n": 2})
    assert spool.deliver(seen.append) == 2
    assert seen == [{"n": 2}] and len(list((tmp_path / "dead").iterdir())) == 1
