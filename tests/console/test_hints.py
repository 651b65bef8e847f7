"""Hints are few: ten thousand of one kind at once start one sweep, and the schedule does the rest."""

from collections.abc import Callable

import pytest

from console import hints

Sent = list[str]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    names: Sent = []
    monkeypatch.setattr(hints.app, "send_task", lambda name, **_: names.append(name))
    monkeypatch.setattr(hints, "_sent", {})
    return names


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Set the clock that hints go by, in seconds."""
    return lambda seconds: monkeypatch.setattr(hints.time, "monotonic", lambda: seconds)


def test_the_first_goes_out_at_once_and_those_right_after_it_are_left_to_the_schedule(sent: Sent, at: Callable[[float], None]) -> None:
    at(0)
    for _ in range(10_000):
        hints.deliver("operation.settled")
    assert sent == ["runs.wake_waiting"]
    at(hints.NOT_SOONER_S)
    hints.deliver("operation.settled")
    assert sent == ["runs.wake_waiting"] * 2


def test_one_kind_does_not_keep_another_waiting(sent: Sent, at: Callable[[float], None]) -> None:
    at(0)
    for topic in hints.TASKS:
        hints.deliver(topic)
    assert sent == list(hints.TASKS.values())


def test_one_that_could_not_be_sent_is_tried_again(sent: Sent, at: Callable[[float], None], monkeypatch: pytest.MonkeyPatch) -> None:
    at(0)
    with monkeypatch.context() as broken:
        broken.setattr(hints.app, "send_task", lambda name, **_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            hints.deliver("looks.due")
    hints.deliver("looks.due")
    assert sent == ["reconciliation.look_due"]
