"""The runtime `celery`: agents that run inside a Celery worker, through the SDK's own Run object and the in-process door.

The fence, the spool and the directives are the same as for any worker; a cancel is heard by directive.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from django.conf import settings

from console.door import DjangoDoor
from countermand import Countermand
from countermand.doors import Answer
from runs import actors
from runs.actors import Actor
from runs.leases import CELERY


class CeleryDoor(DjangoDoor):
    """The in-process door of a Celery worker: it claims only the runs that say they execute in Celery."""

    def claim(self, body: dict[str, Any]) -> Answer:
        return super().claim({**body, "runtime": CELERY})


@cache
def client() -> Countermand:
    """This process's connection, with the agents that the settings name."""
    agents = frozenset(settings.CELERY_AGENTS)
    cm = Countermand(
        door=CeleryDoor(Actor("machine", CELERY, "Celery", "worker", frozenset({actors.RUN_WORK}), agents)),
        spool=str(settings.COUNTERMAND_HOME / "spool-celery"),
    )
    for name, path in settings.CELERY_AGENTS.items():
        module, _, function = path.partition(":")
        cm.agent(name)(getattr(import_module(module), function))
    return cm


def work_off(limit: int = 20) -> int:
    """Run what is scheduled for Celery, one run after another; returns how many were worked on."""
    cm = client()
    cm.deliver_spool()
    done = 0
    while done < limit and cm.claim_once() is not None:
        done += 1
    return done
