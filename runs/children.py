"""What a parent knows of its children: counters that rise with a child's creation and fall only here, parent first, by recounting."""

from __future__ import annotations

import uuid

from django.db import connection, transaction

from runs import actors, closing, transition, waiting
from runs.book import book
from runs.models import Run

_MISCOUNTED = """
WITH minding AS (
    SELECT id FROM runs_run WHERE children_open > 0 OR children_unsettled > 0
    UNION
    SELECT parent_id FROM runs_run
    WHERE parent_id IS NOT NULL AND (closed_at IS NULL OR settlement IN ('pending', 'unresolved'))
), counted AS (
    SELECT m.id, count(c.id) FILTER (WHERE c.closed_at IS NULL) AS open,
           count(c.id) FILTER (WHERE c.closed_at IS NULL OR c.settlement IN ('pending', 'unresolved')) AS unsettled
    FROM minding m LEFT JOIN runs_run c ON c.parent_id = m.id GROUP BY m.id
)
SELECT r.id FROM runs_run r JOIN counted c ON c.id = r.id
WHERE (r.children_open, r.children_unsettled) IS DISTINCT FROM (c.open, c.unsettled)
ORDER BY r.depth DESC LIMIT %s
"""


def recount_due(limit: int = 500) -> int:
    """Bring every parent's counters to what its children are now, deepest first; returns how many parents changed.

    A closed parent's account is issued anew, a stopping one may close.
    """
    with connection.cursor() as cursor:
        cursor.execute(_MISCOUNTED, (limit,))
        ids = [row[0] for row in cursor.fetchall()]
    for run_id in ids:
        recount(run_id)
    return len(ids)


def recount(run_id: uuid.UUID) -> None:
    """Recount one parent under its lock."""
    actor = actors.system("sweep")
    with transaction.atomic(durable=True):
        run = transition.lock(run_id)
        children = list(Run.objects.filter(parent=run).values_list("closed_at", "settlement"))
        run.children_open = sum(closed is None for closed, _ in children)
        run.children_unsettled = sum(closed is None or word in ("pending", "unresolved") for closed, word in children)
        transition.record(run, "children.counted", actor, data={"open": run.children_open, "unsettled": run.children_unsettled})
        if run.is_closed:
            book().issue_accounts([run])
        else:
            waiting.reconsider(run, actor)
            closing.advance(run, actor)
