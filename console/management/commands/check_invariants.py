"""`manage.py check_invariants`: judges the records of every run by the invariants. Keeps what it finds, and exits with 1."""

import getpass
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from reconciliation import integrity
from runs.actors import Actor
from runs.errors import Problem
from runs.ids import parse_ref
from runs.models import Run


class Command(BaseCommand):
    help = "Judge the records of this database: all runs, or the ones named."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runs", nargs="*", help="References such as R-7K2M9Q4TXA; all runs without any.")
        parser.add_argument("--set-aside", metavar="INC-…", help="Take a discrepancy off the banner; it stays recorded, with --reason.")
        parser.add_argument("--reason", default="", help="Why it may be set aside.")

    def handle(self, *args: Any, runs: list[str], set_aside: str | None, reason: str, **options: Any) -> None:
        if set_aside:
            return self._set_aside(set_aside, reason)
        if runs:
            integrity.check(self._named(ref) for ref in runs)
        else:
            integrity.check_all()
        found = integrity.open_ones(1000)
        for one in found:
            self.stdout.write(self.style.ERROR(f"{one.ref} {one.invariant} {one.sentence}"))
        if found:
            raise CommandError(f"{integrity.open_count()} discrepancies are open. docs/audit.md says what to do.")
        self.stdout.write("The records agree.")

    def _named(self, text: str) -> Any:
        ref = parse_ref(text, "R")
        found = Run.objects.filter(ref=ref).values_list("pk", flat=True).first() if ref else None
        if found is None:
            raise CommandError(f"No run is called {text!r}.")
        return found

    def _set_aside(self, ref: str, reason: str) -> None:
        name = getpass.getuser()
        try:
            one = integrity.set_aside(Actor("person", f"shell:{name}", name, "shell"), ref, reason)
        except Problem as refused:
            raise CommandError(refused.detail) from None
        self.stdout.write(f"{one.ref} is set aside.")
