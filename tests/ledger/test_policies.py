"""What administrators require of an action, and that no plan, no declare in two calls and no cleanup gets round it."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ledger import intents, policies
from ledger.models import ActionPolicy, Effect
from runs import approvals, leases
from runs.actors import Actor
from runs.approvals import Question
from runs.models import Event
from tests.makers import (
    ADMIN,
    APPROVER,
    SUPPORT,
    WORKER,
    claim,
    intent,
    let_time_pass,
    new_run,
    nonce,
    refused,
    send,
    step,
)
from tests.makers import tell as tells

pytestmark = pytest.mark.usefixtures("counters")


def require(needs: str = "always", over: str | None = None, action: str = "create_order", provider: str = "supplier") -> ActionPolicy:
    return policies.require_approval(ADMIN, provider, action, needs, Decimal(over) if over else None, "So the board decided.")


def sends(ref: str, **values) -> str:
    """What became of the attempt to send: `sending`, or the code of the refusal."""
    run, token = new_run()
    try:
        return send(run, token, ref=ref, **values).kind
    except Exception as refusal:
        assert not Effect.objects.filter(run=run, state="sending").exists()
        return refusal.code  # type: ignore[attr-defined]
    finally:
        leases.gone(WORKER, "w-1", "exit 0")


@pytest.mark.parametrize("actor", [WORKER, SUPPORT, APPROVER, Actor("machine", "t", "t", "api", ADMIN.scopes, frozenset({"*"}))])
def test_only_administrators_set_it(actor):
    with refused("not_allowed"):
        policies.require_approval(actor, "supplier", "create_order", "never")
    assert not ActionPolicy.objects.exists()


def test_every_change_is_on_record():
    require("over", "5000.00")
    policy = require("never")
    first, second = Event.objects.filter(kind="policy.changed").order_by("id")
    assert (second.actor_name, second.subject, second.run) == ("Ada Admin", "supplier.create_order", None)
    assert first.data["before"] == {"needs_approval": "never", "over_major": None}
    assert second.data["before"] == first.data["after"] == {"needs_approval": "over", "over_major": "5000"}
    assert second.data["reason"] == "So the board decided."
    assert first.data["version"] < second.data["version"] == policy.version


@pytest.mark.parametrize(("needs", "over"), [("sometimes", None), ("over", None), ("over", "-1")])
def test_what_makes_no_sense_is_refused(needs, over):
    with refused("invalid"):
        require(needs, over)


@pytest.mark.parametrize(
    ("amount", "currency", "answer"),
    [
        (500000, "EUR", "sending"),
        (500001, "EUR", "approval_required"),
        (5000, "JPY", "sending"),
        (5001, "JPY", "approval_required"),
        (5000000, "BHD", "sending"),
        (5000001, "BHD", "approval_required"),
        (None, "", "approval_required"),
    ],
)
def test_over_an_amount_in_the_currency_s_own_units(amount, currency, answer):
    """Exponents come from ISO 4217; what has no amount cannot be shown to be under a limit."""
    require("over", "5000.00")
    assert sends("PO-1", amount=amount, currency=currency) == answer


def test_always_never_and_other_actions(fake):
    require("always")
    assert sends("PO-1") == "approval_required"
    assert sends("PO-2", action="cancel_order") == "sending"
    assert sends("PO-3", provider="fake") == "sending"
    require("never")
    assert sends("PO-4") == "sending"


def approved(over: dict | None = None, approve: bool = True):
    """A claimed run with a decided approval of its order."""
    wanted = intent(**(over or {}))
    action = {
        "provider": wanted.provider,
        "action": wanted.action,
        "business_ref": wanted.business_ref,
        "amount": wanted.amount,
        "currency": wanted.currency,
        "request": wanted.request,
    }
    run, token = new_run()
    approval, _ = approvals.request(WORKER, run.pk, token, Question("confirm", "Send it?", action=action))
    if approve:
        approvals.decide(APPROVER, approval.pk, "approved")
    else:
        approvals.decide(APPROVER, approval.pk, "rejected", "No.")
    run, token = claim("w-2")
    step(run, token)
    return run, token, approval


def test_the_approval_that_fits_opens_the_way():
    require("always")
    run, token, approval = approved()
    with refused("approval_required"):
        intents.declare(WORKER, run.pk, token, nonce(), intent())
    sent = intents.declare(WORKER, run.pk, token, nonce(), intent(approval=approval.pk))
    assert (sent.kind, sent.effect.approval_id) == ("sending", approval.pk)
    tells(sent, "landed")


def test_a_plan_that_was_told_no_has_no_way_round():
    require("always")
    run, token, approval = approved(approve=False)
    for named in (None, approval.pk):
        with refused("approval_required" if named is None else "approval_mismatch"):
            intents.declare(WORKER, run.pk, token, nonce(), intent(approval=named))
    assert not Effect.objects.exists()


@pytest.mark.parametrize("other", [{"amount": 12600}, {"ref": "PO-9"}, {"request": {"lines": [2]}}])
def test_approved_for_another_amount_reference_or_request(other):
    require("always")
    run, token, approval = approved()
    with refused("approval_mismatch"):
        intents.declare(WORKER, run.pk, token, nonce(), intent(approval=approval.pk, **other))
    assert not Effect.objects.exists()


def test_declared_first_and_begun_later_needs_it_too():
    require("always")
    run, token, approval = approved()
    put = intents.declare(WORKER, run.pk, token, nonce(), intent(), begin=False)
    with refused("approval_required"):
        intents.begin(WORKER, put.effect.pk, token, nonce())
    assert intents.begin(WORKER, put.effect.pk, token, nonce(), approval.pk).kind == "sending"
    tells(put, "landed")


def test_a_limit_that_is_set_between_declare_and_begin_holds():
    run, token = new_run()
    put = send(run, token, begin=False)
    require("always")
    with refused("approval_required"):
        intents.begin(WORKER, put.effect.pk, token, nonce())


def test_one_approval_is_not_enough_for_two_operations():
    require("always")
    run, token, approval = approved()
    sent = intents.declare(WORKER, run.pk, token, nonce(), intent(approval=approval.pk))
    tells(sent, "refused")
    with refused("approval_mismatch"):
        intents.declare(WORKER, run.pk, token, nonce(), intent(approval=approval.pk, ordinal=1))


def test_an_approval_that_was_given_days_ago_is_worth_nothing():
    require("always")
    run, token, approval = approved()
    let_time_pass(73 * 3600)
    run, token = claim("w-3")
    step(run, token)
    with refused("approval_mismatch"):
        intents.declare(WORKER, run.pk, token, nonce(), intent(approval=approval.pk))
