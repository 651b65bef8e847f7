"""Model calls: what they cost is always reported; what they said after a cancel is never handed to the plan."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from countermand import steps
from countermand.errors import Json

if TYPE_CHECKING:
    from countermand.run import Run


@dataclass(frozen=True, slots=True)
class ModelResult:
    """`content`: JSON. `cost`: `{"currency", "micros", "input_tokens", "output_tokens"}` (micros: millionths of the
    currency's unit).
    """

    content: Any
    cost: Json | None = None


def model_call(run: Run, key: str, ask: Callable[[], Any], cost: Callable[[Any], Json] | None, **options: Any) -> Any:
    """See Run.model_call."""
    costs: list[Json] = []

    def work() -> Any:
        said = ask()
        if isinstance(said, Iterator):
            said = _read(run, said)
        if not isinstance(said, ModelResult):
            said = ModelResult(said, cost(said) if cost else None)
        if said.cost:
            costs.append(said.cost)
        return said.content

    start = steps.opening("model_call", **options)
    return steps.run_step(run, key, work, start, cost=lambda: costs[0] if costs else None)


def _read(run: Run, chunks: Iterator[Any]) -> Any:
    """Read a stream until it ends or the run is over; closing it tells the provider to stop generating."""
    read: list[Any] = []
    last: ModelResult | None = None
    with contextlib.ExitStack() as stack:
        close = getattr(chunks, "close", None)
        if close:
            stack.callback(close)
        for chunk in chunks:
            if isinstance(chunk, ModelResult):
                last = chunk
            else:
                read.append(chunk)
            if run.cancelled.is_set():
                break
    content = "".join(read) if all(isinstance(part, str) for part in read) else read
    if last is None:
        return content
    return ModelResult(last.content if last.content is not None else content, last.cost)
