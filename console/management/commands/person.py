"""`manage.py person USERNAME`: makes a person from the command line, the first administrator above all."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from console import people
from runs import actors
from runs.errors import Problem


class Command(BaseCommand):
    help = "Make a person and print the path at which they choose their password, once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("username")
        parser.add_argument("--name", required=True, help="what histories show, such as 'Ada Lovelace'")
        parser.add_argument("--group", action="append", default=[], choices=list(people.SCOPES_BY_GROUP), help="may be given several times")

    def handle(self, *args: Any, **options: Any) -> None:
        shell = actors.system("command line")
        first, _, last = options["name"].partition(" ")
        try:
            user = people.create(shell, options["username"], first, last, options["group"])
            self.stdout.write(f"{user} chooses a password at {people.password_link(shell, user)} within a day.")
        except Problem as refused:
            raise CommandError(refused.detail) from None
