"""A scripted control plane and a program that is connected to it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from countermand import Countermand
from tests.sdk.double import Double, serving


@pytest.fixture
def plane() -> Iterator[Double]:
    with serving() as double:
        yield double


@pytest.fixture
def cm(plane: Double, tmp_path: Path) -> Iterator[Countermand]:
    made = Countermand(plane.url, "cm_test_secret", spool=str(tmp_path / "spool"))
    yield made
    made.close()
