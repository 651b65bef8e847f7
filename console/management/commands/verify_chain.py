"""`manage.py verify_chain`: recomputes every hash chain and names the first bad row of each. docs/audit.md says what that proves."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from console.audit import chains
from console.audit.verifier import Anchors, read_anchors


class Command(BaseCommand):
    help = "Verify the sealed history of this database, against the anchors kept outside it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--anchors", default=settings.ANCHOR_FILE, help="A copy of the anchor file; that of the settings by default.")

    def handle(self, *args: Any, anchors: str, **options: Any) -> None:
        kept = self._read(anchors) if anchors else Anchors()
        report = chains.verify_all(kept)
        problems = [*kept.bad, *map(str, report.bad)]
        for problem in problems:
            self.stdout.write(self.style.ERROR(problem))
        count = report.count
        against = f"{kept.lines} anchors ({count.anchored} heads met)" if anchors else "no anchors: a cut tail would not be seen"
        self.stdout.write(
            f"{count.streams} chains, {count.events} events, {count.sealed} of them sealed; {report.unsealed} wait. Against {against}."
        )
        if problems:
            raise CommandError(f"{len(problems)} chains or files do not verify. Keep the database and the anchors as they are.")
        self.stdout.write("Every chain verifies.")

    def _read(self, path: str) -> Anchors:
        if not Path(path).exists():
            return Anchors(bad=[f"There is no anchor file at {path}."])
        with Path(path).open(encoding="utf-8") as lines:
            return read_anchors(lines)
