"""Inserting many history rows in one exchange, each as its own statement.

Django's `bulk_create` sends columns as arrays, and quoting a thousand receipts inside an array costs more than all else of a cancel.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection, models


def insert_all(rows: Sequence[models.Model]) -> None:
    """Insert rows of one model, all of whose values are set (database defaults are not read back)."""
    if not rows:
        return
    fields = rows[0]._meta.concrete_fields
    columns = ", ".join(str(field.column) for field in fields)
    marks = ", ".join(["%s"] * len(fields))
    sql = f"INSERT INTO {rows[0]._meta.db_table} ({columns}) VALUES ({marks})"  # noqa: S608 - names of our own tables
    values = [[field.get_db_prep_save(getattr(row, field.attname), connection) for field in fields] for row in rows]
    with connection.cursor() as cursor:
        cursor.executemany(sql, values)
