"""Hints that there may be work: a lost, doubled or late one changes when something is noticed, never what happens.

The composition root says what a topic means (a Celery task by name); without it a nudge does nothing and the sweeps find the work.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

_deliver: Callable[[str], None] | None = None


def deliver_with(function: Callable[[str], None]) -> None:
    """Install what carries a topic onwards."""
    global _deliver
    _deliver = function


def nudge(topic: str) -> None:
    """After this transaction has committed, say that `topic` may have work. Never raises."""
    if _deliver is not None:
        deliver = _deliver
        transaction.on_commit(lambda: deliver(topic), robust=True)
