"""What people and machines ask for while everything fails, over HTTP only; every answer is counted, and every stop is remembered."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import httpx
from django.db import InterfaceError, OperationalError, connection

from console.celery import SCHEDULE, app
from examples.purchase_orders.agent import AGENT, PLAN
from tests.flows.webhooks import send
from tests.nemesis.agents import BATCH, TIDY
from tests.nemesis.judging import Stop
from tests.nemesis.people import People
from tests.nemesis.schedule import Deed
from tests.nemesis.stage import Stage
from tests.world import TOKEN

Json = dict[str, Any]


def order_of(reference: str, large: bool = False) -> Json:
    """The input of a run that orders 125.00 EUR, or 6,000.00 EUR, which a person must approve."""
    price, total = ("600.00", "6000.00") if large else ("12.50", "125.00")
    line = {"sku": "BRG-6204-2RS", "quantity": 10, "unit_price": price}
    return {"order": {"po_number": reference, "supplier": "Kugel & Sohn GmbH", "currency": "EUR", "total": total, "lines": [line]}}


def code_of(answer: httpx.Response) -> str:
    """The code of a refusal that says that nothing was recorded; nothing for an answer that leaves it open."""
    if "problem+json" not in answer.headers.get("content-type", ""):
        return ""
    problem = answer.json()
    sure = answer.status_code < 500 or problem["detail"].startswith("Not recorded:")
    return str(problem["code"]) if sure else ""


class Asking:
    """Everybody who asks for something. Runs are known by the number that the schedule gave them."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.people = stage, People(stage)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        self.machine = httpx.Client(base_url=stage.world.url, headers=headers, timeout=15, trust_env=False)
        self.runs: dict[str, str] = {}
        self.references: dict[str, str] = {}
        self.stops: list[Stop] = []
        self.lock = threading.Lock()

    def close(self) -> None:
        self.machine.close()
        self.people.close()

    def deed(self, deed: Deed) -> bool:
        """Ask for it; whether it came to anything. An answer that is lost is an answer too."""
        try:
            return ASK[deed.what](self, deed)
        except (httpx.HTTPError, OperationalError, InterfaceError) as error:
            connection.close()  # where a person looks into the database themselves, that connection is dropped like all others
            self.stage.count(f"no answer: {deed.what} ({type(error).__name__})")
            return False

    def answered(self, what: str, answer: httpx.Response) -> httpx.Response:
        self.stage.count(f"{what}: {answer.status_code}")
        return answer

    # Runs ------------------------------------------------------------------------------------------------------------

    def create(self, number: str, agent: str, reference: str, given: Json) -> bool:
        """Under a client key, and asked again until it is answered, as a caller would: one run, however many answers are lost."""
        body = {"agent": agent, "title": reference, "business_ref": reference, "plan": PLAN, "input": given, "client_key": f"n-{number}"}
        for _ in range(3):
            try:
                answer = self.answered("create", self.machine.post("/api/v1/runs", json=body))
            except httpx.HTTPError:
                continue
            if answer.status_code in (200, 201):
                with self.lock:
                    self.runs[number], self.references[number] = str(answer.json()["ref"]), reference
                return True
        return False

    def stop(self, deed: Deed, mode: str, who: str) -> bool:
        """Cancel or terminate; what was answered is held against the records afterwards."""
        run = self.runs.get(deed.target)
        if run is None:
            return False
        path = f"/api/v1/runs/{run}/cancellation"
        said: Json = {"mode": mode, "reason": f"nemesis {deed.at_s} {who} {deed.target}"}
        if mode == "terminate":
            said["plan_digest"] = self.people.ask(who, "GET", path).json().get("plan_digest")
        stop = Stop(run, said["reason"], None)
        try:
            answer = self.answered(mode, self.people.ask(who, "POST", path, said))
            stop = Stop(run, said["reason"], answer.status_code, code_of(answer))
        finally:
            with self.lock:
                self.stops.append(stop)
        return stop.status in (200, 202)

    def bulk(self, deed: Deed) -> bool:
        runs = [self.runs[number] for number in deed.options["runs"] if number in self.runs]
        if not runs:
            return False
        said = {"runs": runs, "reason": f"nemesis {deed.at_s} bulk"}
        return self.answered("bulk cancel", self.people.ask("support", "POST", "/api/v1/cancellations/bulk", said)).status_code == 202

    # Others ----------------------------------------------------------------------------------------------------------

    def request_undo(self, deed: Deed) -> bool:
        run = self.runs.get(deed.target)
        if run is None:
            return False
        effects = self.people.listed("support", f"/api/v1/runs/{run}/effects")
        landed = [effect for effect in effects if effect["state"] == "landed" and effect["role"] == "work"]
        for effect in landed[:1]:
            money = {"amount": effect["landed_amount"], "currency": effect["currency"]}
            said = {"effect": effect["ref"], **money, "reason": "not_wanted", "note": ""}
            return self.answered("request undo", self.people.ask("support", "POST", "/api/v1/compensations", said)).status_code == 201
        return False

    def webhooks(self, deed: Deed) -> bool:
        """The supplier's events of one order, each twice, in any order."""
        reference = self.references.get(deed.target)
        if reference is None:
            return False
        orders = self.stage.world.supplier.get("/orders", params={"reference": reference}, timeout=5)
        found = orders.json().get("orders", []) if "json" in orders.headers.get("content-type", "") else []
        ours = [order for order in found if order["reference"] == reference]
        events = [(order, "order.accepted") for order in ours]
        events += [(order, "order.cancelled") for order in ours if order["state"] == "cancelled"]
        told = [(f"evt-{order['id']}-{kind}", order, kind) for order, kind in events for _ in range(2)]
        random.Random(deed.options["shuffle"]).shuffle(told)
        for event_id, order, kind in told:
            at = order["cancelled_at"] if kind == "order.cancelled" else order["accepted_at"]
            as_it_was = order if kind == "order.cancelled" else order | {"state": "accepted", "cancelled_at": None}
            self.answered("webhook", send(self.stage, {"type": kind, "timestamp": at, "data": as_it_was}, event_id))
        return bool(told)

    def deliver_twice(self, deed: Deed) -> bool:
        for task, _ in SCHEDULE.values():
            app.send_task(task)
            app.send_task(task)
        return True


def _create(asking: Asking, deed: Deed) -> bool:
    given = order_of(deed.options["reference"], deed.options["large"]) | deed.options["options"]
    return asking.create(deed.target, AGENT, deed.options["reference"], given)


def _create_batch(asking: Asking, deed: Deed) -> bool:
    orders = [order_of(reference) for reference in deed.options["references"]]
    return asking.create(deed.target, BATCH, f"batch {deed.target}", {"orders": orders})


def _create_tidy(asking: Asking, deed: Deed) -> bool:
    return asking.create(deed.target, TIDY, deed.options["reference"], order_of(deed.options["reference"]) | {"pause_before_order_s": 1})


ASK: dict[str, Callable[[Asking, Deed], bool]] = {
    "create": _create,
    "create batch": _create_batch,
    "create tidy": _create_tidy,
    "cancel": lambda asking, deed: asking.stop(deed, "cancel", deed.options.get("by", "support")),
    "terminate": lambda asking, deed: asking.stop(deed, "terminate", "admin"),
    "bulk cancel": Asking.bulk,
    "request undo": Asking.request_undo,
    "decide undos": lambda asking, deed: asking.people.decide_undos(deed.options["choice"]),
    "decide approvals": lambda asking, deed: asking.people.decide_approvals(deed.options["choice"]),
    "settle cases": lambda asking, deed: asking.people.settle_cases(deed.options["choice"]),
    "webhooks": Asking.webhooks,
    "deliver twice": Asking.deliver_twice,
}
