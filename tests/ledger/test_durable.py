"""One commit by one function: no verb can be made a part of somebody else's transaction, which might never be committed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.db import transaction

from ledger import absences, compensations, executing, intents, leaving, occurrences, outcomes
from reconciliation import cases, findings, looks
from reconciliation.evidence import Finding
from runs import actors, cancellation, cleaning, leases, lifecycle, sealing, steps
from runs.lifecycle import NewRun
from tests.makers import APPROVER, SUPPORT, WORKER, intent, new_run, nonce, send, tell
from tests.undo import ask, landed

pytestmark = pytest.mark.usefixtures("refunding")
OPENER = replace(SUPPORT, scopes=SUPPORT.scopes | {actors.OCCURRENCE_OPEN})


def verbs() -> dict[str, Callable[[], Any]]:
    run, token = new_run()
    sent = send(run, token).effect
    doubtful = send(run, token, ref="PO-2", ordinal=2).effect
    tell(doubtful, "unknown")
    effect = landed("PO-3")[1]
    request = ask(landed("PO-4")[1])
    nobody = uuid.uuid4()
    return {
        "claim": lambda: leases.claim(WORKER, "w-1", ["purchase-order"]),
        "heartbeat": lambda: leases.heartbeat(WORKER, run.pk, token),
        "release": lambda: leases.release(WORKER, run.pk, token),
        "stopped": lambda: leases.stopped(WORKER, run.pk, token),
        "gone": lambda: leases.gone(WORKER, "w-1", "killed"),
        "create": lambda: lifecycle.create(WORKER, NewRun("purchase-order", "Order", {})),
        "finish": lambda: lifecycle.finish(WORKER, run.pk, token, "completed", {}),
        "start a step": lambda: steps.start(WORKER, run.pk, token, steps.NewStep(key="k")),
        "clean": lambda: cleaning.register(WORKER, run.pk, token, "hold", "h", {}),
        "cancel": lambda: cancellation.request_cancel(SUPPORT, run.pk),
        "hear": lambda: cancellation.heard(WORKER, run.pk, token),
        "cancel by key": lambda: cancellation.cancel_by_key(SUPPORT, "purchase-order", "k"),
        "declare": lambda: intents.declare(WORKER, run.pk, token, nonce(), intent(ref="PO-9")),
        "report": lambda: outcomes.report(WORKER, sent.pk, 1, "landed", "S-1"),
        "ask after all": lambda: absences.ask(WORKER, sent.pk),
        "open an occurrence": lambda: occurrences.open_next(OPENER, "fake", "charge", "PO-3", "stolen"),
        "leave": lambda: leaving.leave_in_place(SUPPORT, effect.pk, "kept"),
        "ask for an undo": lambda: ask(effect),
        "change an undo": lambda: compensations.edit(SUPPORT, request.pk, 1, {"note": "x"}),
        "decide on an undo": lambda: compensations.decide(APPROVER, request.pk, "approved", 1),
        "withdraw an undo": lambda: compensations.withdraw(SUPPORT, request.pk, "no"),
        "let an undo lapse": lambda: compensations.lapse(request.pk),
        "carry out an undo": lambda: executing.begin(request.pk, nonce()),
        "settle a case": lambda: findings.settle(SUPPORT, nobody, Finding("happened")),
        "confirm a finding": lambda: findings.confirm(SUPPORT, nobody, True),
        "pass a case on": lambda: findings.pass_on(SUPPORT, nobody, ""),
        "claim a case": lambda: cases.claim(SUPPORT, nobody),
        "check now": lambda: findings.check_now(SUPPORT, doubtful.pk),
        "take looks": lambda: looks.take_due(),
        "seal": lambda: sealing.seal_due(),
    }


def test_every_verb_commits_by_itself(subtests: pytest.Subtests):
    for name, verb in verbs().items():
        with subtests.test(name), transaction.atomic(), pytest.raises(RuntimeError, match="durable"):
            verb()
