"""The matrix can come out wrong: with the run-row lock removed from the web process, a cancel commits in the middle of a fence."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.matrix import MATRIX
from tests.faults.playing import play
from tests.flows.driver import Flow
from tests.world import World


@pytest.fixture
def unchecked_flow(world: World, tmp_path: Path) -> Iterator[Flow]:
    """A driver without the checker at its end: here it has to find something."""
    world.control("webhook_off")
    made = Flow(world, tmp_path)
    yield made
    made.close()


@pytest.mark.timeout(300)
def test_without_the_run_row_lock_a_cell_comes_out_wrong(unchecked_flow: Flow) -> None:
    """The cancel is answered, with an empty receipt, and the order is sent after it."""
    expected = MATRIX["B12", "F1"]
    played = play(unchecked_flow, "B12", "F1", expected, application="tests.faults.unlocked:application")
    assert not played.is_right(expected)
    assert any(found.startswith("I1 ") and "after its cancel" in found for found in played.violations), played.story
    assert played.done == ["Support cancels, and is answered before the fence writes"]
