"""Runs found in the order of their list: by who stopped them (each request carries when its run was created), by the start of a name.

The history table is opened to its owner for a moment at a time, so that a cancel waits for no longer than a batch takes.
"""

import uuid

from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models, transaction
from django.db.models.functions import Upper

BATCH = 2000
ACCEPTED = models.Q(('answer', 'accepted'))
STOPPED = models.Q(('asked_at__isnull', False), ('quiet_at__isnull', False))


def fill(apps, schema_editor):
    last, connection = uuid.UUID(int=0), schema_editor.connection
    while True:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.execute('SELECT id FROM runs_cancelrequest WHERE id > %s ORDER BY id LIMIT %s', [last, BATCH])
            ids = [pk for (pk,) in cursor.fetchall()]
            if not ids:
                return
            cursor.execute('ALTER TABLE runs_cancelrequest DISABLE TRIGGER runs_cancelrequest_append_only')
            cursor.execute(
                'UPDATE runs_cancelrequest c SET run_created_at = r.created_at FROM runs_run r'
                ' WHERE r.id = c.run_id AND c.id = ANY(%s) AND c.run_created_at IS NULL',
                [ids],
            )
            cursor.execute('ALTER TABLE runs_cancelrequest ENABLE TRIGGER runs_cancelrequest_append_only')
            last = ids[-1]


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('runs', '0007_found_among_millions'),
    ]

    operations = [
        migrations.AddField('cancelrequest', 'run_created_at', models.DateTimeField(editable=False, null=True)),
        migrations.RunSQL(
            """
CREATE OR REPLACE FUNCTION runs_place_request() RETURNS trigger LANGUAGE plpgsql AS $place$
BEGIN
    SELECT created_at INTO NEW.run_created_at FROM runs_run WHERE id = NEW.run_id;
    RETURN NEW;
END $place$;
CREATE OR REPLACE TRIGGER runs_place_request BEFORE INSERT ON runs_cancelrequest
    FOR EACH ROW EXECUTE FUNCTION runs_place_request();
""",
            'DROP TRIGGER runs_place_request ON runs_cancelrequest; DROP FUNCTION runs_place_request();',
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AlterField('cancelrequest', 'run_created_at', models.DateTimeField(editable=False)),
        AddIndexConcurrently(
            model_name='cancelrequest',
            index=models.Index(condition=ACCEPTED, fields=['actor_id', '-run_created_at', '-run'], name='cancel_by_actor_newest'),
        ),
        AddIndexConcurrently(
            model_name='cancelrequest',
            index=models.Index(
                Upper('actor_name'),
                models.F('run_created_at').desc(),
                models.F('run').desc(),
                include=['actor_name'],
                condition=ACCEPTED,
                name='cancel_by_name_newest',
            ),
        ),
        RemoveIndexConcurrently('cancelrequest', 'cancel_by_actor'),
        RemoveIndexConcurrently('cancelrequest', 'cancel_by_name'),
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(
                fields=['business_ref'], include=['created_at', 'id'], opclasses=['varchar_pattern_ops'], name='run_business_ref_newest'
            ),
        ),
        RemoveIndexConcurrently('run', 'run_business_ref'),
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(
                fields=['asked_at'],
                include=['agent', 'heard_at', 'quiet_at', 'quiet_basis', 'refused_after_cancel'],
                condition=models.Q(('asked_at__isnull', False)),
                name='run_asked_measured',
            ),
        ),
        RemoveIndexConcurrently('run', 'run_asked'),
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(
                models.ExpressionWrapper(models.F('quiet_at') - models.F('asked_at'), output_field=models.DurationField()),
                include=['id', 'asked_at', 'quiet_at'],
                condition=STOPPED,
                name='run_by_time_to_quiet',
            ),
        ),
        RemoveIndexConcurrently('run', 'run_time_to_quiet'),
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(condition=STOPPED, fields=['agent', '-asked_at'], include=['quiet_at'], name='run_agent_stopped'),
        ),
    ]
