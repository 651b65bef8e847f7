from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the reading and writing of a table that may be large

    dependencies = [
        ('ledger', '0008_occurrences'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='effect',
            index=models.Index(fields=['provider', '-created_at', '-operation_id'], name='effect_by_provider'),
        ),
        AddIndexConcurrently(
            model_name='effect',
            index=models.Index(condition=models.Q(('currency', ''), _negated=True), fields=['currency', 'amount'], name='effect_by_amount'),
        ),
    ]
