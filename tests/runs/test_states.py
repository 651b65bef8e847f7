"""The one table of moves, and the database's own guards: whatever Python would let through, PostgreSQL does not."""

from __future__ import annotations

from itertools import product

import psycopg
import pytest
from django.db import connection
from psycopg import sql

from runs import states
from runs.models import Run
from tests import platform
from tests.makers import fresh, new_run

pytestmark = pytest.mark.usefixtures("database")

_SHAPE = """state = %(state)s, cancel_position = 1, in_flight = 0,
    closed_at = CASE WHEN %(closed)s THEN clock_timestamp() END,
    lease_token = CASE WHEN %(leased)s THEN 't' END, lease_holder = CASE WHEN %(leased)s THEN 'w' END,
    lease_expires_at = CASE WHEN %(leased)s THEN clock_timestamp() END"""


def shape(state):
    return {"state": state, "closed": state in states.CLOSED, "leased": state == states.RUNNING}


def test_every_move_is_allowed_or_refused_as_the_table_says():
    """The full state × state matrix, by UPDATE, in every shape that the other constraints would accept."""
    run, _ = new_run()
    allowed = set()
    with psycopg.connect(platform.OWNER_URL) as owner:
        for old, new in product(states.STATES, states.STATES):
            with owner.transaction(force_rollback=True):
                owner.execute("SET LOCAL session_replication_role = replica")
                owner.execute(f"UPDATE runs_run SET {_SHAPE} WHERE id = %(id)s", shape(old) | {"id": run.pk})
                owner.execute("SET LOCAL session_replication_role = origin")
                try:
                    owner.execute(f"UPDATE runs_run SET {_SHAPE} WHERE id = %(id)s", shape(new) | {"id": run.pk})
                    allowed.add((old, new))
                except psycopg.errors.CheckViolation as refusal:
                    assert f"may not move from {old} to {new}" in str(refusal)
    assert allowed == {(a, b) for a, b in product(states.STATES, states.STATES) if a == b or b in states.MOVES[a]}


def test_the_guard_in_the_database_is_the_one_that_the_table_makes():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_get_functiondef('runs_guard_move'::regproc)")
        installed = cursor.fetchone()[0]
    ours = states.guard_sql().split("$guard$")[1]
    assert " ".join(ours.split()) in " ".join(installed.split())


def test_closed_is_for_ever():
    for state in states.CLOSED:
        assert states.MOVES[state] == frozenset()
    assert states.COMPLETED not in states.MOVES[states.CANCELLING]
    assert set(states.STATES) == set().union(*states.MOVES.values()) | {states.SCHEDULED}


COUNTERS = ("needs_person", "unknowable", "in_flight", "in_doubt", "children_open", "children_unsettled", "doubted")


def settlement_of(counted):
    if counted["needs_person"] + counted["unknowable"] > 0:
        return "unresolved"
    if counted["in_flight"] + counted["in_doubt"] + counted["children_open"] + counted["children_unsettled"] > 0:
        return "pending"
    return "reconciled" if counted["doubted"] else "clear"


def test_the_generated_columns_over_every_combination():
    run, _ = new_run()
    columns = sql.SQL(", ").join(sql.SQL("{} = {}").format(sql.Identifier(name), sql.Placeholder(name)) for name in COUNTERS)
    with psycopg.connect(platform.OWNER_URL) as owner, owner.transaction(force_rollback=True):
        owner.execute("SET LOCAL session_replication_role = replica")
        for state in states.STATES:
            owner.execute(f"UPDATE runs_run SET {_SHAPE} WHERE id = %(id)s", shape(state) | {"id": run.pk})
            for bits in product((0, 2), repeat=len(COUNTERS)):
                counted = dict(zip(COUNTERS, bits, strict=True))
                if state in states.CLOSED and counted["in_flight"]:
                    continue
                row = owner.execute(
                    sql.SQL("UPDATE runs_run SET {} WHERE id = %(id)s RETURNING settlement, status").format(columns),
                    counted | {"id": run.pk},
                ).fetchone()
                settlement = settlement_of(counted)
                status = state
                if state == "running" and counted["in_flight"]:
                    status = "writing"
                elif state in states.CLOSED and settlement != "clear":
                    status = f"{state}_{settlement}"
                assert row == (settlement, status), (state, counted)
                assert status in states.STATUSES


@pytest.mark.parametrize(
    "change",
    [
        "state = 'completed', lease_token = NULL, lease_holder = NULL, lease_expires_at = NULL",
        "closed_at = clock_timestamp()",
        "state = 'completed', closed_at = now(), in_flight = 1, lease_token = NULL, lease_holder = NULL, lease_expires_at = NULL",
        "lease_token = NULL",
        "lease_holder = NULL",
        "lease_token = NULL, lease_holder = NULL, lease_expires_at = NULL",
        "state = 'scheduled'",
        "state = 'cancelling', cancel_position = NULL",
        "in_flight = -1",
        "in_doubt = -1",
        "needs_person = -1",
        "children_open = -1",
    ],
)
def test_the_database_refuses_a_row_that_cannot_be(change):
    run, _ = new_run()
    with psycopg.connect(platform.APP_URL) as app, pytest.raises(psycopg.errors.CheckViolation):
        app.execute(f"UPDATE runs_run SET {change} WHERE id = %s", (run.pk,))
    assert fresh(run).state == "running"


def test_a_run_is_never_saved_over_nor_deleted():
    run, _ = new_run()
    run = fresh(run)
    run.title = "Another"
    with pytest.raises(TypeError):
        run.save()
    with pytest.raises(TypeError):
        run.delete()
    assert Run.objects.get(pk=run.pk).title == "Order"
