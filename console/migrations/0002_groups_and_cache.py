"""The four groups of people, and the table behind the shared cache (the log-in's rate limits count in it)."""

from django.apps.registry import Apps
from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

GROUPS = ("Support", "Approver", "Auditor", "Admin")


def make_groups(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    groups = apps.get_model("auth", "Group").objects.using(schema_editor.connection.alias)
    for name in GROUPS:
        groups.get_or_create(name=name)


class Migration(migrations.Migration):
    dependencies = [("console", "0001_initial"), ("auth", "0012_alter_user_first_name_max_length")]

    operations = [
        migrations.RunPython(make_groups, migrations.RunPython.noop),
        migrations.RunSQL(
            """
            CREATE TABLE console_cache (
                cache_key varchar(255) PRIMARY KEY,
                value text NOT NULL,
                expires timestamp with time zone NOT NULL
            );
            CREATE INDEX console_cache_expires ON console_cache (expires);
            """,
            "DROP TABLE console_cache",
        ),
    ]
