"""The database's own guards: moves of a run, and history that cannot be changed. Frozen from runs/states.py; a test compares the two."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_initial")]

    operations = [
        migrations.RunSQL(
            """
CREATE OR REPLACE FUNCTION runs_guard_move() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    IF (OLD.state, NEW.state) NOT IN (VALUES ('scheduled', 'cancelled'), ('scheduled', 'cancelling'), ('scheduled', 'running'), ('scheduled', 'terminated'), ('running', 'awaiting_approval'), ('running', 'awaiting_evidence'), ('running', 'cancelling'), ('running', 'completed'), ('running', 'failed'), ('running', 'failing'), ('running', 'scheduled'), ('running', 'terminated'), ('awaiting_approval', 'cancelled'), ('awaiting_approval', 'cancelling'), ('awaiting_approval', 'scheduled'), ('awaiting_approval', 'terminated'), ('awaiting_evidence', 'cancelled'), ('awaiting_evidence', 'cancelling'), ('awaiting_evidence', 'scheduled'), ('awaiting_evidence', 'terminated'), ('cancelling', 'cancelled'), ('cancelling', 'terminated'), ('failing', 'failed'), ('failing', 'terminated')) THEN
        RAISE EXCEPTION 'a run may not move from % to %', OLD.state, NEW.state USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $guard$;
CREATE OR REPLACE TRIGGER runs_guard_move BEFORE UPDATE OF state ON runs_run
    FOR EACH ROW WHEN (OLD.state IS DISTINCT FROM NEW.state) EXECUTE FUNCTION runs_guard_move();
""",
            'DROP TRIGGER runs_guard_move ON runs_run; DROP FUNCTION runs_guard_move();',
        ),
        migrations.RunSQL(
            """
CREATE OR REPLACE FUNCTION runs_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $guard$
BEGIN
    RAISE EXCEPTION '% is append-only: % refused', TG_TABLE_NAME, TG_OP USING ERRCODE = 'restrict_violation';
END $guard$;
""",
            'DROP FUNCTION runs_refuse_change();',
        ),
        migrations.RunSQL(
            """
CREATE OR REPLACE TRIGGER runs_event_append_only BEFORE UPDATE OR DELETE ON runs_event
    FOR EACH ROW EXECUTE FUNCTION runs_refuse_change();
CREATE OR REPLACE TRIGGER runs_event_no_truncate BEFORE TRUNCATE ON runs_event
    FOR EACH STATEMENT EXECUTE FUNCTION runs_refuse_change();
""",
            'DROP TRIGGER runs_event_append_only ON runs_event; DROP TRIGGER runs_event_no_truncate ON runs_event;',
        ),
        migrations.RunSQL(
            """
CREATE OR REPLACE TRIGGER runs_cancelrequest_append_only BEFORE UPDATE OR DELETE ON runs_cancelrequest
    FOR EACH ROW EXECUTE FUNCTION runs_refuse_change();
CREATE OR REPLACE TRIGGER runs_cancelrequest_no_truncate BEFORE TRUNCATE ON runs_cancelrequest
    FOR EACH STATEMENT EXECUTE FUNCTION runs_refuse_change();
""",
            'DROP TRIGGER runs_cancelrequest_append_only ON runs_cancelrequest; DROP TRIGGER runs_cancelrequest_no_truncate ON runs_cancelrequest;',
        ),
    ]
