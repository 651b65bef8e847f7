"""An administrator, an endpoint at a real receiver, and a log that is followed from now on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from console.notifications import endpoints, following, states
from console.notifications.endpoints import Wanted
from console.notifications.models import Endpoint
from runs import actors
from runs.actors import Actor
from tests.console.receiving import Receiver, receiver  # noqa: F401 - for every test here
from tests.fakes import fake, loud_sweeps  # noqa: F401

KEEPER = Actor("person", "u-keeper", "Kay Keeper", "web", frozenset({actors.NOTIFICATION_CHANGE}))
Hook = Callable[..., Endpoint]


@pytest.fixture
def log(database: None) -> None:
    """The event log is followed from now on."""
    following.follow()


@pytest.fixture
def hook(log: None, receiver: Receiver, settings: Any) -> Hook:  # noqa: F811
    """Makes an endpoint at the receiver, by default for every kind."""
    settings.NOTIFICATIONS_GUARD = receiver.guard

    def make(*kinds: str, name: str = "Pager", target: str = "") -> Endpoint:
        return endpoints.add(KEEPER, Wanted(name, states.WEBHOOK, target or receiver.url, kinds or tuple(states.KINDS)))

    return make
