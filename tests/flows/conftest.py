"""Real processes for every test of this folder, and the driver that asks them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.driver import Flow
from tests.world import SERVERS, World


@pytest.fixture
def flow(world: World, tmp_path: Path) -> Iterator[Flow]:
    """A driver of the running system. The supplier sends no webhooks by itself: a test that wants one says when."""
    world.control("webhook_off")
    made = Flow(world, tmp_path)
    written = {name: len(world.log(name)) for name in SERVERS}
    yield made
    made.close()
    for name, before in written.items():
        said = world.log(name)[before:]
        if name not in made.shaken and "Traceback" in said:
            pytest.fail(f"{name} says:\n{said[-4000:]}")
