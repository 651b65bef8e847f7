"""History of the ledger cannot be changed."""

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("ledger", "0001_initial"), ("runs", "0002_guards")]

    operations = [
        migrations.RunSQL(
            """
CREATE OR REPLACE TRIGGER ledger_evidence_append_only BEFORE UPDATE OR DELETE ON ledger_evidence
    FOR EACH ROW EXECUTE FUNCTION runs_refuse_change();
CREATE OR REPLACE TRIGGER ledger_evidence_no_truncate BEFORE TRUNCATE ON ledger_evidence
    FOR EACH STATEMENT EXECUTE FUNCTION runs_refuse_change();
""",
            'DROP TRIGGER ledger_evidence_append_only ON ledger_evidence; DROP TRIGGER ledger_evidence_no_truncate ON ledger_evidence;',
        ),
        migrations.RunSQL(
            """
CREATE OR REPLACE TRIGGER ledger_account_append_only BEFORE UPDATE OR DELETE ON ledger_account
    FOR EACH ROW EXECUTE FUNCTION runs_refuse_change();
CREATE OR REPLACE TRIGGER ledger_account_no_truncate BEFORE TRUNCATE ON ledger_account
    FOR EACH STATEMENT EXECUTE FUNCTION runs_refuse_change();
""",
            'DROP TRIGGER ledger_account_append_only ON ledger_account; DROP TRIGGER ledger_account_no_truncate ON ledger_account;',
        ),
        migrations.RunSQL(
            """
CREATE OR REPLACE TRIGGER ledger_reliance_append_only BEFORE UPDATE OR DELETE ON ledger_reliance
    FOR EACH ROW EXECUTE FUNCTION runs_refuse_change();
CREATE OR REPLACE TRIGGER ledger_reliance_no_truncate BEFORE TRUNCATE ON ledger_reliance
    FOR EACH STATEMENT EXECUTE FUNCTION runs_refuse_change();
""",
            'DROP TRIGGER ledger_reliance_append_only ON ledger_reliance; DROP TRIGGER ledger_reliance_no_truncate ON ledger_reliance;',
        ),
    ]
