"""Cancelling at size: the fence and receipt of a tree (linear?), and runs a second of a bulk cancel."""

from __future__ import annotations

import time
from typing import Any

from tests.bench import ground

TREES = (10, 100, 1000)
BULK = 500


def measure() -> dict[str, Any]:
    """Seconds for each size of tree, and runs a second for bulk cancels of running and of queued runs."""
    from runs import actors, bulk, cancellation, lifecycle
    from runs.actors import Actor

    worker = Actor("machine", "bench", "bench", "api", actors.MACHINE_SCOPES, frozenset({"*"}))
    person = Actor("person", "p", "Pat", "web", frozenset({actors.RUN_READ, actors.RUN_CANCEL}))

    def run(holder: str = "w", **parent: Any) -> Any:
        return lifecycle.create(worker, lifecycle.NewRun("bench", "Bench", {}), holder=holder, ttl_s=600, **parent)

    def tree(size: int) -> float:
        """A root with branches of up to ten children each."""
        root = run()
        made = [root]
        while len(made) <= size:
            parent = made[(len(made) - 1) // 10]
            made.append(run(parent_id=parent.run.pk, parent_lease=parent.grant.token))
        began = time.perf_counter()
        answer = cancellation.request_cancel(person, root.run.pk)
        took_s = time.perf_counter() - began
        assert answer.kind == "accepted"
        return took_s

    def many(holder: str) -> float:
        names = [run(holder).run.ref for _ in range(BULK)]
        bulk.request(person, names=names)
        began = time.perf_counter()
        while bulk.work_off():
            pass
        return BULK / (time.perf_counter() - began)

    sizes = {f"cancel of a tree of {size:,}, seconds": round(tree(size), 3) for size in TREES}
    return {
        **sizes,
        "bulk cancel, running runs a second": round(many("w")),
        "bulk cancel, queued runs a second": round(many("")),
    }


if __name__ == "__main__":
    with ground.ready():
        for name, value in measure().items():
            print(f"{name:45} {value}")  # noqa: T201
