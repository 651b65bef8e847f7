"""Giving a run back until a condition holds. The condition is stored by the control plane; no timer here decides."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

from countermand.errors import Problem, RunSuspended

if TYPE_CHECKING:
    from countermand.run import Run


def suspend(run: Run, until: str, detail: str, **condition: Any) -> NoReturn:
    """Give the lease back until a condition holds. Raises RunSuspended (or RunCancelled, LeaseLost)."""
    body = {"lease": run.lease.token, "until": until, **condition}
    for _ in range(3):
        run.authority.wait_until_idle()
        run.authority.check()
        try:
            run.authority.act(lambda: run.authority.door.suspend(run.id, body))
        except Problem as problem:
            if problem.code != "effects_in_flight":
                raise
            time.sleep(0.5)
            continue
        given_back(run)
        raise RunSuspended(until, detail)
    raise run.lease.lose("the run could not be suspended: an attempt of it is still open at the control plane")


def given_back(run: Run) -> None:
    """The lease is with the control plane again: this process is done with the run."""
    run.authority.given_back = True
    run.lease.close()
    run.lease.lose("the run waits; its lease was given back")
