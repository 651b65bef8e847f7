"""A run as its plan sees it. Re-entered from the top on every worker: finished steps return what they stored.

It offers verbs and keeps no truth: what happened is what the control plane recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from countermand import effects, models, steps, waiting
from countermand.authority import Authority
from countermand.errors import Json
from countermand.lease import Lease
from countermand.sending import Send
from countermand.waiting import Approval

T = TypeVar("T")


class Run:
    """Made by the SDK and handed to the plan. Safe to use from several threads of the plan.

    `block_s`: None in a worker (doubt suspends the run); in `cm.start()` how many seconds doubt may block before it
    raises.
    """

    def __init__(self, facts: Json, authority: Authority, lease: Lease, finished: list[Json], *, block_s: float | None = None) -> None:
        self._facts = facts
        self.authority = authority
        self.lease = lease
        self.block_s = block_s
        self.finished: dict[str, Json] = {step["key"]: step for step in finished}

    @property
    def id(self) -> str:
        """The run's UUID."""
        return str(self._facts["id"])

    @property
    def ref(self) -> str:
        """The run's short reference, `R-…`."""
        return str(self._facts.get("ref", ""))

    @property
    def agent(self) -> str:
        """The agent's name."""
        return str(self._facts.get("agent", ""))

    @property
    def business_ref(self) -> str | None:
        """The business reference the run was created with."""
        return self._facts.get("business_ref")

    @property
    def input(self) -> Any:
        """The JSON the run was created with."""
        return self._facts.get("input")

    @property
    def labels(self) -> Any:
        """The labels the run was created with."""
        return self._facts.get("labels")

    @property
    def cancelled(self) -> threading.Event:
        """Set once this process should stop acting for the run (cancelled, terminated, or its lease is lost). For
        long loops.
        """
        return self.lease.cancelled

    def checkpoint(self) -> None:
        """A place where the plan may end. Raises RunCancelled, LeaseLost, or RunReleased (this worker is shutting
        down).
        """
        self.authority.check()

    def heard(self) -> None:
        """Acknowledge a cancel. Follows by itself; call it only when you learned of the cancel from elsewhere."""
        self.lease.hear()

    def progress(self, fraction: float | None = None, message: str | None = None) -> None:
        """Say how far the current step is (0 to 1, and a short sentence), which is also a heartbeat. Raises as
        `checkpoint`.
        """
        if fraction is not None and not 0 <= fraction <= 1:
            raise ValueError(f"fraction must lie between 0 and 1, not {fraction}: pass done / total")
        self.lease.note(steps.current_key(), fraction, message)
        self.authority.check()

    def heartbeat(self) -> None:
        """Say that the current step is alive and listening (sent at most once a second). Raises as `checkpoint`."""
        self.progress()

    def step(
        self,
        key: str,
        fn: Callable[..., T],
        *args: Any,
        kind: str = "tool",
        title: str | None = None,
        hears_cancel_every_s: float | None = None,
        deadline_s: float | None = None,
        input_digest: str | None = None,
        **kwargs: Any,
    ) -> T:
        """Run `fn(*args, **kwargs)` once and store what it returns (JSON); later workers get the stored result.

        `fn` gets the run first when its first parameter is called `run`. `kind`: tool, read (may be dropped when
        late) or wait. `hears_cancel_every_s`: how often fn calls progress or heartbeat (None: it cannot hear a
        cancel). `deadline_s`: seconds. Raises StepFailed (with fn's error as cause), StepTimedOut, any `Told` error
        fn raised, and as `checkpoint`.
        """
        opening = steps.opening(
            kind,
            title=title,
            hears_cancel_every_s=hears_cancel_every_s,
            deadline_s=deadline_s,
            input_digest=input_digest,
        )
        result: T = steps.run_step(self, key, lambda: steps.call(self, fn, args, kwargs), opening)
        return result

    def effect(
        self,
        provider: str,
        action: str,
        *,
        ref: str,
        send: Send,
        request: Json,
        amount: int | None = None,
        currency: str | None = None,
        approval: Approval | str | None = None,
        key: str | None = None,
        ordinal: int | None = None,
        occurrence: int | None = None,
        if_exists: str | None = None,
        send_within_s: float | None = None,
        answer_within_s: float | None = None,
        declare_first: bool = False,
    ) -> effects.Sent:
        """Do something that leaves the building, at most once over all workers and runs. Returns `Sent` when it
        landed.

        `ref`: business reference, stable and meaningful at the provider (`PO-1042`). `amount`: integer of minor
        units. `request`: the canonical business payload (JSON). `send(op)`: writes the bytes, once; what it returns
        or raises is the verdict (see `countermand.errors`), and anything it raises that is no verdict means unknown.
        `key`: the step's key when called outside a step (default: provider, action and reference). `ordinal`: 1, 2, …
        within a step; needed only when a step sends from several threads. `if_exists`: refuse (default) or reuse an
        equal effect of another run. Raises EffectRefused, EffectDidNotHappen, EffectUnknowable, ActionRefused;
        RunSuspended while it is in doubt; RunCancelled and LeaseLost, never between the go-ahead and its recorded
        outcome.
        """
        body: Json = {"provider": provider, "action": action, "business_ref": ref, "request": request}
        named = approval.id if isinstance(approval, Approval) else approval
        options = {
            "amount": amount, "currency": currency, "approval": named, "occurrence": occurrence, "if_exists": if_exists,
            "send_within_s": send_within_s, "answer_within_s": answer_within_s,
        }  # fmt: skip
        body.update({name: value for name, value in options.items() if value is not None})
        return effects.effect(self, body, send, key=key, ordinal=ordinal, declare_first=declare_first)

    def model_call(
        self,
        key: str,
        fn: Callable[..., Any],
        *args: Any,
        cost: Callable[[Any], Json] | None = None,
        title: str | None = None,
        deadline_s: float | None = None,
        **kwargs: Any,
    ) -> Any:
        """Ask a model. `fn` returns JSON, a `ModelResult(content, cost)`, or an iterator of chunks, which is no
        longer read once the run is cancelled. `cost(content)`: the cost when fn does not return it. A result that
        arrives after the cancel is reported with its cost and thrown away: RunCancelled is raised instead.
        """
        return models.model_call(self, key, lambda: steps.call(self, fn, args, kwargs), cost, title=title, deadline_s=deadline_s)

    def approval(
        self,
        key: str,
        *,
        question: str,
        action: Json | None = None,
        details: Json | None = None,
        expires_at: str | None = None,
    ) -> Approval:
        """Ask a person. The run waits without lease or process until they decide. Returns the Approval to pass to
        `effect`.

        `action`: exactly what is allowed: provider, action, business_ref, amount (minor units), currency, request.
        `expires_at`: ISO 8601. Raises RunSuspended until decided, then ApprovalRejected when rejected or expired.
        """
        return waiting.approval(self, key, question=question, action=action, details=details, expires_at=expires_at)

    def child(
        self,
        agent: str,
        *,
        input: Any = None,
        business_ref: str | None = None,
        title: str | None = None,
        key: str | None = None,
        labels: Json | None = None,
        runtime: str | None = None,
        wait: bool = True,
    ) -> Any:
        """Start a child run under this run's fence and return its result; the run waits without a process meanwhile.

        `runtime`: where it executes, when only there (`celery`).

        `wait=False` starts it (once) and returns None: call again with the same key for its result, after starting
        others. Raises ChildCancelled (with its account), ChildFailed, and RunSuspended while it runs.
        """
        body: Json = {"agent": agent, "title": title or agent, "input": {} if input is None else input}
        body.update({k: v for k, v in {"business_ref": business_ref, "labels": labels, "runtime": runtime}.items() if v is not None})
        return waiting.child(self, key or f"child.{agent}" + (f":{business_ref}" if business_ref else ""), body, wait=wait)

    def sleep_until(self, key: str, wake_at: str) -> None:
        """Wait until a time (ISO 8601 with offset) without a process. Passes at once when replayed after it."""
        waiting.sleep_until(self, key, wake_at)

    def cleanup(self, key: str, handler: str, arguments: Json, *, order: int | None = None, cleans: str | None = None) -> None:
        """Register tidying before it is needed: after a cancel or failure `handler` is called with `arguments`.

        `order`: lower first. `cleans`: the operation id it waits for. Raises as `checkpoint`.
        """
        body: Json = {"lease": self.lease.token, "key": key, "handler": handler, "arguments": arguments}
        body.update({k: v for k, v in {"order": order, "cleans": cleans}.items() if v is not None})
        self.authority.check()
        self.authority.act(lambda: self.authority.door.register_cleanup(self.id, body))
