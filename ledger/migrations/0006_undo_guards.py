"""What must never happen to a request to undo: the database's own guards. The moves are frozen from ledger/undo_states.py; a test compares."""

from django.db import migrations

HISTORY = ("ledger_compensationrule", "ledger_compensationdecision")
KEPT = ("ledger_compensation", "ledger_reversal")


def append_only(table: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"""
CREATE OR REPLACE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION runs_refuse_change();
CREATE OR REPLACE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION runs_refuse_change();
""",
        f"DROP TRIGGER {table}_append_only ON {table}; DROP TRIGGER {table}_no_truncate ON {table};",
    )


def kept(table: str) -> migrations.RunSQL:
    return migrations.RunSQL(
        f"""
CREATE OR REPLACE TRIGGER {table}_no_delete BEFORE DELETE ON {table}
    FOR EACH ROW EXECUTE FUNCTION runs_refuse_change();
CREATE OR REPLACE TRIGGER {table}_no_truncate BEFORE TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION runs_refuse_change();
""",
        f"DROP TRIGGER {table}_no_delete ON {table}; DROP TRIGGER {table}_no_truncate ON {table};",
    )


class Migration(migrations.Migration):
    dependencies = [("ledger", "0005_compensations"), ("runs", "0002_guards")]

    operations = [
        *(append_only(table) for table in HISTORY),
        *(kept(table) for table in KEPT),
        migrations.RunSQL(
            """
CREATE OR REPLACE FUNCTION ledger_guard_decision() RETURNS trigger LANGUAGE plpgsql AS $guard$
DECLARE c ledger_compensation;
BEGIN
    SELECT * INTO c FROM ledger_compensation WHERE id = NEW.compensation_id;
    IF NEW."by" = c.requested_by OR NEW."by" = ANY (c.excluded) THEN
        RAISE EXCEPTION '% asked for, edited or settled what % is about, or started its run: somebody else decides', NEW."by", c.ref
            USING ERRCODE = 'check_violation', CONSTRAINT = 'decision_by_somebody_else';
    END IF;
    IF c.state <> 'requested' OR c.expires_at <= clock_timestamp() THEN
        RAISE EXCEPTION '% is not to be decided any more', c.ref USING ERRCODE = 'check_violation', CONSTRAINT = 'decision_in_time';
    END IF;
    IF NEW.digest <> c.digest OR NEW.version <> c.version THEN
        RAISE EXCEPTION '% is not what was decided upon', c.ref USING ERRCODE = 'check_violation', CONSTRAINT = 'decision_of_what_is_asked';
    END IF;
    RETURN NEW;
END $guard$;
CREATE OR REPLACE TRIGGER ledger_guard_decision BEFORE INSERT ON ledger_compensationdecision
    FOR EACH ROW EXECUTE FUNCTION ledger_guard_decision();
""",
            "DROP TRIGGER ledger_guard_decision ON ledger_compensationdecision; DROP FUNCTION ledger_guard_decision();",
        ),
        migrations.RunSQL(
            """
CREATE OR REPLACE FUNCTION ledger_guard_compensation() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'requested' THEN
            RAISE EXCEPTION 'an undo begins as requested, not as %', NEW.state USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (NEW.id, NEW.ref, NEW.run_id, NEW.original_id, NEW.provider, NEW.action, NEW.target, NEW.requested_by, NEW.requested_at)
        IS DISTINCT FROM (OLD.id, OLD.ref, OLD.run_id, OLD.original_id, OLD.provider, OLD.action, OLD.target, OLD.requested_by, OLD.requested_at)
    THEN
        RAISE EXCEPTION 'what % undoes and who asked for it cannot change', OLD.ref USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.state <> 'requested' AND
        (NEW.amount, NEW.currency, NEW.reason, NEW.note, NEW.version, NEW.digest, NEW.original_position, NEW.rule_version,
         NEW.approvals_needed, NEW.editors, NEW.excluded, NEW.expires_at)
        IS DISTINCT FROM
        (OLD.amount, OLD.currency, OLD.reason, OLD.note, OLD.version, OLD.digest, OLD.original_position, OLD.rule_version,
         OLD.approvals_needed, OLD.editors, OLD.excluded, OLD.expires_at)
    THEN
        RAISE EXCEPTION 'what was decided about % cannot change', OLD.ref USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.effect_id IS NOT NULL AND NEW.effect_id IS DISTINCT FROM OLD.effect_id THEN
        RAISE EXCEPTION '% was spent on one effect', OLD.ref USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    END IF;
    IF (OLD.state, NEW.state) NOT IN (VALUES ('requested', 'approved'), ('requested', 'expired'), ('requested', 'rejected'), ('requested', 'stale'), ('requested', 'withdrawn'), ('approved', 'executing'), ('approved', 'expired'), ('approved', 'stale'), ('approved', 'withdrawn'), ('executing', 'executed')) THEN
        RAISE EXCEPTION 'an undo may not move from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.state IN ('approved', 'executing') THEN
        IF NEW.expires_at <= clock_timestamp() THEN
            RAISE EXCEPTION '% has expired', NEW.ref USING ERRCODE = 'check_violation';
        END IF;
        IF (SELECT count(DISTINCT d."by") FROM ledger_compensationdecision d
            WHERE d.compensation_id = NEW.id AND d.decision = 'approved' AND d.digest = NEW.digest AND d.version = NEW.version
              AND d."by" <> NEW.requested_by AND d."by" <> ALL (NEW.excluded)) < NEW.approvals_needed THEN
            RAISE EXCEPTION '% is not approved by enough other people', NEW.ref USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NEW;
END $guard$;
CREATE OR REPLACE TRIGGER ledger_guard_compensation BEFORE INSERT OR UPDATE ON ledger_compensation
    FOR EACH ROW EXECUTE FUNCTION ledger_guard_compensation();
""",
            "DROP TRIGGER ledger_guard_compensation ON ledger_compensation; DROP FUNCTION ledger_guard_compensation();",
        ),
    ]
