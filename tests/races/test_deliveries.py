"""Senders of messages that take at the same moment: never more at once than are meant to be."""

from __future__ import annotations

from console.notifications import delivering, endpoints, following, states
from console.notifications.endpoints import Wanted
from reconciliation import health
from runs import actors
from runs.actors import Actor
from tests.races.line import Line

KEEPER = Actor("person", "u-keeper", "Kay Keeper", "web", frozenset({actors.NOTIFICATION_CHANGE}))
LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"


def test_many_that_take_at_once_are_given_no_more_than_may_be_sent_at_once(contenders: Line) -> None:
    following.follow()  # from now on
    wanted = (Wanted(name, states.MAIL, f"{name}@example.com", tuple(states.KINDS)) for name in "abcd")
    for one in wanted:
        endpoints.add(KEEPER, one)
    health.not_reached("supplier", "401", denied=True)
    following.follow()
    taken = contenders.race(LOCK, (delivering.TAKING,), *[delivering.take] * 4)
    assert len([one for one in taken if one is not None]) == delivering.AT_ONCE
    assert len({one.pk for one in taken if one is not None}) == delivering.AT_ONCE
