"""Effects per second: our two commits in process, the same statements in bare psycopg (the limit), and DBOS steps on the same server."""

from __future__ import annotations

import statistics
import uuid
from typing import Any

from tests.bench import ground

ROUNDS, COUNT = 5, 200


def ours() -> Any:
    """One worker through the domain functions: declare and begin, then the outcome."""
    from ledger import intents, outcomes
    from ledger.operations import Intent
    from runs import actors, leases, lifecycle, steps
    from runs.actors import Actor

    worker = Actor("machine", "bench", "bench", "api", actors.MACHINE_SCOPES, frozenset({"*"}))
    made = lifecycle.create(worker, lifecycle.NewRun("bench", "Bench", {}), holder="w-1", ttl_s=600)
    assert made.grant is not None
    run, token = made.run, made.grant.token
    steps.start(worker, run.pk, token, steps.NewStep(key="order"))

    def one(number: int) -> None:
        intent = Intent("order", "supplier", "create_order", f"B-{uuid.uuid4()}", {"n": number}, ordinal=number, amount=1, currency="EUR")
        sent = intents.declare(worker, run.pk, token, uuid.uuid4().hex, intent)
        outcomes.report(worker, sent.effect.pk, 1, "landed", f"S-{number}", 1, "EUR")
        if number % 100 == 99:
            leases.heartbeat(worker, run.pk, token)

    return one


def bare() -> tuple[Any, Any]:
    """The same two commits as prepared statements of bare psycopg, on rows of the same tables."""
    import psycopg
    from psycopg.types.json import Jsonb

    from runs import actors, lifecycle, steps
    from runs.actors import Actor

    worker = Actor("machine", "bare", "bare", "api", actors.MACHINE_SCOPES, frozenset({"*"}))
    made = lifecycle.create(worker, lifecycle.NewRun("bench", "Bare", {}), holder="w-2", ttl_s=600)
    assert made.grant is not None
    run, token = made.run.pk, made.grant.token
    steps.start(worker, run, token, steps.NewStep(key="order"))
    connection = psycopg.connect(ground.SERVER.app_url())
    connection.prepare_threshold = 1
    cursor = connection.cursor()
    event = (
        "INSERT INTO runs_event (run_id, seq, kind, subject, actor_type, actor_id, actor_name, channel, data)"
        " VALUES (%s, %s, %s, %s, 'machine', 'bare', 'bare', 'api', %s)"
    )

    def one(number: int) -> None:
        op, ref = uuid.uuid4(), uuid.uuid4().hex[:12]
        cursor.execute(
            "UPDATE runs_run SET version = version + 1, in_flight = in_flight + 1, effects_total = effects_total + 1,"
            " changed_at = clock_timestamp() WHERE id = %s AND state = 'running' AND lease_token = %s"
            " AND lease_expires_at > clock_timestamp() RETURNING version, lease_epoch, clock_timestamp()",
            (run, token),
        )
        version, epoch, now = cursor.fetchone()  # type: ignore[misc]
        cursor.execute(
            "INSERT INTO ledger_effect (operation_id, ref, run_id, step_key, ordinal, role, provider, action, business_ref,"
            " occurrence, holds_action, amount, currency, request, request_digest, state, version, unknowable, doubted, release,"
            " withheld_why, landed_currency, external_id, how_we_know, known_by, provider_message, created_at, sent_at, answer_by,"
            " looks) VALUES (%s, %s, %s, 'order', %s, 'work', 'supplier', 'create_order', %s, 1, true, 1, 'EUR', %s, %s, 'sending',"
            " 1, false, false, '', '', '', '', '', '', '', %s, %s, %s, 0)",
            (op, ref, run, number, str(op), Jsonb({"n": number}), "0" * 64, now, now, now),
        )
        cursor.execute(
            "INSERT INTO ledger_attempt (id, effect_id, run_id, number, epoch, holder, nonce, state, position, sent_at, send_by,"
            " answer_by, stopped_how) VALUES (%s, %s, %s, 1, %s, 'w', %s, 'sending', %s, %s, %s, %s, '')",
            (uuid.uuid4(), op, run, epoch, uuid.uuid4().hex, version, now, now, now),
        )
        cursor.execute(event, (run, version, "effect.sending", ref, Jsonb({"attempt": 1})))
        connection.commit()
        cursor.execute("SELECT version, in_flight, landed FROM runs_run WHERE id = %s FOR NO KEY UPDATE", (run,))
        cursor.execute("SELECT state, version FROM ledger_effect WHERE operation_id = %s FOR UPDATE", (op,))
        cursor.execute(
            "INSERT INTO ledger_evidence (id, effect_id, attempt, source, verdict, used_as, external_id, currency, reference, at, body,"
            " body_sha256, request_id, signature, actor_type, actor_id, actor_name, detail)"
            " VALUES (%s, %s, 1, 'sender', 'landed', 'applied', %s, 'EUR', '', clock_timestamp(), '', '', '', '', 'machine', 'b', 'b', %s)",
            (uuid.uuid4(), op, f"S-{number}", Jsonb({})),
        )
        cursor.execute("UPDATE ledger_attempt SET state = 'landed', reported_at = %s WHERE effect_id = %s AND number = 1", (now, op))
        cursor.execute("UPDATE ledger_effect SET state = 'landed', version = 2, external_id = %s WHERE operation_id = %s", (ref, op))
        cursor.execute(
            "UPDATE runs_run SET version = version + 1, in_flight = in_flight - 1, landed = landed + 1 WHERE id = %s RETURNING version",
            (run,),
        )
        (version,) = cursor.fetchone()  # type: ignore[misc]
        cursor.execute(event, (run, version, "effect.landed", ref, Jsonb({"verdict": "landed"})))
        connection.commit()

    return one, connection


def measure() -> dict[str, Any]:
    """Effects per second and ratios."""
    limit, connection = bare()
    rates = ground.alternating(ROUNDS, COUNT, ours=ours(), bare=limit)
    connection.close()
    return {
        "effects per second, ours": round(statistics.median(rates["ours"])),
        "effects per second, bare psycopg": round(statistics.median(rates["bare"])),
        "ours / bare": round(ground.ratio(rates["ours"], rates["bare"]), 2),
    }


if __name__ == "__main__":
    with ground.ready():
        for name, value in measure().items():
            print(f"{name:40} {value}")  # noqa: T201
