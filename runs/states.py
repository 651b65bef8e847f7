"""The states of a run and the moves between them: the one table that Python, the database guard and the tests share.

Nothing here reads or writes rows; `runs/transition.py` is the only door through which a state changes.
"""

from __future__ import annotations

from django.db.models import Case, CharField, F, Q, Value, When
from django.db.models.functions import Concat

SCHEDULED = "scheduled"
RUNNING = "running"
AWAITING_APPROVAL = "awaiting_approval"
AWAITING_EVIDENCE = "awaiting_evidence"
CANCELLING = "cancelling"
FAILING = "failing"
COMPLETED = "completed"
FAILED = "failed"
CANCELLED = "cancelled"
TERMINATED = "terminated"

MOVES: dict[str, frozenset[str]] = {
    SCHEDULED: frozenset({RUNNING, CANCELLING, CANCELLED, TERMINATED}),
    RUNNING: frozenset(
        {
            AWAITING_APPROVAL,
            AWAITING_EVIDENCE,
            SCHEDULED,
            CANCELLING,
            COMPLETED,
            FAILING,
            FAILED,
            TERMINATED,
        }
    ),
    AWAITING_APPROVAL: frozenset({SCHEDULED, CANCELLING, CANCELLED, TERMINATED}),
    AWAITING_EVIDENCE: frozenset({SCHEDULED, CANCELLING, CANCELLED, TERMINATED}),
    CANCELLING: frozenset({CANCELLED, TERMINATED}),
    FAILING: frozenset({FAILED, TERMINATED}),
    COMPLETED: frozenset(),
    FAILED: frozenset(),
    CANCELLED: frozenset(),
    TERMINATED: frozenset(),
}

STATES = tuple(MOVES)
CLOSED = frozenset({COMPLETED, FAILED, CANCELLED, TERMINATED})
WAITING = frozenset({AWAITING_APPROVAL, AWAITING_EVIDENCE})
STOPPING = frozenset({CANCELLING, FAILING})
LEASED = frozenset({RUNNING, CANCELLING, FAILING})

STEP_STATES = ("running", "waiting", "done", "failed", "timed_out", "stopped", "discarded")
STEP_KINDS = ("model_call", "tool", "read", "wait", "approval", "child")

UNRESOLVED = "unresolved"
PENDING = "pending"
RECONCILED = "reconciled"
CLEAR = "clear"

STATUSES = (
    "writing",
    *(state for state in STATES),
    *(f"{state}_{tail}" for state in sorted(CLOSED) for tail in (PENDING, UNRESOLVED, RECONCILED)),
)


def settlement_case(prefix: str = "") -> Case:
    """The SQL expression for how far a run's effects are known; `prefix` goes before each answer (`"_"` for `status`).

    PostgreSQL does not let one generated column refer to another, so `status` spells this expression again.
    """

    def said(word: str) -> Value:
        return Value(prefix + word)

    return Case(
        When(Q(needs_person__gt=0) | Q(unknowable__gt=0), then=said(UNRESOLVED)),
        When(
            Q(in_flight__gt=0) | Q(in_doubt__gt=0) | Q(children_open__gt=0) | Q(children_unsettled__gt=0),
            then=said(PENDING),
        ),
        When(Q(doubted__gt=0), then=said(RECONCILED)),
        default=Value("" if prefix else CLEAR),
        output_field=CharField(),
    )


def status_case() -> Case:
    """The SQL expression for `Run.status`, the word that screens and filters use."""
    return Case(
        When(Q(state=RUNNING, in_flight__gt=0), then=Value("writing")),
        When(Q(state__in=sorted(CLOSED)), then=Concat(F("state"), settlement_case("_"), output_field=CharField())),
        default=F("state"),
        output_field=CharField(),
    )


def guard_sql() -> str:
    """SQL of the trigger that refuses every move which MOVES does not list (raised as a check violation)."""
    pairs = ", ".join(f"('{old}', '{new}')" for old, news in MOVES.items() for new in sorted(news))
    return f"""
CREATE OR REPLACE FUNCTION runs_guard_move() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    IF (OLD.state, NEW.state) NOT IN (VALUES {pairs}) THEN
        RAISE EXCEPTION 'a run may not move from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $guard$;
CREATE OR REPLACE TRIGGER runs_guard_move BEFORE UPDATE OF state ON runs_run
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION runs_guard_move();
"""


def append_only_sql(table: str) -> str:
    """SQL of the triggers that refuse UPDATE, DELETE and TRUNCATE on a history table, whoever asks."""
    return f"""
CREATE OR REPLACE FUNCTION runs_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $guard$;
CREATE OR REPLACE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION runs_refuse_change();
CREATE OR REPLACE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION runs_refuse_change();
"""
