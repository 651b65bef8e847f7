"""What a seed decides: which deeds, in which order, at which second. Pure: the same seed gives the same list, on any machine.

What it cannot decide is where a deed meets the processes: that is the machine's timing, and differs from run to run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

HOSTS = ("host-1", "host-2")
SERVERS = ("web", "celery", "beat", "supplier")
ORDERS = r"POST /orders$"
LOOKS = r"GET /orders"
UNDOS = r"POST /orders/.*/cancellation$"
WORK = r"POST /api/v1/(runs/.*/(steps|finish|suspend|heartbeat|stopped|heard)|effects|runs/claim|cleanups|workers)"
CUTS = ("drop_request", "lose_response")
ANSWERS = (*CUTS, "http_502", "maintenance_200")
FROZEN_S_MAX = 4.0
HELD_S_MAX = 2.0
"""A packet lives no longer than that, which is what the supplier promises here (`max_in_flight_s` is 8)."""


@dataclass(frozen=True, order=True)
class Deed:
    """`what` happens to `target` at `at_s` seconds: a fault, or something that people or machines ask for. `lane` keeps deeds in order."""

    at_s: float
    what: str
    target: str = ""
    options: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def is_fault(self) -> bool:
        return self.what in FAULTS


@dataclass
class _Plan:
    """What has been planned so far: how many runs there will be, and until when a process is busy with an earlier fault."""

    chance: random.Random
    runs: int = 0
    busy_until_s: dict[str, float] = field(default_factory=dict)

    def any_run(self, back: float = 6) -> int:
        """One that was created lately, more often than one of long ago: `back` runs ago in the mean."""
        return max(0, self.runs - 1 - int(self.chance.expovariate(1 / back)))


def schedule(seed: int, seconds: float) -> list[Deed]:
    """Every deed of a nemesis of that many seconds, oldest first. Nothing strikes in the first second."""
    plan = _Plan(random.Random(seed))
    deeds = [deed for made in (_asked, _struck) for deed in made(plan, seconds)]
    return sorted(deeds)


def _asked(plan: _Plan, seconds: float) -> Iterator[Deed]:
    yield from _stream(plan, seconds, ASKED, every_s=0.45, first_s=0.0)


def _struck(plan: _Plan, seconds: float) -> Iterator[Deed]:
    yield from _stream(plan, seconds, STRUCK, every_s=1.6, first_s=1.0)


Maker = Callable[[_Plan, float], Iterator[Deed]]


def _stream(plan: _Plan, seconds: float, kinds: dict[Maker, int], every_s: float, first_s: float) -> Iterator[Deed]:
    at_s = first_s
    while at_s < seconds:
        (make,) = plan.chance.choices(list(kinds), weights=list(kinds.values()))
        yield from make(plan, round(at_s, 3))
        at_s += plan.chance.expovariate(1 / every_s)


# What is asked for


def _create(plan: _Plan, at_s: float) -> Iterator[Deed]:
    chance, number = plan.chance, plan.runs
    again = number > 3 and chance.random() < 0.15  # the same business action from another run
    reference = number - chance.randrange(1, 4) if again else number
    options = {"pause_before_order_s": chance.choice([0, 0, 0.5, 2.0]), "declare_first": chance.random() < 0.3, "answer_timeout_s": 3.0}
    plan.runs += 1
    yield Deed(at_s, "create", str(number), {"reference": f"PO-{reference}", "large": chance.random() < 0.12, "options": options})


def _create_batch(plan: _Plan, at_s: float) -> Iterator[Deed]:
    number, children = plan.runs, plan.chance.randrange(2, 4)
    plan.runs += 1
    yield Deed(at_s, "create batch", str(number), {"references": [f"PO-{number}-{child}" for child in range(children)]})


def _create_tidy(plan: _Plan, at_s: float) -> Iterator[Deed]:
    number = plan.runs
    plan.runs += 1
    yield Deed(at_s, "create tidy", str(number), {"reference": f"PO-{number}"})


def _of_a_run(what: str, back: float = 6) -> Maker:
    def make(plan: _Plan, at_s: float) -> Iterator[Deed]:
        yield Deed(at_s, what, str(plan.any_run(back)))

    return make


def _cancel_and_again(plan: _Plan, at_s: float) -> Iterator[Deed]:
    """Cancelled, and at once another run for the same order."""
    run, number = plan.any_run(), plan.runs
    plan.runs += 1
    yield Deed(at_s, "cancel", str(run))
    yield Deed(at_s + 0.05, "create", str(number), {"reference": f"PO-{run}", "large": False, "options": {"answer_timeout_s": 3.0}})


def _cancel_twice(plan: _Plan, at_s: float) -> Iterator[Deed]:
    run = str(plan.any_run())
    yield Deed(at_s, "cancel", run)
    yield Deed(at_s + 0.001, "cancel", run, {"by": "support2"})


def _bulk(plan: _Plan, at_s: float) -> Iterator[Deed]:
    yield Deed(at_s, "bulk cancel", "", {"runs": sorted({str(plan.any_run()) for _ in range(4)})})


def _webhooks(plan: _Plan, at_s: float) -> Iterator[Deed]:
    yield Deed(at_s, "webhooks", str(plan.any_run(25)), {"shuffle": plan.chance.randrange(1000)})


def _people(what: str) -> Maker:
    def make(plan: _Plan, at_s: float) -> Iterator[Deed]:
        yield Deed(at_s, what, "", {"choice": plan.chance.randrange(1000)})

    return make


ASKED: dict[Maker, int] = {
    _create: 34,
    _create_batch: 4,
    _create_tidy: 4,
    _of_a_run("cancel"): 14,
    _cancel_and_again: 3,
    _cancel_twice: 2,
    _of_a_run("terminate"): 3,
    _bulk: 2,
    _of_a_run("request undo", back=25): 8,
    _people("decide undos"): 6,
    _people("decide approvals"): 6,
    _people("settle cases"): 6,
    _webhooks: 5,
    _people("deliver twice"): 3,
}


# What strikes


def _down(name: str, plan: _Plan, at_s: float) -> Iterator[Deed]:
    """Killed, and started again; a process that is still being seen to is left alone."""
    if plan.busy_until_s.get(name, 0) <= at_s:
        back_s = round(at_s + plan.chance.uniform(0.2, 3.0), 3)
        plan.busy_until_s[name] = back_s + 4
        yield Deed(at_s, "kill", name)
        yield Deed(back_s, "start", name)


def _kill_server(plan: _Plan, at_s: float) -> Iterator[Deed]:
    yield from _down(plan.chance.choice(SERVERS), plan, at_s)


def _kill_host(plan: _Plan, at_s: float) -> Iterator[Deed]:
    """The whole host: nobody is left to say that its workers are gone."""
    yield from _down(plan.chance.choice(HOSTS), plan, at_s)


def _kill_worker(plan: _Plan, at_s: float) -> Iterator[Deed]:
    """One worker process: its supervisor says so and starts another."""
    host = plan.chance.choice(HOSTS)
    if plan.busy_until_s.get(host, 0) <= at_s:
        yield Deed(at_s, "kill worker", host)


def _freeze(plan: _Plan, at_s: float) -> Iterator[Deed]:
    name = plan.chance.choice(("web", "celery", "supplier", *HOSTS, *HOSTS))
    if plan.busy_until_s.get(name, 0) <= at_s:
        most_s = HELD_S_MAX if name == "supplier" else FROZEN_S_MAX  # what its sockets hold meanwhile is a packet under way
        thaw_s = round(at_s + plan.chance.uniform(0.3, most_s), 3)
        plan.busy_until_s[name] = thaw_s + 1
        yield Deed(at_s, "freeze", name)
        yield Deed(thaw_s, "thaw", name)


def _database(plan: _Plan, at_s: float) -> Iterator[Deed]:
    yield Deed(at_s, "drop connections", "", {"share": plan.chance.choice([0.2, 0.5, 1.0])})


def _wire(plan: _Plan, at_s: float) -> Iterator[Deed]:
    """The ways to the supplier (of workers; of looks and undos) and to the control plane."""
    way, what, modes = plan.chance.choice(
        [("orders", ORDERS, ANSWERS), ("looks", LOOKS, ANSWERS), ("looks", UNDOS, ANSWERS), ("control plane", WORK, CUTS)]
    )
    options = {"mode": plan.chance.choice(modes), "pattern": what, "times": plan.chance.randrange(1, 4)}
    yield Deed(at_s, "cut the wire", way, options)


def _hold(plan: _Plan, at_s: float) -> Iterator[Deed]:
    """A request or an answer that is under way for long."""
    way, what = plan.chance.choice([("orders", ORDERS), ("looks", LOOKS), ("control plane", WORK)])
    until_s = round(at_s + plan.chance.uniform(0.2, HELD_S_MAX), 3)
    yield Deed(at_s, "hold the wire", way, {"mode": plan.chance.choice(["hold_request", "hold_response"]), "pattern": what})
    yield Deed(until_s, "let the wire go", way)


def _supplier(plan: _Plan, at_s: float) -> Iterator[Deed]:
    chance = plan.chance
    control = chance.choice(
        [
            {"point": "drop_response", "times": 1},
            {"point": "drop_response", "times": 3},
            {"point": "http_502", "times": 1, "executes": True},
            {"point": "http_502", "times": 2},
            {"point": "maintenance_200", "seconds": 2},
            {"point": "refuse", "times": 1},
            {"point": "before_accept", "seconds": round(chance.uniform(0.2, HELD_S_MAX), 2), "times": 2},
            {"point": "after_accept", "seconds": round(chance.uniform(0.2, 5), 2), "times": 2},
            {"point": "lookup_down", "seconds": 6},
            {"point": "lookup_html", "times": 2},
            {"point": "lookup_wrong_object", "times": 2},
            {"point": "webhook_off", "seconds": 10},
            {"point": "webhook_delay", "seconds": 4, "times": 5},
        ]
    )
    yield Deed(at_s, "the supplier is told", str(control["point"]), control)


STRUCK: dict[Maker, int] = {
    _kill_server: 8,
    _kill_host: 4,
    _kill_worker: 8,
    _freeze: 12,
    _database: 8,
    _wire: 20,
    _hold: 8,
    _supplier: 24,
}
FAULTS = frozenset({"kill", "kill worker", "freeze", "drop connections", "cut the wire", "hold the wire", "the supplier is told"})
