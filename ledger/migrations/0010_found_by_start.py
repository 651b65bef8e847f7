from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the reading and writing of a table that may be large

    dependencies = [
        ('ledger', '0009_found_among_millions'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='effect',
            index=models.Index(
                fields=['business_ref'], include=['run', 'operation_id'], opclasses=['varchar_pattern_ops'], name='effect_by_business_ref'
            ),
        ),
        RemoveIndexConcurrently('effect', 'effect_business_ref'),
    ]
