"""`manage.py permissions`: writes docs/permissions.md from the one table, or says whether it is current."""

from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from console.permissions import as_markdown


class Command(BaseCommand):
    help = "Write docs/permissions.md from console/permissions.py."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--check", action="store_true", help="write nothing; fail when it is not current")

    def handle(self, *args: Any, **options: Any) -> None:
        path = settings.BASE_DIR / "docs" / "permissions.md"
        current = path.exists() and path.read_text("utf-8") == as_markdown()
        if options["check"]:
            if not current:
                raise CommandError("docs/permissions.md is not current: run manage.py permissions.")
            return
        path.write_text(as_markdown(), "utf-8")
        self.stdout.write(f"{'Was current' if current else 'Written'}: {path.name}.")
