"""A house full of everything that a page can show, made through the domain's own verbs before any browser runs."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User

from console.auth import person_actor
from console.notifications import endpoints, states
from console.people import USERNAME
from ledger import compensations, rulebook
from ledger.models import Compensation, Effect
from ledger.prospects import Wanted
from ledger.rulebook import NewTerms
from reconciliation import cases, ceilings, files
from reconciliation.models import Case
from runs import approvals, bulk, cancellation, cleaning, leases, lifecycle, steps
from runs.actors import Actor
from runs.approvals import Question
from runs.models import Approval, Run
from tests.makers import WORKER, again, child_of, fresh, new_run, open_cases, send, settle, step, tell

TERMS = NewTerms(max_amount=1_000_000, days_after_landing=30, approvals=1, second_from=500_000)
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
DETAILS = {"why": "the customer asked for it", "text": "<b>bold</b> {{ braces }}"}


def somebody(name: str) -> Actor:
    """One of the world's people, as the domain sees them."""
    assert USERNAME.fullmatch(name)
    return person_actor(User.objects.get(username=name))


def furnish() -> dict[str, Any]:
    """One of everything; returns what addresses need: references and ids by the name of a thing."""
    rulebook.change(somebody("admin"), "supplier", "create_order", "EUR", TERMS, "the rule of the tests")
    running, landed = _running()
    doubtful, doubt = _doubtful()
    waiting = _waiting()
    return {
        "running": running.ref,
        "landed": landed.ref,
        "doubtful": doubtful.ref,
        "doubt": doubt.ref,
        "stopped": _stopped().ref,
        "cancelling": _cancelling().ref,
        "bare": new_run("", title="Nothing yet")[0].ref,
        "failed": _failed().ref,
        "approval": str(waiting.pk),
        "waiting": waiting.run.ref,
        "undo": _undo().ref,
        **{name: case.ref for name, case in _cases().items()},
        "bulk": str(_bulk().pk),
        "endpoint": str(_endpoint().pk),
        "person": User.objects.get(username="support2").pk,
    }


def _running() -> tuple[Run, Effect]:
    """Two steps, one of which says how far it is; a child; one effect landed, one in flight, one declared; clean-up; costs."""
    run, token = new_run(title="Order 12 pumps", business_ref="C-4711", plan=["order", "invoice", "mail"], labels={"customer": "4711"})
    landed = send(run, token, ref="PO-1")
    tell(landed, "landed", external_id="SO-1", amount=12500, currency="EUR")
    steps.finish(WORKER, run.pk, token, "order", "done", {"id": 1}, cost={"usd": 0.02, "tokens": 1200})
    step(run, token, "invoice", title="Wait for the invoice", hears_cancel_every_s=0.2)
    steps.progress(run.pk, token, [{"key": "invoice", "progress": 0.4, "message": "2 of 5 lines"}])
    send(run, token, ref="PO-2", step="second")
    cleaning.register(WORKER, run.pk, token, "stock", "release_stock", {"lines": 2})
    child_of(fresh(run), token, "w-c")
    return run, again(landed)


def _stopped() -> Run:
    """Cancelled, with an account: one landed, one never sent."""
    run, token = new_run(title="Order 7 valves")
    tell(send(run, token, ref="PO-3"), "landed", external_id="SO-3", amount=12500, currency="EUR")
    send(run, token, ref="PO-4", step="second", begin=False)
    cancellation.request_cancel(somebody("support"), run.pk, reason="The customer withdrew the order")
    leases.stopped(WORKER, run.pk, token)
    return run


def _doubtful() -> tuple[Run, Effect]:
    run, token = new_run(title="Order 2 belts")
    sent = send(run, token, ref="PO-9")
    tell(sent, "unknown")
    return run, sent.effect


def _cancelling() -> Run:
    run, token = new_run(title="Order 3 gearboxes")
    send(run, token, ref="PO-5")
    cancellation.request_cancel(somebody("support"), run.pk)
    return run


def _failed() -> Run:
    run, token = new_run(title="Order nothing")
    lifecycle.finish(WORKER, run.pk, token, "failed", error="The list of lines was empty")
    return run


def _waiting() -> Approval:
    action = {
        "provider": "supplier", "action": "create_order", "business_ref": "PO-6", "occurrence": 1,
        "amount": 420_000, "currency": "EUR", "request": {"lines": [1]},
    }  # fmt: skip
    run, token = new_run(title="Order a crane")
    return approvals.request(WORKER, run.pk, token, Question("ask", "Order a crane?", action=action, details=DETAILS))[0]


def _undo() -> Compensation:
    run, token = new_run(title="Order 2 hoses")
    sent = send(run, token, ref="PO-7")
    tell(sent, "landed", external_id="SO-7", amount=12500, currency="EUR")
    lifecycle.finish(WORKER, run.pk, token, "completed", {})
    wanted = Wanted(amount=12500, currency="EUR", reason="duplicate", note="ordered twice")
    return compensations.request(somebody("support"), sent.effect.pk, wanted)[0]


def disagreement(ref: str, title: str = "Order 9 belts") -> Case:
    """The case of an order whose sender said that it landed and then that it was refused."""
    run, token = new_run(title=title)
    sent = send(run, token, ref=ref)
    tell(sent, "landed", external_id="SO-8", amount=12500, currency="EUR")
    tell(sent, "refused")
    ceilings.open_wanted()
    return open_cases(run=run)[0]


def _cases() -> dict[str, Case]:
    """One that nobody has, one of each of two people, one that is settled."""
    free, mine, theirs, settled = [disagreement(f"PO-8{number}") for number in range(4)]
    support, other = somebody("support"), somebody("support2")
    cases.claim(support, mine.pk)
    files.keep(support, mine.pk, "screen.png", [PNG])
    cases.claim(other, theirs.pk)
    cases.claim(other, settled.pk)
    settle(settled, "happened", other)
    return {"free": free, "mine": mine, "theirs": theirs, "settled": settled}


def _bulk() -> Any:
    refs = [new_run("", title="Refund", agent="refunds", labels={"batch": "7"})[0].ref for _ in range(3)]
    return bulk.request(somebody("support"), "Started by mistake", names=refs)


def _endpoint() -> Any:
    wanted = endpoints.Wanted("Night shift", states.MAIL, "night@example.com", ("landed_after_cancel",))
    made = endpoints.add(somebody("admin"), wanted)
    endpoints.test(somebody("admin"), made.pk)
    return made
