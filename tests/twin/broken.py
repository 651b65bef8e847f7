"""Variants with one rule removed, for the twin to find out. Each says what the checker is expected to say."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from ledger import intents, outcomes, states
from ledger.operations import Permission
from reconciliation import looks, verdicts
from runs import leases
from runs.actors import Actor
from runs.book import book

Sabotage = Callable[[pytest.MonkeyPatch], str]

_READS_ONLY = """
SELECT version + 1, lease_epoch, lease_holder, agent, clock_timestamp(), lease_expires_at FROM runs_run
WHERE %s IS NOT NULL AND id = %s AND state = 'running' AND lease_token = %s AND lease_expires_at > clock_timestamp()
"""
_COUNTS = """
UPDATE runs_run SET version = version + 1, effects_total = effects_total + 1, in_flight = in_flight + 1
WHERE id = %s RETURNING version
"""


def no_row_lock(monkeypatch: pytest.MonkeyPatch) -> str:
    """The fence reads the run without locking it, and counts when it writes."""
    fence, inserted, made, told = intents._FENCE, intents._insert, intents.new_attempt, intents.event_values
    positions: list[int] = []
    inserting: list[bool] = []

    def insert(*values: Any) -> Permission:
        begins = values[-1]
        positions.clear()
        inserting[:] = [True] if begins else []
        monkeypatch.setattr(intents, "_FENCE", _READS_ONLY if begins else fence)
        try:
            return inserted(*values)
        finally:
            inserting.clear()

    def new_attempt(effect: Any, number: int, epoch: int, holder: str, nonce: str, position: int, *rest: Any) -> Any:
        if inserting:
            with connection.cursor() as cursor:
                cursor.execute(_COUNTS, [effect.run_id])
                position = cursor.fetchone()[0]
                positions.append(position)
        return made(effect, number, epoch, holder, nonce, position, *rest)

    monkeypatch.setattr(intents, "_insert", insert)
    monkeypatch.setattr(intents, "new_attempt", new_attempt)
    monkeypatch.setattr(intents, "event_values", lambda run, version, *rest: told(run, positions[0] if positions else version, *rest))
    return "I1 .*after its cancel"


def blind_resend(monkeypatch: pytest.MonkeyPatch) -> str:
    """What is in doubt is begun again as if nothing of it could have left, and no run waits for evidence."""
    again = intents._again_fenced.__wrapped__

    def begin_anyway(actor: Actor, run_id: uuid.UUID, token: str, nonce: str, intent: Any, begin: bool) -> Permission:
        run = leases.fence(actor, run_id, token)
        held = outcomes.lock_in(run, intents.operation_id(run_id, intent.step, intent.ordinal))
        if held.effect.state == states.UNKNOWN and begin:
            return intents._begin(actor, held, nonce, intent)
        return again(actor, run_id, token, nonce, intent, begin)

    monkeypatch.setattr(intents, "_again_fenced", leases.act("effect.begin")(begin_anyway))
    monkeypatch.setitem(states.MOVES, states.UNKNOWN, states.MOVES[states.UNKNOWN] | {states.SENDING})
    monkeypatch.setattr(type(book()), "condition_met", lambda *_: True)
    return "I5 .*began after|executed [2-9] times"


def absent_by_timeout(monkeypatch: pytest.MonkeyPatch) -> str:
    """Past send_by, and its lease gone: taken for a sender that has stopped."""
    ended = lambda a: a.stopped_at or (a.send_by if a.epoch != a.run.lease_epoch or a.run.lease_token is None else None)  # noqa: E731
    monkeypatch.setattr(looks, "senders", lambda held: [verdicts.Sender(ended(a), a.state == "not_sent") for a in held.attempts])
    return "I6 .*never known to be stopped"


ALL: tuple[Sabotage, ...] = (no_row_lock, blind_resend, absent_by_timeout)
