"""The history of a case cannot be changed."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("reconciliation", "0001_initial"), ("runs", "0002_guards")]

    operations = [
        migrations.RunSQL(
            """
CREATE OR REPLACE TRIGGER reconciliation_caseevent_append_only BEFORE UPDATE OR DELETE ON reconciliation_caseevent
    FOR EACH ROW EXECUTE FUNCTION runs_refuse_change();
CREATE OR REPLACE TRIGGER reconciliation_caseevent_no_truncate BEFORE TRUNCATE ON reconciliation_caseevent
    FOR EACH STATEMENT EXECUTE FUNCTION runs_refuse_change();
""",
            'DROP TRIGGER reconciliation_caseevent_append_only ON reconciliation_caseevent; DROP TRIGGER reconciliation_caseevent_no_truncate ON reconciliation_caseevent;',
        ),
    ]
