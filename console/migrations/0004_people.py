"""What people like; and who made a credential as a name that stays when the person goes."""

import django.db.models.deletion
from django.apps.registry import Apps
from django.conf import settings
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor


def name_makers(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    credentials = apps.get_model("console", "Credential").objects.using(schema_editor.connection.alias)
    for one in credentials.exclude(maker=None).select_related("maker"):
        one.created_by = f"{one.maker.first_name} {one.maker.last_name}".strip() or one.maker.username
        one.save(update_fields=["created_by"])


class Migration(migrations.Migration):
    dependencies = [("console", "0003_sweep_beat"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="Profile",
            fields=[
                (
                    "user",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        primary_key=True,
                        related_name="profile",
                        serialize=False,
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                ("time_zone", models.CharField(blank=True, default="", max_length=64)),
                ("shortcuts", models.BooleanField(default=True)),
                ("theme", models.CharField(blank=True, default="", max_length=8)),
            ],
        ),
        migrations.RenameField("credential", "created_by", "maker"),
        migrations.AddField("credential", "created_by", models.CharField(blank=True, default="", max_length=310), preserve_default=False),
        migrations.RunPython(name_makers, migrations.RunPython.noop),
        migrations.RemoveField("credential", "maker"),
    ]
