"""The fault matrix: each cell of `matrix.py` with real processes. `make faults` plays all of it, `make test` a few of its cells."""

from __future__ import annotations

import pytest

from tests.faults import report
from tests.faults.matrix import MATRIX, QUICK
from tests.faults.playing import play
from tests.flows.driver import Flow

CELLS = [pytest.param(*cell, id="-".join(cell), marks=() if cell in QUICK else pytest.mark.faults) for cell in MATRIX]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("boundary", "fault"), CELLS)
def test_cell(flow: Flow, boundary: str, fault: str) -> None:
    expected = MATRIX[boundary, fault]
    played = play(flow, boundary, fault, expected)
    report.keep(played, expected)
    assert played.is_right(expected), f"{played.found}\ninstead of\n{expected}\n{played.violations}\n{played.story}"
