"""Countermand's worker side: report what an agent is about to do and what came of it, and hear when it is stopped.

It needs httpx only, knows nothing of the server's code, and must never send anything without a confirmed go-ahead.
"""

from countermand.aio import AsyncCountermand
from countermand.async_run import AsyncRun
from countermand.cleaning import Cleanup, OverBudget
from countermand.client import Countermand
from countermand.doors import Answer, Door, HttpDoor
from countermand.effects import Sent
from countermand.errors import (
    ActionRefused,
    ApprovalRejected,
    ChildCancelled,
    ChildFailed,
    CountermandError,
    EffectDidNotHappen,
    EffectRefused,
    EffectUnknowable,
    LeaseLost,
    NotSent,
    Pending,
    Problem,
    Refused,
    RunCancelled,
    RunReleased,
    RunSuspended,
    RunWaits,
    SpoolFull,
    StepFailed,
    StepTimedOut,
    Unreachable,
)
from countermand.models import ModelResult
from countermand.run import Run
from countermand.sending import Landed, Op
from countermand.spool import Spool
from countermand.waiting import Approval

__all__ = [
    "ActionRefused",
    "Answer",
    "Approval",
    "ApprovalRejected",
    "AsyncCountermand",
    "AsyncRun",
    "ChildCancelled",
    "ChildFailed",
    "Cleanup",
    "Countermand",
    "CountermandError",
    "Door",
    "EffectDidNotHappen",
    "EffectRefused",
    "EffectUnknowable",
    "HttpDoor",
    "Landed",
    "LeaseLost",
    "ModelResult",
    "NotSent",
    "Op",
    "OverBudget",
    "Pending",
    "Problem",
    "Refused",
    "Run",
    "RunCancelled",
    "RunReleased",
    "RunSuspended",
    "RunWaits",
    "Sent",
    "Spool",
    "SpoolFull",
    "StepFailed",
    "StepTimedOut",
    "Unreachable",
]
