"""Approvals inside a run: asked, decided once by a person, spent once on exactly what they allow, and gone with the run."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from ledger import intents
from ledger.models import Attempt, Effect
from runs import actors, approvals, leases, lifecycle, preview, transition
from runs.actors import Actor
from runs.approvals import Question
from runs.errors import AlreadyDecided
from runs.models import Approval, Lease, Run, Step
from tests.makers import (
    APPROVER,
    OTHER,
    SUPPORT,
    WORKER,
    cancel,
    claim,
    fresh,
    intent,
    kinds,
    let_time_pass,
    new_run,
    nonce,
    refused,
    send,
    step,
    sweep,
    tell,
)
from tests.races.conftest import contenders  # noqa: F401
from tests.races.line import RUN

pytestmark = pytest.mark.usefixtures("counters")

ORDER = {
    "provider": "supplier",
    "action": "create_order",
    "business_ref": "PO-1042",
    "amount": 12500,
    "currency": "EUR",
    "request": {"lines": [1]},
}


def question(key: str = "confirm", **values) -> Question:
    return Question(key, "Send it?", action=ORDER | values)


def ask(run: Run, token: str, key: str = "confirm", expires_in_s: float | None = None, **values) -> Approval:
    asked = question(key, **values)
    if expires_in_s is not None:
        asked = replace(asked, expires_at=transition.clock() + timedelta(seconds=expires_in_s))
    approval, waits = approvals.request(WORKER, run.pk, token, asked)
    assert waits
    return approval


def approve(approval: Approval, actor: Actor = APPROVER) -> Approval:
    return approvals.decide(actor, approval.pk, "approved", seen_digest=approval.digest)


def reject(approval: Approval) -> Approval:
    return approvals.decide(APPROVER, approval.pk, "rejected", "The supplier is blocked.")


def asked_run(**values) -> tuple[Run, Approval]:
    run, token = new_run()
    return run, ask(run, token, **values)


def sends(run: Run, token: str, approval: Approval | None, **values):
    """The plan tries to send, whatever it was told."""
    wanted = intent(approval=approval and approval.pk, **values)
    step(run, token, wanted.step)
    return intents.declare(WORKER, run.pk, token, nonce(), wanted)


def stored(approval: Approval) -> Approval:
    return Approval.objects.get(pk=approval.pk)


# Waiting costs nothing ----------------------------------------------------------------------------------------------


def test_it_waits_without_lease_or_process_for_days_and_over_restarts():
    run, approval = asked_run(expires_in_s=5 * 86400)
    assert (fresh(run).state, fresh(run).lease_token, fresh(run).waits_for) == (
        "awaiting_approval",
        None,
        {"kind": "approval", "approval": str(approval.pk)},
    )
    assert Lease.objects.get(run=run).stopped_how == "worker"
    for _ in range(4):
        let_time_pass(86400)
        sweep()
        assert leases.claim(WORKER, "w-2", ["purchase-order"]) is None
    assert fresh(run).state == "awaiting_approval"
    approve(approval)
    assert (fresh(run).state, fresh(run).waits_for) == ("scheduled", None)
    run, token = claim("w-2")
    again, waits = approvals.request(WORKER, run.pk, token, question())
    assert (again.pk, again.state, waits) == (approval.pk, "approved", False)
    assert fresh(run).lease_token == token, "decided: the plan goes on at once"


def test_who_approved_what_stands_on_the_step():
    run, approval = asked_run()
    assert Step.objects.get(run=run).state == "waiting"
    approve(approval)
    made = Step.objects.get(run=run)
    assert (made.kind, made.state) == ("approval", "done")
    assert made.result == {"decision": "approved", "by": "Amy Approver", "comment": "", "digest": approval.digest}
    assert "approval.approved" in kinds(run)


def test_nothing_may_be_in_flight():
    run, token = new_run()
    sent = send(run, token)
    with refused("effects_in_flight"):
        approvals.request(WORKER, run.pk, token, question(business_ref="PO-2"))
    assert fresh(run).lease_token == token
    tell(sent, "landed")


def test_the_same_key_never_asks_for_something_else():
    run, approval = asked_run()
    approve(approval)
    run, token = claim("w-2")
    with refused("digest_changed"):
        approvals.request(WORKER, run.pk, token, question(amount=12501))


# Only a person, only once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "actor",
    [
        WORKER,
        Actor("machine", "t", "a token with everything", "api", APPROVER.scopes | actors.MACHINE_SCOPES, frozenset({"*"})),
        actors.system("sweep"),
        SUPPORT,
    ],
)
def test_no_token_no_system_and_nobody_without_the_right_decides(actor):
    run, approval = asked_run()
    with refused("not_allowed"):
        approvals.decide(actor, approval.pk, "approved")
    assert (stored(approval).state, fresh(run).state) == ("requested", "awaiting_approval")


def test_decided_once():
    run, approval = asked_run()
    reject(approval)
    with refused("already_decided") as told:
        approve(approval)
    assert "Already rejected by Amy Approver" in told.value.detail
    assert stored(approval).state == "rejected"


def test_two_people_at_once(contenders):  # noqa: F811
    run, approval = asked_run()
    first, second = contenders.race(RUN, (run.pk,), lambda: approve(approval), lambda: reject(approval))
    assert first.state == "approved" and isinstance(second, AlreadyDecided)
    assert kinds(run).count("run.woke") == 1


def test_what_was_seen_must_be_what_is_asked():
    _, approval = asked_run()
    with refused("already_decided"):
        approvals.decide(APPROVER, approval.pk, "approved", seen_digest="something else")
    assert stored(approval).state == "requested"


def test_a_rejection_needs_a_reason_and_the_plan_gets_it():
    run, approval = asked_run()
    with refused("invalid"):
        approvals.decide(APPROVER, approval.pk, "rejected", "  ")
    reject(approval)
    run, token = claim("w-2")
    again, _ = approvals.request(WORKER, run.pk, token, question())
    assert (again.state, again.decided_name, again.comment) == ("rejected", "Amy Approver", "The supplier is blocked.")


# The controller decides, not the plan -------------------------------------------------------------------------------


def test_a_plan_that_ignores_a_rejection_cannot_send():
    run, approval = asked_run()
    reject(approval)
    run, token = claim("w-2")
    with refused("approval_mismatch") as told:
        sends(run, token, approval)
    assert told.value.facts["state"] == "rejected"
    assert not Effect.objects.exists() and not Attempt.objects.exists()
    assert fresh(run).in_flight == 0


def test_expired_exactly_at_its_time(owner_connection):
    """The boundary is expired: nobody can approve, and the plan is told."""
    run, approval = asked_run(expires_in_s=60)
    at = stored(approval).expires_at
    owner_connection.execute("UPDATE runs_approval SET expires_at = clock_timestamp() WHERE id = %s", (approval.pk,))
    assert stored(approval).expires_at < at
    with refused("expired"):
        approve(approval)
    assert (stored(approval).state, fresh(run).state) == ("expired", "scheduled")
    run, token = claim("w-2")
    again, waits = approvals.request(WORKER, run.pk, token, question())
    assert (again.state, waits) == ("expired", False)
    with refused("approval_mismatch"):
        sends(run, token, approval)


@pytest.mark.parametrize(("seconds_left", "state"), [(0, "expired"), (0.000001, "requested"), (-0.000001, "expired")])
def test_the_boundary_itself(monkeypatch, seconds_left, state):
    run, approval = asked_run(expires_in_s=60)
    now = stored(approval).expires_at - timedelta(seconds=seconds_left)
    monkeypatch.setattr(transition, "clock", lambda: now)
    assert approvals.expire(approval.pk) == (state == "expired")
    monkeypatch.undo()
    assert stored(approval).state == state


def test_the_sweep_expires_what_nobody_decided_and_wakes_the_run():
    run, approval = asked_run(expires_in_s=60)
    let_time_pass(61)
    sweep()
    assert (stored(approval).state, stored(approval).decided_name, fresh(run).state) == ("expired", "deadline", "scheduled")


def test_approved_and_then_too_old_to_be_spent():
    run, approval = asked_run(expires_in_s=60)
    approve(approval)
    let_time_pass(61)
    run, token = claim("w-2")
    with refused("approval_mismatch") as told:
        sends(run, token, approval)
    assert told.value.facts["state"] == "expired"
    assert stored(approval).spent_on is None


@pytest.mark.parametrize(
    "other",
    [
        {"amount": 12501},
        {"currency": "USD"},
        {"ref": "PO-1043"},
        {"request": {"lines": [1, 2]}},
        {"provider": "fake"},
        {"action": "cancel_order"},
    ],
    ids=lambda other: next(iter(other)),
)
def test_for_anything_else_it_is_worth_nothing(fake, other):
    run, approval = asked_run()
    approve(approval)
    run, token = claim("w-2")
    with refused("approval_mismatch"):
        sends(run, token, approval, **other)
    assert stored(approval).spent_on is None
    assert not Effect.objects.exists()
    assert sends(run, token, approval).kind == "sending", "still good for what was approved"


def test_spent_once():
    run, approval = asked_run()
    approve(approval)
    run, token = claim("w-2")
    sent = sends(run, token, approval)
    assert (stored(approval).spent_on, Effect.objects.get().approval_id) == (sent.effect.pk, approval.pk)
    tell(sent, "refused")
    with refused("approval_mismatch") as told:
        sends(run, token, approval, ordinal=1)
    assert told.value.facts["state"] == "spent"


def test_the_next_attempt_of_the_same_operation_needs_no_new_one():
    run, approval = asked_run()
    approve(approval)
    run, token = claim("w-2")
    sent = sends(run, token, approval)
    tell(sent, "not_sent")
    assert intents.begin(WORKER, sent.effect.pk, token, nonce(), approval.pk).attempt.number == 2
    assert stored(approval).spent_on == sent.effect.pk


def test_of_another_run():
    _, approval = asked_run()
    approve(approval)
    claim("w-2")
    run, token = new_run("w-3")
    with refused("approval_mismatch"):
        sends(run, token, approval)
    with refused("approval_mismatch"):
        sends(run, token, replace_id(approval))


def replace_id(approval: Approval) -> Approval:
    return Approval(pk=uuid.uuid4(), run=approval.run)


# The cancel takes it back -------------------------------------------------------------------------------------------


def test_a_cancel_withdraws_it_and_a_second_later_nobody_can_approve():
    run, approval = asked_run()
    cancel(run, actor=OTHER)
    gone = stored(approval)
    assert (gone.state, gone.comment, gone.decided_name) == ("withdrawn", "Olga Other asked to cancel the run.", "Olga Other")
    assert fresh(run).state == "cancelled", "nothing was left to do"
    let_time_pass(1)
    before = fresh(run).version
    with refused("already_decided") as told:
        approve(approval)
    assert told.value.detail == "Withdrawn: Olga Other asked to cancel the run. Your decision changed nothing."
    assert (stored(approval).state, fresh(run).version, fresh(run).state) == ("withdrawn", before, "cancelled")
    sweep()
    assert "run.woke" not in kinds(run)


@pytest.mark.parametrize("cancel_first", [True, False])
def test_approving_in_the_instant_of_the_cancel(contenders, cancel_first):  # noqa: F811
    run, approval = asked_run()
    acts = [lambda: cancel(run), lambda: approve(approval)]
    contenders.race(RUN, (run.pk,), *(acts if cancel_first else reversed(acts)))
    assert fresh(run).state == "cancelled"
    assert stored(approval).state == ("withdrawn" if cancel_first else "approved")
    assert leases.claim(WORKER, "w-9", ["purchase-order"]) is None


def test_approved_and_unspent_when_the_run_is_cancelled():
    run, approval = asked_run()
    approve(approval)
    run, token = claim("w-2")
    step(run, token)
    cancel(run)
    with refused("cancelled"):
        intents.declare(WORKER, run.pk, token, nonce(), intent(approval=approval.pk))
    assert stored(approval).spent_on is None
    leases.stopped(WORKER, run.pk, token)


def test_every_end_withdraws_what_is_undecided():
    run, approval = asked_run()
    asked = stored(approval)
    terminated = cancel(
        run,
        actor=Actor("person", "u-admin", "Ada Admin", "web", SUPPORT.scopes | {actors.RUN_TERMINATE}),
        mode="terminate",
        reason="stuck",
        plan_digest=_digest(run),
    )
    assert (terminated.kind, stored(asked).state) == ("accepted", "withdrawn")
    run, token = new_run()
    lifecycle.finish(WORKER, run.pk, token, "completed", {})
    with refused("lease_lost"):
        approvals.request(WORKER, run.pk, token, question("more"))


def _digest(run: Run) -> str:
    return preview.preview(fresh(run))["plan_digest"]
