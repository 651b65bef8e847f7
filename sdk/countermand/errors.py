"""What can go wrong for a plan, and the control flow a plan must not swallow.

Control flow is a BaseException, so that a broad `except Exception` in a plan or a library cannot turn a stop into
progress.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


class ControlFlow(BaseException):
    """The plan ends here in this process. Let it pass; use `finally` for local tidying only."""


class RunCancelled(ControlFlow):
    """Someone cancelled the run. Nothing more of it can start; registered cleanup follows by itself."""


class RunSuspended(ControlFlow):
    """The run waits (for evidence, an approval, a child, a time); its lease was given back. It is re-entered from the
    top later.
    """

    def __init__(self, waits_for: str, detail: str = "") -> None:
        super().__init__(detail or f"the run waits for {waits_for}")
        self.waits_for = waits_for


class RunReleased(ControlFlow):
    """This worker is shutting down and gives its lease back; another worker goes on with the run."""


class LeaseLost(ControlFlow):
    """This process no longer holds the run, or cannot confirm that it does. It may not act; what it already did is
    still reported.
    """


class CountermandError(Exception):
    """Base of every ordinary error of this package."""


class Unreachable(CountermandError):
    """The control plane gave no usable answer (no connection, timeout, 5xx, 429). Nothing is known about what it
    recorded.
    """


class Problem(CountermandError):
    """The control plane refused a call (RFC 9457 problem document).

    Attributes: `status` (HTTP status), `code` (stable), `detail` (a sentence that says what to do), `facts` (the rest
    of the document).
    """

    def __init__(self, status: int, code: str, detail: str, facts: Json | None = None) -> None:
        super().__init__(f"{detail} [{code}]")
        self.status = status
        self.code = code
        self.detail = detail
        self.facts = facts or {}


class Told(CountermandError):
    """An answer that a plan may handle. It is stored with its step, so that a replay raises the same error again."""

    def __init__(self, message: str, facts: Json | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts or {}

    def as_json(self) -> Json:
        """How the error is stored on a failed step: `{"type", "message", "facts"}`."""
        return {"type": type(self).__name__, "message": self.message, "facts": self.facts}


class StepFailed(Told):
    """A step's function raised. The original error is `__cause__` on the worker where it happened, and
    `facts["error"]` everywhere.
    """


class StepTimedOut(StepFailed):
    """A step's deadline passed before it finished; its result was kept as late evidence and is not used."""


class EffectRefused(Told):
    """The provider gave a definite no. Nothing happened there; read `facts` for its words, change the request and use
    a new step key.
    """


class EffectDidNotHappen(Told):
    """It is proved that the effect did not happen and can't happen any more (or that the provider undid it:
    `facts["state"]`).
    """


class EffectUnknowable(Told):
    """Two people recorded that nobody can find out whether this effect happened. Go on without relying on either."""


class ActionRefused(Told):
    """The control plane did not allow this effect (`facts["code"]`, such as already_landed, payload_mismatch,
    approval_required).
    """

    @property
    def code(self) -> str:
        """The problem code the control plane answered with."""
        return str(self.facts.get("code", ""))


class ApprovalRejected(Told):
    """The approver said no, or nobody answered in time (`facts`: decision, by, comment)."""


class ChildCancelled(Told):
    """A child run was cancelled or terminated. `facts["account"]` says what it did; its output is never handed on."""


class ChildFailed(Told):
    """A child run failed (`facts`: run, ref, error)."""


class RunWaits(CountermandError):
    """Raised out of `with cm.start(...)`: the run waits for longer than this process does. A worker started with
    `cm.work()` continues it.
    """

    def __init__(self, waits_for: str, detail: str) -> None:
        super().__init__(detail)
        self.waits_for = waits_for


class SpoolFull(CountermandError):
    """A known fact could not be written to the spool. Free space in the folder named in the message; the fact is held
    in memory until then.
    """


# What a `send` function says by raising. Anything else it raises means: unknown.


class SendVerdict(CountermandError):
    """Base of what a `send` function may raise to say what happened. `response`: JSON-able, kept as evidence."""

    def __init__(self, message: str = "", *, external_id: str | None = None, response: Any = None) -> None:
        super().__init__(message)
        self.external_id = external_id
        self.response = response


class Refused(SendVerdict):
    """The provider gave a definite no: it did not happen, and this request cannot make it happen later."""


class NotSent(SendVerdict):
    """No byte of the request left this process."""


class Pending(SendVerdict):
    """The provider took it and will decide later (give its `external_id` when there is one)."""


def said(error: BaseException) -> str:
    """An error as people read it on a run, 2,000 characters at most. Ours say it in a sentence; of any other the type is needed, too."""
    sentence = str(error) if isinstance(error, CountermandError) else ""
    return (sentence or f"{type(error).__name__}: {error}")[:2000]


TOLD: dict[str, type[Told]] = {
    kind.__name__: kind
    for kind in (
        StepFailed, StepTimedOut, EffectRefused, EffectDidNotHappen, EffectUnknowable,
        ActionRefused, ApprovalRejected, ChildCancelled, ChildFailed,
    )
}  # fmt: skip


def told_from(error: Json | None, key: str) -> Told:
    """Rebuild the error a failed step stored, so that every worker's plan sees the same one."""
    error = error or {}
    message = str(error.get("message") or "")
    kind = TOLD.get(str(error.get("type")))
    if kind:
        return kind(message, error.get("facts"))
    return StepFailed(f"step {key!r} failed: {message}", {"step": key, "error": error})
