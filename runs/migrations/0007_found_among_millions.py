import django.db.models.expressions
import django.db.models.functions.text
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the reading and writing of a table that may be large

    dependencies = [
        ('runs', '0006_sealed_history'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='cancelrequest',
            index=models.Index(condition=models.Q(('answer', 'accepted')), fields=['actor_id'], name='cancel_by_actor'),
        ),
        AddIndexConcurrently(
            model_name='cancelrequest',
            index=models.Index(django.db.models.functions.text.Upper('actor_name'), condition=models.Q(('answer', 'accepted')), name='cancel_by_name'),
        ),
        AddIndexConcurrently(
            model_name='event',
            index=models.Index(condition=models.Q(('actor_type', 'person')), fields=['actor_name', 'at', 'id'], name='event_by_name'),
        ),
        AddIndexConcurrently(
            model_name='event',
            index=models.Index(condition=models.Q(('actor_type', 'person')), fields=['at', 'id'], name='event_of_people'),
        ),
        AddIndexConcurrently(
            model_name='event',
            index=models.Index(condition=models.Q(('actor_type', 'person'), _negated=True), fields=['actor_id', 'at', 'id'], name='event_by_machine'),
        ),
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(condition=models.Q(('started_at__isnull', False)), fields=['started_at'], name='run_started'),
        ),
        AddIndexConcurrently(
            model_name='run',
            index=models.Index(models.ExpressionWrapper(django.db.models.expressions.CombinedExpression(models.F('quiet_at'), '-', models.F('asked_at')), output_field=models.DurationField()), condition=models.Q(('asked_at__isnull', False), ('quiet_at__isnull', False)), name='run_time_to_quiet'),
        ),
    ]
