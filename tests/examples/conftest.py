"""One supplier process per test module; each test uses references of its own."""

from collections.abc import Iterator

import pytest

from tests.examples.simulator import Simulator


@pytest.fixture(scope="module")
def supplier_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Simulator]:
    with Simulator(tmp_path_factory.mktemp("supplier") / "store.sqlite3") as simulator:
        yield simulator


@pytest.fixture
def supplier(supplier_process: Simulator) -> Iterator[Simulator]:
    """The module's supplier, with nothing armed before and after."""
    yield supplier_process
    if supplier_process.process.poll() is None:
        supplier_process.http.post("/reset")
