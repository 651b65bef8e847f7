"""Of the matrix only a few cells are played with the other tests; COUNTERMAND_FAULTS=all (make faults) plays every one."""

import os

import pytest

from tests.flows.conftest import flow  # noqa: F401 - real processes, the driver, and the checker at the end of each cell


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if os.environ.get("COUNTERMAND_FAULTS") == "all":
        return
    left_out = [item for item in items if item.get_closest_marker("faults")]
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=left_out)
