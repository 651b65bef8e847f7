"""Taking turns where there is no row to lock yet."""

from __future__ import annotations

from django.db import connection


def take_turn(what: str) -> None:
    """Wait until no other transaction has the turn of `what`, and keep it until this transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [what])
