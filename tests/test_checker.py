"""Every check of the checker bites: a good history passes, and each hand-made violation of it is named, by that check alone."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta

import pytest

from tests import checker
from tests.checker import History

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(seconds):
    return BEGAN + timedelta(seconds=seconds)


def event(seq, kind, subject="", **data):
    return {"run": "r1", "seq": seq, "kind": kind, "subject": subject, "actor_id": "u-1", "data": data, "at": at(seq)}


def good() -> History:
    """One run: its first effect landed; its second was not found, sent again, and cancelled in flight; one was withheld."""
    shared = {"run": "r1", "role": "work", "unknowable": False, "provider": "p", "action": "a", "occurrence": 1}
    effects = [
        {"operation_id": "o1", "ref": "E-1", "state": "landed", "doubted": False, "holds_action": True, "business_ref": "1"},
        {"operation_id": "o2", "ref": "E-2", "state": "unknown", "doubted": True, "holds_action": True, "business_ref": "2"},
        {"operation_id": "o3", "ref": "E-3", "state": "withheld", "doubted": False, "holds_action": False, "business_ref": "3"},
    ]
    for effect in effects:
        effect |= shared | {"request_digest": effect["ref"], "how_we_know": "sender"}
    attempts = [
        {"effect": "o1", "run": "r1", "number": 1, "position": 4, "epoch": 1},
        {"effect": "o2", "run": "r1", "number": 1, "position": 6, "epoch": 1},
        {"effect": "o2", "run": "r1", "number": 2, "position": 11, "epoch": 2},
    ]
    events = [
        event(1, "run.created"),
        event(2, "run.claimed", "w-1", epoch=1),
        event(3, "step.started", "s", epoch=1),
        event(4, "effect.sending", "E-1", epoch=1, attempt=1),
        event(5, "effect.landed", "E-1"),
        event(6, "effect.sending", "E-2", epoch=1, attempt=1),
        event(7, "effect.unknown", "E-2"),
        event(8, "lease.reaped", epoch=1),
        event(9, "effect.absent", "E-2"),
        event(10, "run.claimed", "w-2", epoch=2),
        event(11, "effect.sending", "E-2", epoch=2, attempt=2),
        event(12, "effect.declared", "E-3", epoch=2),
        event(13, "cancel.accepted"),
        event(14, "effect.withheld", "E-3"),
        event(15, "effect.unknown", "E-2"),
        event(16, "run.quiet", basis="stopped"),
        event(17, "run.cancelled"),
    ]
    evidence = [
        {"effect": "o1", "attempt": 1, "source": "sender", "verdict": "landed", "at": at(5)},
        {"effect": "o2", "attempt": 1, "source": "supervisor", "verdict": "sender_stopped", "at": at(8)},
    ]
    body = {name: [] for name in checker.BUCKETS} | {"landed": [{"ref": "E-1"}], "unknown": [{"ref": "E-2"}], "stopped": [{"ref": "E-3"}]}
    counts = {name: len(body[name]) for name in checker.BUCKETS}
    run = {"id": "r1", "ref": "R-1", "state": "cancelled", "version": 17, "cancel_position": 13, "needs_person": 1}
    run |= {"in_flight": 0, "in_doubt": 1, "unknowable": 0, "landed": 1, "effects_total": 3, "doubted": 1}
    undo = {"id": "c1", "run": "r1", "ref": "C-1", "requested_by": "u-1", "editors": ["u-4"], "excluded": ["u-5"], "approvals_needed": 2}
    undo |= {"version": 2, "digest": "d", "begun_at": at(19), "expires_at": at(30)}
    word = {"compensation": "c1", "decision": "approved", "version": 2, "digest": "d", "at": at(18)}
    receipt = {"in_flight": [{"operation_id": "o2", "attempt": 2}]}
    return History(
        runs=[run],
        events=events,
        effects=effects,
        attempts=attempts,
        evidence=evidence,
        leases=[{"run": "r1", "epoch": 1}, {"run": "r1", "epoch": 2}],
        cancels=[{"run": "r1", "mode": "cancel", "answer": "accepted", "position": 13, "at": at(13), "receipt": receipt}],
        approvals=[{"run": "r1", "key": "confirm", "state": "requested", "decided_by": ""}],
        compensations=[undo],
        decisions=[word | {"by": "u-2"}, word | {"by": "u-3"}],
        cases=[{"run": "r1", "state": "open"}],
        accounts=[{"run": "r1", "version": 1, "effects_total": 3, "body": body, **counts}],
        received=[{"operation_id": "o1", "attempt": 1, "executed": True}, {"operation_id": "o2", "attempt": 2, "executed": True}],
    )


def test_a_good_history_passes():
    assert checker.violations(good()) == []


def add_event(seq, kind, subject="", **data):
    return lambda h: h.events.append(event(seq, kind, subject, **data))


def change(rows, index, **values):
    return lambda h: getattr(h, rows)[index].update(values)


def drop(rows, index):
    return lambda h: getattr(h, rows).pop(index)


def account(h, **values):
    h.accounts[0] = copy.deepcopy(h.accounts[0]) | values


VIOLATIONS = [
    ("I1", add_event(18, "step.started", "late", epoch=2)),
    ("I1", add_event(18, "effect.declared", "E-9", epoch=2)),
    ("I1", add_event(18, "child.created", "R-2")),
    ("quiet", lambda h: (h.runs[0].update(cancel_position=None), add_event(18, "effect.sending", "E-1", epoch=2)(h))),
    ("I2", change("cancels", 0, receipt={"in_flight": []})),
    ("I2", change("cancels", 0, receipt={"in_flight": [{"operation_id": "o2", "attempt": 2}, {"operation_id": "o1", "attempt": 1}]})),
    ("I3", lambda h: h.events[9]["data"].update(epoch=3)),
    ("I3", lambda h: h.events[2]["data"].update(epoch=7)),
    ("I3", drop("leases", 0)),
    ("I4", lambda h: h.events[4].update(kind="effect.declared")),
    ("I4", change("effects", 0, state="refused")),
    ("I4", add_event(18, "run.completed")),
    ("I4", add_event(18, "run.woke")),
    ("I4", change("runs", 0, state="completed")),
    ("I5", lambda h: h.received.append({"operation_id": "o1", "attempt": 1, "executed": True})),
    ("I5", drop("events", 8)),
    ("I6", drop("evidence", 1)),
    ("I6", lambda h: h.evidence[1].update(at=at(9.5))),
    ("I7", drop("decisions", 0)),
    ("I7", change("decisions", 0, by="u-3")),
    ("I7", change("decisions", 0, by="u-1")),
    ("I7", change("decisions", 0, by="u-4")),
    ("I7", change("decisions", 0, by="u-5")),
    ("I7", change("decisions", 0, version=1)),
    ("I7", change("decisions", 0, digest="other")),
    ("I7", change("decisions", 0, decision="rejected")),
    ("I7", change("decisions", 0, at=at(20))),
    ("I7", change("compensations", 0, expires_at=at(19))),
    ("I8", change("runs", 0, in_flight=1)),
    ("I8", change("runs", 0, in_doubt=0)),
    ("I8", change("runs", 0, needs_person=0)),
    ("I8", change("runs", 0, landed=2)),
    ("I8", change("effects", 1, state="sending")),
    ("I8", change("runs", 0, version=18)),
    ("I8", drop("events", 0)),
    ("I9", change("attempts", 0, position=3)),
    ("I9", lambda h: h.events[3].update(subject="E-2")),
    ("I10", drop("received", 0)),
    ("I10", lambda h: h.received.append({"operation_id": "o3", "attempt": 1, "executed": True})),
    ("I11", lambda h: h.effects.append(h.effects[0] | {"request_digest": "another"})),
    ("I11", change("effects", 1, business_ref="1")),
    ("I11", change("effects", 2, holds_action=True)),
    ("I13", change("cancels", 0, position=12)),
    ("I13", lambda h: h.events[12].update(kind="cancel.repeated")),
    ("I14", drop("accounts", 0)),
    ("I14", lambda h: account(h, landed=2)),
    ("I14", lambda h: account(h, version=2)),
    ("I14", lambda h: account(h, body=h.accounts[0]["body"] | {"stopped": []})),
    ("I14", lambda h: account(h, body=h.accounts[0]["body"] | {"stopped": [{"ref": "E-1"}, {"ref": "E-3"}]})),
    ("I15", change("approvals", 0, state="approved", decided_by="u-1")),
    ("I15", lambda h: (change("approvals", 0, state="approved", decided_by="u-2")(h), add_event(18, "approval.approved", "confirm")(h))),
]


@pytest.mark.parametrize(("name", "spoil"), VIOLATIONS, ids=[f"{name}-{n}" for n, (name, _) in enumerate(VIOLATIONS)])
def test_each_violation_is_named(name, spoil):
    history = good()
    spoil(history)
    assert any(sentence.startswith(f"{name} ") for sentence in checker.violations(history)), name


def test_every_check_has_a_history_that_violates_it():
    assert {name for name, _ in VIOLATIONS} == set(checker.CHECKS)


def test_a_persons_word_may_differ_from_the_providers_log():
    history = good()
    history.effects[0]["how_we_know"] = "person"
    history.received.pop(0)
    assert checker.violations(history, ["I10"]) == []


def test_a_real_history_passes(database):
    from runs import cancellation, leases
    from tests.makers import SUPPORT, WORKER, let_time_pass, new_run, send, sweep, tell

    run, token = new_run()
    tell(send(run, token, ref="PO-1"), "landed")
    send(run, token, ref="PO-2", ordinal=1)
    declared = send(run, token, ref="PO-3", ordinal=2, begin=False)
    cancellation.request_cancel(SUPPORT, run.pk)
    leases.gone(WORKER, "w-1", "killed")
    let_time_pass(100)
    sweep()
    history = checker.export([run.pk])
    assert len(history.effects) == 3 and declared.effect.ref in {e["ref"] for e in history.effects}
    assert checker.violations(history, set(checker.CHECKS) - {"I10"}) == []
