from collections.abc import Iterator

import pytest

from tests.fakes import fake, loud_sweeps  # noqa: F401 - for every test here
from tests.races import line
from tests.undo import known, refunding  # noqa: F401


@pytest.fixture
def contenders(database: None) -> Iterator[line.Line]:
    with line.line() as made:
        yield made
