"""What the app role may do in the database: read and write rows, but never change what a history table already holds.
The owner grants; the app role owns nothing and can create nothing."""

import os

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from console.embedded.postgres import APP


def app_role() -> str:
    """The role that DATABASE_URL names; the embedded one when there is no DATABASE_URL."""
    url = os.environ.get("DATABASE_URL")
    return str(conninfo_to_dict(url).get("user") or APP) if url else APP


def history_tables() -> list[str]:
    """Tables of the models that say `append_only = True`."""
    return sorted(model._meta.db_table for model in apps.get_models() if getattr(model, "append_only", False))


def grant_app_role(connection: BaseDatabaseWrapper, role: str | None = None) -> None:
    """Grants the app role what it needs on every table of the schema. Run as the owner, after every migration.
    Raises ImproperlyConfigured when the connection belongs to the app role itself."""
    name = role or app_role()
    identifier = sql.Identifier(name)
    tables = [sql.Identifier(table) for table in history_tables()]
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user, current_database()")
        user, database = cursor.fetchone()
        if user == name:
            raise ImproperlyConfigured(
                f"{name} cannot grant rights to itself. Set DATABASE_OWNER_URL to the role that owns the tables, and "
                "COUNTERMAND_AS_OWNER=1."
            )
        raw = cursor.connection
        database_name = sql.Identifier(database)
        statements = [
            sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database_name),
            sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(database_name, identifier),
            sql.SQL("REVOKE CREATE ON SCHEMA public FROM PUBLIC, {}").format(identifier),
            sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(identifier),
            sql.SQL("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {}").format(identifier),
            sql.SQL("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {}").format(identifier),
            sql.SQL("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA public TO {}").format(identifier),
            sql.SQL("REVOKE INSERT, UPDATE, DELETE ON django_migrations FROM {}").format(identifier),
        ]
        if tables:
            statements.append(sql.SQL("REVOKE UPDATE, DELETE, TRUNCATE ON {} FROM {}").format(sql.SQL(", ").join(tables), identifier))
        for statement in statements:
            raw.execute(statement)
