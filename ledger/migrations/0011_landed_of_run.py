from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models


class Migration(migrations.Migration):
    atomic = False  # built beside the reading and writing of a table that may be large

    dependencies = [
        ('ledger', '0010_found_by_start'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='effect',
            index=models.Index(
                fields=['run', 'known_position'],
                include=['landed_currency', 'landed_amount', 'amount'],
                condition=models.Q(('role', 'work'), ('state__in', ('landed', 'duplicated'))),
                name='effect_landed_of_run',
            ),
        ),
    ]
