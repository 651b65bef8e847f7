"""How the tests here drive a running Countermand: over HTTP only, waiting for what they expect by asking, and comparing
what the supplier's own log says with what the API says. Nothing here writes rows."""

import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from examples.purchase_orders.agent import AGENT, PLAN
from runs.models import Event
from tests import platform
from tests.commits import DatabaseProxy
from tests.console.browsing import text
from tests.proxy import Proxy
from tests.sdk.faultpoints import Listener, Reached
from tests.world import World

DEADLINE_S = 60.0  # long, for a busy machine; nothing waits longer than it must
LEASE_S = 10.0
SHORT_LEASE_S = 2.0
AMOUNT, CURRENCY = 12500, "EUR"
Json = dict[str, Any]
T = TypeVar("T")


def until(ask: Callable[[], T], what: str, deadline_s: float = DEADLINE_S) -> T:
    """The first truthy answer of `ask`, asked until the deadline. AssertionError says what was waited for and the last answer."""
    end_s = time.monotonic() + deadline_s
    while not (answer := ask()):
        assert time.monotonic() < end_s, f"waited {deadline_s:g} s for {what}; the last answer was {answer!r}"
        time.sleep(0.04)
    return answer


class Host:
    """One worker host: a supervisor with its child, the example's own program, and the fault points it stops at."""

    def __init__(self, flow: "Flow", points: Listener, folder: Path, name: str) -> None:
        self.flow, self.points, self.folder, self.name = flow, points, folder, name

    @property
    def supervisor(self) -> psutil.Process:
        return psutil.Process(self.flow.world.pid(self.name))

    def children(self) -> list[psutil.Process]:
        return self.supervisor.children()

    def stands_at(self, point: str) -> Reached:
        return self.points.wait_for(point)

    def kill_all(self) -> None:
        """kill -9 of the supervisor and, at once, of its children: nobody is left to say that they are gone."""
        processes = [self.supervisor, *self.children()]
        for process in processes:  # the supervisor first, so that it reaps nobody
            freeze(process.pid)
        for process in processes:
            process.kill()
        self.flow.world.kill(self.name)
        psutil.wait_procs(processes[1:], timeout=5)


class Flow:
    """A test's view of the world: starts hosts and runs, asks, waits, and reads the supplier's log."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self._stack = ExitStack()
        self._spools = 0
        self.executions: list[Callable[[], list[Json]]] = []  # what providers other than the supplier did, for the checker
        self.shaken: set[str] = set()  # servers that the test ends or cuts off: only those may have tracebacks in their logs

    def close(self) -> None:
        self._stack.close()

    # Workers --------------------------------------------------------------------------------------------------------

    def host(
        self,
        *points: str,
        spool: Path | None = None,
        concurrency: int = 1,
        lease_s: float = LEASE_S,
        program: str = "examples.purchase_orders",
        **environment: str,
    ) -> Host:
        """Start a worker host whose child stops at these fault points. Every host has a spool of its own unless one is given."""
        listener = self._stack.enter_context(Listener(*points))
        if spool is None:
            self._spools += 1
            spool = self.folder / f"spool-{self._spools}"
        told = {"COUNTERMAND_SPOOL": str(spool), "PURCHASE_ORDERS_OUTBOX": str(self.outbox), **listener.env, **environment}
        options = ("--lease-s", f"{lease_s:g}", "--concurrency", str(concurrency))
        return Host(self, listener, spool, self.world.start_agent_worker(*options, program=program, **told))

    def proxy(self, url: str) -> Proxy:
        """A proxy before the control plane (`world.url`) or the supplier, for as long as the test."""
        return self._stack.enter_context(Proxy(url))

    def database_proxy(self) -> DatabaseProxy:
        """A proxy before the database, for as long as the test; the web process is killed before it ends."""
        proxy = self._stack.enter_context(DatabaseProxy(platform.APP_URL))
        self.shaken.add("web")
        self._stack.callback(self.world.kill, "web")
        return proxy

    @property
    def outbox(self) -> Path:
        return self.folder / "outbox"

    # Runs -----------------------------------------------------------------------------------------------------------

    def start(self, reference: str, **options: Any) -> str:
        """Create a run that orders 125.00 EUR under `reference`; returns its reference."""
        line = {"sku": "BRG-6204-2RS", "quantity": 10, "unit_price": "12.50"}
        order = {"po_number": reference, "supplier": "Kugel & Sohn GmbH", "currency": CURRENCY, "total": "125.00", "lines": [line]}
        body = {"agent": AGENT, "title": f"{reference} to Kugel & Sohn GmbH", "business_ref": reference, "plan": PLAN}
        answer = self.world.api.post("/runs", json={**body, "input": {"order": order, **options}})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["ref"])

    def get(self, path: str, **query: Any) -> Json:
        answer = self.world.api.get(path, params=query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def run(self, run: str) -> Json:
        return self.get(f"/runs/{run}")

    def events(self, run: str) -> list[Json]:
        return list(self.get(f"/runs/{run}/events", limit=200)["results"])

    def kinds(self, run: str) -> list[str]:
        return [event["kind"] for event in self.events(run)]

    def effects(self, run: str) -> list[Json]:
        """The effects of a run, each with its evidence and sentence."""
        return list(self.get(f"/runs/{run}/effects")["results"])

    def effect(self, run: str) -> Json:
        """The one effect of a run."""
        (effect,) = self.effects(run)
        return dict(effect)

    def cases(self, run: str) -> list[Json]:
        """The open cases of a run."""
        return list(self.get("/cases", run=run)["results"])

    def alerts(self) -> list[str]:
        """The alerts about providers so far."""
        alerts = Event.objects.filter(run__isnull=True, kind__startswith="provider.").order_by("at")
        return list(alerts.values_list("kind", flat=True))

    def account(self, run: str) -> Json:
        return self.get(f"/runs/{run}/account")

    # Waiting --------------------------------------------------------------------------------------------------------

    def wait_status(self, run: str, *statuses: str, deadline_s: float = DEADLINE_S) -> Json:
        def there() -> Json | None:
            seen = self.run(run)
            return seen if seen["status"] in statuses else None

        try:
            return dict(until(there, f"{run} to be {' or '.join(statuses)}", deadline_s) or {})
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.story(run)}") from None

    def wait_effect(self, run: str, *states: str, deadline_s: float = DEADLINE_S) -> Json:
        def there() -> Json | None:
            return next((effect for effect in self.effects(run) if effect["state"] in states), None)

        try:
            return dict(until(there, f"the effect of {run} to be {' or '.join(states)}", deadline_s) or {})
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.story(run)}") from None

    def wait_event(self, run: str, kind: str, deadline_s: float = DEADLINE_S) -> Json:
        def there() -> Json | None:
            return next((event for event in self.events(run) if event["kind"] == kind), None)

        try:
            return dict(until(there, f"{kind} of {run}", deadline_s) or {})
        except AssertionError as late:
            raise AssertionError(f"{late}\n{self.story(run)}") from None

    def story(self, run: str) -> str:
        """All that is on record in the order of its time, for the message of a failure."""
        lines = [(e["at"], f"{e['seq']} {e['kind']} {e['subject'] or ''} {json.dumps(e['data'])}") for e in self.events(run)]
        effects = self.effects(run)
        for effect in effects:
            lines += [(one["at"], f"  {one['source']} says {one['verdict']}: {one['used_as']}") for one in effect["evidence"]]
        lines += [(e["at"], f"supplier {e['kind']} {e['reference']} {e['detail']}") for e in self.world.supplier_log()]
        told = [f"{at[11:23]} {line}" for at, line in sorted(lines)]
        shown = self.run(run)
        told += [f"effect {effect['state']}: {effect['sentence']}" for effect in effects]
        return "\n".join([*told, f"run {shown['status']}, waits for {shown['waits_for']}, lease {shown['lease']}"])

    # Stopping -------------------------------------------------------------------------------------------------------

    @cached_property
    def support(self) -> httpx.Client:
        """A support person who is logged in."""
        return self.person("support")

    def person(self, name: str) -> httpx.Client:
        """One of the world's people, logged in until the test ends."""
        client = self.world.log_in(name)
        self._stack.callback(client.close)
        return client

    def cancel(self, run: str, reason: str = "The customer withdrew the order.") -> httpx.Response:
        """A person cancels the run, over the API with their session."""
        return self.support.post(f"/api/v1/runs/{run}/cancellation", json={"mode": "cancel", "reason": reason})

    def accepted(self, run: str) -> Json:
        """A cancel that is accepted; returns its receipt."""
        answer = self.cancel(run)
        assert answer.status_code == 202, answer.text
        return dict(answer.json())

    def page(self, run: str) -> str:
        """What the run's page says to a support person, with every time as «t»."""
        answer = self.support.get(f"/runs/{run}/")
        assert answer.status_code == 200, answer.text
        return words(text(answer))

    # The supplier ---------------------------------------------------------------------------------------------------

    def hold(self, point: str, reference: str, **options: Any) -> None:
        """The supplier holds the next order under `reference` at `point` until `world.release()`."""
        self.world.control(point, reference=reference, until_released=True, **options)

    def wait_log(self, reference: str, kind: str) -> Json:
        """The first line of that kind in the supplier's log."""
        lines = self.world.supplier_log(reference=reference, kind=kind, wait_s=20)
        assert lines, f"the supplier never logged {kind} for {reference}: {self.world.supplier_log(reference=reference)}"
        return lines[0]

    def at_supplier(self, reference: str) -> dict[str, int]:
        """How often an order under `reference` reached the supplier, and how often it was carried out."""
        kinds = [entry["kind"] for entry in self.world.supplier_log(reference=reference)]
        return {"arrivals": kinds.count("arrival"), "executions": kinds.count("execution")}

    def notes(self) -> list[str]:
        """The notes that `notify` left for the requesters, one for each run."""
        return sorted(path.stem for path in self.outbox.glob("*.json")) if self.outbox.exists() else []

    def steps_run(self, run: str) -> list[str]:
        """The steps that were begun, in order: a step that is begun twice is in it twice."""
        return [event["subject"] for event in self.events(run) if event["kind"] == "step.started"]


TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d(:\d\d)?( UTC)?|\d\d:\d\d(:\d\d)?(\.\d+)?( UTC)?")


def words(sentence: str) -> str:
    """A sentence with every time in it written as «t»."""
    return TIMES.sub("«t»", sentence)


def kill(pid: int) -> None:
    """SIGKILL of one process that a test started."""
    os.kill(pid, signal.SIGKILL)


def freeze(pid: int) -> None:
    """SIGSTOP, and wait until the kernel has stopped it: the signal alone says nothing of when."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED, f"process {pid} to stand still")


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """The process stands still in the block."""
    freeze(pid)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
