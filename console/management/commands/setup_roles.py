"""`manage.py setup_roles`: grants the app role its rights. Run as the owner after every `migrate`."""

from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError
from django.db import connection

from console.roles import app_role, grant_app_role, history_tables


class Command(BaseCommand):
    help = "Grant the app role (the user of DATABASE_URL) its rights. Needs COUNTERMAND_AS_OWNER=1."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            grant_app_role(connection)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{app_role()} may read and write; it may only add to {', '.join(history_tables()) or 'nothing'}.")
