"""The plain case of an outcome, in as few round trips as the order of locks allows: the first report of the only attempt of a running run.

It is the same change as `outcomes.apply` makes (a test compares the two, row by row), written out because every effect pays for it:
the run is locked first, everything is decided from statements that run after that, and the writes travel together.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from django.db import connection
from psycopg.types.json import Jsonb

from ledger import settling, states
from ledger.models import Effect
from runs import actors
from runs.actors import Actor
from runs.ids import new_id
from runs.timeline import INSERT_EVENT, event_values

if TYPE_CHECKING:
    from ledger.outcomes import Fact

_LOCK_RUN = """
SELECT r.id, r.agent, r.state, r.version FROM runs_run r
WHERE r.id = (SELECT run_id FROM ledger_effect WHERE operation_id = %s) FOR NO KEY UPDATE OF r
"""
_READ = """
SELECT e.ref, e.role, e.state, e.business_ref, e.occurrence, e.amount, e.currency, e.version, a.number, a.state, a.reported_at,
       clock_timestamp()
FROM ledger_effect e JOIN ledger_attempt a ON a.effect_id = e.operation_id WHERE e.operation_id = %s FOR UPDATE OF e
"""
_EVIDENCE = """
INSERT INTO ledger_evidence (id, effect_id, attempt, source, verdict, used_as, external_id, amount, currency, reference, provider_time,
    at, body, body_sha256, request_id, signature, actor_type, actor_id, actor_name, detail)
VALUES (%s, %s, %s, 'sender', %s, 'applied', %s, %s, %s, '', %s, %s, %s, %s, '', '', %s, %s, %s, %s)
"""
_ATTEMPT = """
UPDATE ledger_attempt SET state = %s, reported_at = %s, stopped_at = coalesce(stopped_at, %s),
    stopped_how = CASE WHEN stopped_at IS NULL THEN 'outcome' ELSE stopped_how END
WHERE effect_id = %s AND number = %s
"""
_EFFECT = """
UPDATE ledger_effect SET state = %s, version = version + 1, external_id = coalesce(nullif(%s, ''), external_id),
    provider_time = coalesce(%s, provider_time), landed_amount = %s, landed_currency = %s, how_we_know = 'sender', known_by = '',
    provider_message = coalesce(nullif(%s, ''), provider_message),
    known_position = %s, known_at = %s, holds_action = %s, next_look_at = NULL, person_after = NULL, look_token = NULL, look_until = NULL
WHERE operation_id = %s
"""
_RUN = """
UPDATE runs_run SET version = %s, in_flight = in_flight - 1, landed = landed + %s, changed_at = clock_timestamp() WHERE id = %s
"""


def settle(actor: Actor, operation_id: uuid.UUID, attempt: int, fact: Fact) -> tuple[str, Effect] | None:
    """Settle the effect if its case is plain; None (with the run locked, nothing written) when it takes the long way."""
    if fact.verdict not in (states.LANDED, states.REFUSED):
        return None
    with connection.cursor() as cursor:
        cursor.execute(_LOCK_RUN, (operation_id,))
        run = cursor.fetchone()
        if run is None:
            return None
        cursor.execute(_READ, (operation_id,))
        rows = cursor.fetchall()
        if run[2] != "running" or len(rows) != 1 or not _is_plain(rows[0], attempt, fact):
            return None
        actor.require(actors.RUN_WORK, run[1])
        return settling.APPLIED, _write(cursor, actor, operation_id, run, rows[0], fact)


def _is_plain(row: tuple[Any, ...], attempt: int, fact: Fact) -> bool:
    _, role, state, business_ref, occurrence, amount, currency, _, number, attempt_state, reported_at, _ = row
    as_asked = (
        occurrence == 1 and fact.reference in ("", business_ref) and fact.amount in (None, amount) and fact.currency in ("", currency)
    )
    fresh = state == attempt_state == states.SENDING and number == attempt and reported_at is None
    return role == states.WORK and fresh and as_asked


def _write(cursor: Any, actor: Actor, op: uuid.UUID, run: tuple[Any, ...], row: tuple[Any, ...], fact: Fact) -> Effect:
    run_id, _, _, version = run
    ref, _, _, _, _, amount, currency, effect_version, number, _, _, now = row
    landed = fact.verdict == states.LANDED
    landed_amount = (amount if fact.amount is None else fact.amount) if landed else None
    landed_currency = (fact.currency or currency) if landed else ""
    data = {"verdict": fact.verdict, "source": "sender", "used_as": settling.APPLIED, "attempt": number}
    who = (actor.type, actor.id, actor.name)
    with connection.wrap_database_errors, connection.connection.pipeline():
        observed = (fact.external_id, fact.amount, fact.currency, fact.provider_time, now, fact.body, fact.body_sha256)
        cursor.execute(_EVIDENCE, (new_id(), op, number, fact.verdict, *observed, *who, Jsonb(fact.detail)))
        cursor.execute(_ATTEMPT, (fact.verdict, now, now, op, number))
        said = str(fact.detail.get("message", ""))[:500]
        known = (fact.external_id, fact.provider_time, landed_amount, landed_currency, said, version + 1, now, landed)
        cursor.execute(_EFFECT, (fact.verdict, *known, op))
        cursor.execute(_RUN, (version + 1, int(landed), run_id))
        cursor.execute(INSERT_EVENT, event_values(run_id, version + 1, f"effect.{fact.verdict}", actor, ref, data))
    return Effect.from_db(
        "default",
        ["operation_id", "ref", "run_id", "state", "version", "external_id"],
        [op, ref, run_id, fact.verdict, effect_version + 1, fact.external_id],
    )
