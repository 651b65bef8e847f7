"""What is usual for an agent's runs, from the last ones that were stopped. It promises nothing about the next one."""

from __future__ import annotations

from django.db import connection

from runs.wording import duration

LOOKED_AT = 200
TOO_FEW = 5

_TIMES = """
SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY s), percentile_cont(0.95) WITHIN GROUP (ORDER BY s)
FROM (
    SELECT extract(epoch FROM quiet_at - asked_at)::float8 AS s FROM runs_run
    WHERE agent = %s AND asked_at IS NOT NULL AND quiet_at IS NOT NULL AND quiet_at >= asked_at
    ORDER BY asked_at DESC LIMIT %s
) AS last
"""


def quiet_words(agent: str) -> str:
    """`Usually quiet in 1.2 s (p95 4 s).` from the agent's last LOOKED_AT stops; empty when there were fewer than TOO_FEW."""
    with connection.cursor() as cursor:
        cursor.execute(_TIMES, [agent, LOOKED_AT])
        stops, median_s, p95_s = cursor.fetchone()
    return f"Usually quiet in {duration(median_s)} (p95 {duration(p95_s)})." if stops >= TOO_FEW else ""
