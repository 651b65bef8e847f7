"""One row per (agent, client_key), locked by whoever creates the run or cancels it first."""

from __future__ import annotations

from django.db import connection

from runs.errors import Invalid
from runs.models import ClientKey


def lock_client_key(agent: str, key: str) -> ClientKey:
    """Make or find the (agent, key) row and lock it: whoever comes second waits here."""
    if len(key) > 200:
        raise Invalid("client_key is at most 200 characters.", field="client_key")
    with connection.cursor() as cursor:
        cursor.execute(
            """
            INSERT INTO runs_clientkey (agent, key, cancel_reason) VALUES (%s, %s, '')
            ON CONFLICT (agent, key) DO UPDATE SET key = EXCLUDED.key RETURNING id
            """,
            (agent, key),
        )
        pk = cursor.fetchone()[0]
    return ClientKey.objects.get(pk=pk)
