"""How lists ask a database with millions of rows: planned for the values at hand, no longer than a page may take, ids as one parameter.

A statement that is prepared once is soon planned for any values at all, which is right for the verbs that find one row by its key. A list
whose filter nearly everything or nearly nothing passes, cut off after a page, is then answered by reading a whole table.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import OperationalError, connection
from django.db.models import BooleanField, F, Field, Func, Value
from psycopg.errors import QueryCanceled

FEW = 5000
"""So many rows are looked up one by one sooner than they are met on the way through a large table."""

MANY = 50_000
"""So many rows are collected and sorted within the time that a page has; more of them are met soon enough in the order of the table."""

COUNT_ALLOWED_MS = 75
"""How many rows there are is worth half the time that a page has; beyond it the page says `many`."""


class TooLong(Exception):
    """The database was not given the time that the answer would have taken."""


@contextmanager
def planned_by_value() -> Iterator[None]:
    """Nothing that this thread asks in here is prepared. Works as a decorator, too."""
    connection.ensure_connection()
    raw = connection.connection
    before, raw.prepare_threshold = raw.prepare_threshold, None
    try:
        yield
    finally:
        raw.prepare_threshold = before


@contextmanager
def within(most_ms: int) -> Iterator[None]:
    """No statement in here takes longer than `most_ms`; not in a transaction, which a slow machine could leave idle. Raises `TooLong`."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET statement_timeout = {int(most_ms)}")
    try:
        yield
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise TooLong from error
        raise
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET statement_timeout")


class OneOf(Func):
    """Whether a column is one of an array: a single parameter, however many there are."""

    template, arg_joiner, output_field = "(%(expressions)s))", " = ANY (", BooleanField()

    def __init__(self, column: str, values: list[Any], of: Field[Any, Any]) -> None:
        super().__init__(F(column), Value(values, output_field=ArrayField(of)))
