"""One cell: a fresh run at a boundary, one fault, healing, and what is true in the end."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from tests.faults.boundaries import BRING, Scene
from tests.faults.faults import STRIKE, options
from tests.faults.matrix import Cell
from tests.flows.conftest import violations
from tests.flows.driver import LEASE_S, Flow, until, words
from tests.world import APPLICATION

SETTLE_S = 150.0  # long, for a busy machine, and a look whose reconciler died is asked again after a minute
CASES_S = 8.0  # a sweep opens the cases that a closed run leaves
UNDO_S = 100.0  # an undo without an answer is looked up after a minute; its run has been closed all the time


@dataclass(frozen=True)
class Played:
    """What a cell came to, what was done, and all that is on record."""

    boundary: str
    fault: str
    found: Cell
    done: list[str]
    story: str
    seconds: float
    violations: list[str]
    """What the checker says of all that happened."""

    def is_right(self, expected: Cell) -> bool:
        return self.found == expected and not self.violations

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def play(flow: Flow, boundary: str, fault: str, expected: Cell | None = None, application: str = APPLICATION) -> Played:
    """Play a cell, and wait until it has come to what is expected, or to rest without that.

    `application`: what the web process serves, where the boundary lies in it.
    """
    began_s = time.monotonic()
    scene = Scene(flow, boundary, f"PO-{boundary}{fault}".replace("–", ""), {"lease_s": LEASE_S} | options(boundary, fault), application)
    BRING[boundary](scene)
    STRIKE[fault](scene)
    until(lambda: _at_rest(flow.run(scene.run)), f"{scene.run} to come to rest\n", SETTLE_S)
    end_s = time.monotonic() + (UNDO_S if boundary == "B9" else CASES_S)
    while (found := _look(scene, expected)) != expected and time.monotonic() < end_s:
        time.sleep(0.2)
    return Played(boundary, fault, found, scene.done, flow.story(scene.run), time.monotonic() - began_s, violations(flow))


def _look(scene: Scene, expected: Cell | None) -> Cell:
    flow, effects, page = scene.flow, scene.flow.effects(scene.run), scene.flow.page(scene.run)
    log = flow.world.supplier_log(reference=scene.reference)
    carried_out = Counter(entry["idempotency_key"] for entry in log if entry["kind"] in ("execution", "cancellation"))
    return Cell(
        executions=max(carried_out.values(), default=0),
        arrivals=sum(entry["kind"] == "arrival" for entry in log),
        effect=" ".join(effect["state"] for effect in effects) or "none",
        run=flow.run(scene.run)["status"],
        says=expected.says if expected and expected.says in page else " ".join(words(effect["sentence"]) for effect in effects) or page,
    )


def _at_rest(run: dict[str, Any]) -> bool:
    """Closed with nothing left to find out."""
    return bool(run["closed_at"]) and not run["status"].endswith("_pending")
