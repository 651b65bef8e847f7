"""Steps: started under the fence, finished with what they return, and never run again once finished."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from countermand.errors import Json, Problem, StepTimedOut, Told, said, told_from
from countermand.suspending import suspend

if TYPE_CHECKING:
    from countermand.run import Run

_KEY = re.compile(r"[^/\x00-\x1f\x7f]{1,200}")
_FAILED = ("failed", "timed_out", "stopped", "discarded")


@dataclass(slots=True)
class Current:
    """The step the plan is in, and how many effects it has begun: ordinals must be the same on every replay."""

    key: str
    run: str
    ordinals: int = 0
    keep_open: bool = field(default=False)


_current: ContextVar[Current | None] = ContextVar("countermand_step", default=None)


def current() -> Current | None:
    """The step being run in this context, if any."""
    return _current.get()


def current_key() -> str | None:
    """The key of the step being run in this context, if any."""
    step = _current.get()
    return step.key if step else None


def opening(kind: str, **options: Any) -> Json:
    """The fields of a start besides lease and key."""
    return {"kind": kind, **{name: value for name, value in options.items() if value is not None}}


def call(run: Run, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a step's function, with the run first when its first parameter is called `run`."""
    try:
        first = next(iter(inspect.signature(fn).parameters), None)
    except (TypeError, ValueError):
        first = None
    return fn(run, *args, **kwargs) if first == "run" else fn(*args, **kwargs)


def run_step(run: Run, key: str, work: Callable[[], Any], start: Json, *, cost: Callable[[], Json | None] = lambda: None) -> Any:
    """Start, work, finish; or return (or raise) what the step stored when it finished before."""
    stored = begin(run, key, start)
    if stored is not None:
        return outcome_of(stored, key)
    inside = _current.set(Current(key, run.id))
    try:
        result = as_stored(work(), key)
    except Exception as error:
        step = _current.get()
        if not (step and step.keep_open):
            finish(run, key, {**failed(error), **_costs(cost)})
        run.authority.check()
        if isinstance(error, Told):
            raise
        raise told_from(as_error(error), key) from error
    finally:
        _current.reset(inside)
    finish(run, key, {"outcome": "done", "result": result, **_costs(cost)})
    run.authority.check()
    return result


def begin(run: Run, key: str, start: Json) -> Json | None:
    """Start a step; returns the stored step when it has finished already, else None."""
    check_key(key)
    run.authority.check()
    cached = run.finished.get(key)
    if cached is not None and "input_digest" not in start:
        return cached
    body = {"lease": run.lease.token, "key": key, **start}
    answer = run.authority.act(lambda: run.authority.door.start_step(run.id, body))
    if answer.status == 200:
        stored: Json = answer.body.get("step") or answer.body
        run.finished[key] = stored
        return stored
    return None


def outcome_of(stored: Json, key: str) -> Any:
    """What a finished step returned; raises what it raised."""
    if stored.get("state") == "timed_out":
        raise StepTimedOut(f"step {key!r} timed out", {"step": key})
    if stored.get("state") in _FAILED:
        kept = stored.get("result")
        raise told_from(kept if isinstance(kept, dict) else {"message": stored.get("error")}, key)
    return stored.get("result")


def finish(run: Run, key: str, body: Json) -> None:
    """Checkpoint. A late finish is kept by the control plane as a fact; then the plan is told why it is late."""
    body = {"lease": run.lease.token, **body}
    fact: Json = {"verb": "finish_step", "subject": run.id, "key": key, "body": body}
    try:
        answer = run.authority.act(lambda: run.authority.door.finish_step(run.id, key, body), fact=fact)
    except Problem as problem:
        if problem.code != "effects_in_flight":
            raise
        suspend(run, "evidence", f"step {key!r} cannot finish while one of its effects is not known")
    run.lease.obey(answer.body.get("directive"), answer.body)
    recorded = answer.body.get("recorded")
    if recorded == "discarded" and run.lease.over is None:
        raise run.lease.hear(answer.body.get("cancel"))
    run.authority.check()
    if recorded == "late":
        raise StepTimedOut(f"step {key!r} finished after its deadline; its result is kept as late evidence", {"step": key})
    run.finished[key] = {
        "key": key,
        "state": recorded or body["outcome"],
        "result": body.get("result"),
        "error": body.get("error"),
    }


def check_key(key: str) -> None:
    """Raise ValueError for a key the contract cannot carry."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise ValueError(f"step key {key!r} is not usable: 1 to 200 printable characters without '/'")


def as_stored(result: Any, key: str) -> Any:
    """The result as later workers will see it. Raises TypeError when it is not JSON."""
    try:
        return json.loads(json.dumps(result, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise TypeError(f"step {key!r} returned something that is not JSON ({error}): return dicts, lists, strings and numbers") from error


def failed(error: Exception) -> Json:
    """How a failed step is finished: a sentence for people, and as its result what rebuilds the error elsewhere."""
    return {"outcome": "failed", "error": said(error), "result": as_error(error)}


def as_error(error: Exception) -> Json:
    """An error as it is stored on a step or run: type, message, facts."""
    if isinstance(error, Told):
        return error.as_json()
    facts: Json = {"code": error.code, "status": error.status} if isinstance(error, Problem) else {}
    return {"type": type(error).__name__, "message": str(error)[:2000], "facts": facts}


def _costs(cost: Callable[[], Json | None]) -> Json:
    found = cost()
    return {"cost": found} if found else {}
