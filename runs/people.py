"""Who there is: the port through which domain functions ask about people, whose accounts and groups the layer above keeps.

Permissions are asked for anew every time: nobody acts on what they might have done yesterday.
"""

from __future__ import annotations

from typing import Protocol

from runs.actors import Actor


class Directory(Protocol):
    def person(self, person_id: str) -> Actor | None:
        """The person with the scopes they have now, none when deactivated; None for an id that is no person's."""

    def who_may(self, scope: str) -> list[Actor]:
        """Everyone who has the scope now, by name."""


_directory: Directory | None = None


def provide(directory: Directory) -> None:
    """Install where people are kept (once, when the composition root starts)."""
    global _directory
    _directory = directory


def directory() -> Directory:
    """The installed directory."""
    if _directory is None:
        raise RuntimeError("no directory of people was provided: add 'console' to INSTALLED_APPS")
    return _directory
