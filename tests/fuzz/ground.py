"""A world in which every call has something to hit: each thing is the values that belong together, by the names that the API gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.auth import person_actor
from ledger import compensations, outcomes, rulebook
from ledger.models import Effect
from ledger.prospects import Wanted
from ledger.rulebook import NewTerms
from reconciliation import cases, states
from reconciliation.models import Case
from runs import approvals, bulk, cleaning, leases, preview
from runs.actors import system
from runs.models import Run
from tests.fakes import FAKE, webhook
from tests.fuzz.callers import support
from tests.makers import ADMIN, OTHER, SUPPORT, WORKER, again, cancel, child_of, fresh, new_run, nonce, send, settle, step, tell

Thing = dict[str, Any]

ACTION = {"provider": "supplier", "action": "create_order", "business_ref": "PO-A", "occurrence": 1, "request": {}}
EVIDENCE = {"external_id": "S-9", "seen_where": "provider_dashboard", "seen_at": "2026-03-02T14:02:07Z"}
HANDLER = "release-hold"

WORDS: Thing = {
    "agent": "purchase-order",
    "agents": ["purchase-order"],
    "provider": "supplier",
    "action": "create_order",
    "amount": 12500,
    "currency": "EUR",
    "occurrence": 1,
    "approval": None,
    "role": "work",
    "step": "order",
    "holder": "w-1",
    "handler": HANDLER,
    "handlers": [HANDLER],
    "reason": "The import was wrong.",
    "comment": "I looked.",
    "mode": "cancel",
    "until": "time",
    "wake_at": (timezone.now() + timedelta(days=1)).isoformat(),
    "expires_at": (timezone.now() + timedelta(days=1)).isoformat(),
    "deadline_at": (timezone.now() + timedelta(days=1)).isoformat(),
    "parent": None,
    "cleans": None,
}
"""What makes sense in any thing, where nothing better is known."""


def things(*names: str) -> list[Thing]:
    """Makes a world and says what is in it: all that has the names of a path, everything without names.

    `_raw` and `_headers` are sent as they are, where the description says no body; `_for` is how the path ends that a
    thing is meant for.
    """
    parts: dict[str, tuple[Callable[[], Iterator[Thing]], ...]] = {
        "run": (_runs, _effects),
        "effect": (_effects, _undoable),
        "operation_id": (_effects,),
        "approval": (_approvals,),
        "cleanup": (_cleanups,),
        "compensation": (_undos,),
        "case": (_cases,),
        "job": (_job,),
        "provider": (_news,),
        "holder": (_runs,),
    }
    every = dict.fromkeys(part for several in parts.values() for part in several)
    wanted = parts[names[0]] if names else every
    return [thing for part in wanted for thing in part()]


def _runs() -> Iterator[Thing]:
    for number in range(4):
        run, token = new_run(holder=f"w-{number}")
        step(run, token)
        yield {"run": run.ref, "lease": token, "key": "order", "runs": f"{run.ref}:1", "seen": fresh(run).version, "holder": f"w-{number}"}
    run, token = new_run(holder="w-7")
    child, _ = child_of(run, token)
    yield {
        "run": str(run.pk),
        "lease": token,
        "runs": [run.ref, child.ref],
        "parent": {"run": run.ref, "lease": token},
        "until": "child",
    } | {"child": child.ref}
    run, token = new_run()
    leases.release(WORKER, run.pk, token)
    yield {"run": run.ref, "mode": "terminate", "plan_digest": _plan(run), "seen": fresh(run).version}
    run, token = new_run(client_key="known")
    cancel(run)
    yield {"run": run.ref, "lease": token, "client_key": "known"}


def _plan(run: Run) -> str:
    digest: str = preview.preview(fresh(run))["plan_digest"]
    return digest


def _effects() -> Iterator[Thing]:
    run, token = new_run(holder="w-5")
    for number, verdict in enumerate(("declared", "declared", "", "", "landed", "refused", "unknown", "unknown")):
        mine = nonce()
        sent = send(run, token, mine, begin=verdict != "declared", ref=f"PO-{number}", ordinal=number)
        if verdict not in ("declared", ""):
            tell(sent, verdict)
        yield {
            "run": run.ref,
            "lease": token,
            "effect": sent.effect.ref,
            "operation_id": str(sent.effect.pk),
            "nonce": mine,
            "attempt": 1,
            "business_ref": f"PO-{number}",
            "external_id": "S-1" if verdict == "landed" else None,
            "_for": "/case" if verdict == "unknown" else "/outcome",
        }


def _approvals() -> Iterator[Thing]:
    for number in range(3):
        run, token = new_run()
        asked, _ = approvals.request(WORKER, run.pk, token, approvals.Question("ask", f"Order {number} pumps?", action=ACTION))
        yield {"approval": str(asked.pk), "digest": asked.digest}


def _cleanups() -> Iterator[Thing]:
    for number in range(5):
        run, token = new_run()
        cleaning.register(WORKER, run.pk, token, "hold", HANDLER, {"hold": number})
        cancel(run)
        leases.stopped(WORKER, run.pk, token)
    for _ in range(3):
        taken = cleaning.claim(WORKER, "c-1", [HANDLER], 600)
        assert taken is not None
        item, grant = taken
        yield {"cleanup": str(item.pk), "lease": grant.token, "handlers": [HANDLER]}


def _landed(ref: str) -> Effect:
    run, token = new_run()
    sent = send(run, token, ref=ref)
    tell(sent, "landed", external_id=f"S-{ref}")
    return again(sent)


def _allow_undoing() -> None:
    rulebook.change(ADMIN, "supplier", "create_order", "EUR", NewTerms(), "for everybody")


def _undos() -> Iterator[Thing]:
    _allow_undoing()
    for number in range(3):
        effect = _landed(f"PO-U{number}")
        asked, _ = compensations.request(SUPPORT, effect.pk, Wanted(12500, "EUR", "duplicate"))
        yield {"compensation": asked.ref, "version": 1, "amount": 12500}
    mine = compensations.request(person_actor(support()), _landed("PO-U8").pk, Wanted(12500, "EUR", "duplicate"))[0]
    yield {"compensation": mine.ref, "version": 1, "amount": 12500, "_for": "/compensations/{compensation}"}


def _undoable() -> Iterator[Thing]:
    _allow_undoing()
    for number in range(3):
        effect = _landed(f"PO-L{number}")
        yield {"effect": effect.ref, "external_id": None, "reason": "duplicate", "note": "", "amount": 12500, "currency": "EUR"} | {
            "provider": effect.provider,
            "action": effect.action,
            "business_ref": effect.business_ref,
            "_for": "/left-in-place",
        }


def _cases() -> Iterator[Thing]:
    finding = {"verdict": "happened", "evidence": EVIDENCE, "sender_gone": None, "surplus": None, "files": None, "belongs_to": None}
    for number in range(3):
        yield {"case": _case(f"PO-C{number}").ref, **finding}
    mine = [_case(f"PO-M{number}") for number in range(2)]
    for case in mine:
        cases.claim(person_actor(support()), case.pk)
        yield {"case": case.ref, **finding}
    for number in range(2):
        case = _case(f"PO-S{number}")
        settle(case, "cannot_be_known", OTHER)
        yield {"case": case.ref, "agree": True}
    yield {"case": mine[0].ref} | _form("shot.png", b"\x89PNG\r\n\x1a\n" + bytes(20))


def _case(ref: str) -> Case:
    run, token = new_run()
    sent = send(run, token, ref=ref)
    tell(sent, "unknown")
    with transaction.atomic(durable=True):
        return cases.open_for_effect(outcomes.lock(sent.effect.pk), states.CEILING, "Asking did not settle it.", system("test"))


def _form(name: str, content: bytes) -> Thing:
    head = f'--end\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
    return {"_raw": head + content + b"\r\n--end--\r\n", "_headers": {"Content-Type": "multipart/form-data; boundary=end"}}


def _job() -> Iterator[Thing]:
    run, _ = new_run()
    yield {"job": str(bulk.request(SUPPORT, "many", names=[run.ref]).pk)}
    yield {"runs": [run.ref], "_for": "/cancellations/bulk"}


def _news() -> Iterator[Thing]:
    run, token = new_run()
    sent = send(run, token, provider=FAKE, ref="PO-W").effect
    told = webhook("landed", sent.pk, reference=sent.provider_reference, amount=12500, currency="EUR")
    yield {"provider": FAKE, "_raw": told, "_headers": {"signature": "good", "Content-Type": "application/json"}}
