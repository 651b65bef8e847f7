"""Folders for embedded servers of a test's own."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes import fake  # noqa: F401 - a provider in memory, for every test here
from tests.undo import known, refunding  # noqa: F401


@pytest.fixture(scope="session")
def open_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Makes temporary folders that the database's system user can reach, as a checkout usually is."""

    def make(name: str) -> Path:
        made = tmp_path_factory.mktemp(name)
        for folder in (made, *made.parents):
            if folder.is_relative_to("/tmp") and folder != Path("/tmp") and folder.stat().st_uid == os.geteuid():
                folder.chmod(0o755)
        return made

    return make
