"""The moments of an effect's life at which a fault strikes. Bringing a run there proves that the moment was reached."""

from __future__ import annotations

import json
import signal
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ledger import compensations, rulebook
from ledger.prospects import Wanted
from ledger.rulebook import NewTerms
from runs.actors import COMPENSATION_REQUEST
from runs.people import directory
from tests import platform
from tests.flows.driver import AMOUNT, CURRENCY, Flow, Host, until
from tests.flows.webhooks import news_of_order
from tests.makers import ADMIN
from tests.proxy import Proxy
from tests.sdk.faultpoints import Reached
from tests.world import APPLICATION

PROGRAM, TIDY = "tests.faults.worker", "tests.flows.programs"


@dataclass
class Scene:
    """A run that stands at a boundary. `release` lets it go on; `standing` is the process that stands, where one does."""

    flow: Flow
    boundary: str
    reference: str
    options: dict[str, Any]
    application: str = APPLICATION
    """What the web process serves, where it is started again."""
    host: Host = field(init=False)
    run: str = field(init=False)
    standing: Reached | None = None
    release: Callable[[], None] = field(init=False)
    done: list[str] = field(default_factory=list)
    """What was done, line by line, for the report."""

    @property
    def worker_pid(self) -> int:
        """The process that acts for the run."""
        return self.standing.pid if self.standing else self.host.children()[0].pid

    def start_host(self, *points: str) -> None:
        self.host = self.flow.host(*points, program=PROGRAM, **self.options)

    def another_host(self) -> None:
        self.flow.host(program=PROGRAM, **{name: value for name, value in self.options.items() if name != "WORKER_CLOCK_OFFSET_S"})
        self.done.append("another worker host takes over")


def at_point(point: str, **given: Any) -> Callable[[Scene], None]:
    """The worker stands at one of the SDK's fault points."""

    def bring(scene: Scene) -> None:
        scene.start_host(point)
        scene.run = scene.flow.start(scene.reference, **given)
        scene.standing = scene.host.stands_at(point)

        def release() -> None:
            scene.host.points.pass_all()
            assert scene.standing is not None
            scene.standing.release()

        scene.release = release

    return bring


def at_supplier(point: str) -> Callable[[Scene], None]:
    """The supplier has the request, and holds it before accepting it or before answering."""

    def bring(scene: Scene) -> None:
        scene.flow.hold(point, scene.reference)
        scene.start_host()
        scene.run = scene.flow.start(scene.reference)
        scene.flow.wait_log(scene.reference, "held")
        scene.release = lambda: scene.flow.world.release(reference=scene.reference)

    return bring


def during_cleanup(scene: Scene) -> None:
    """A cancelled run whose first of two items is about to be tidied."""
    scene.options["WORKER_PROGRAM"] = TIDY
    scene.start_host("during_cleanup")
    body = {"agent": "tidy", "title": "tidy", "input": {"tidy": ["one", "two"]}}
    scene.run = scene.flow.world.api.post("/runs", json=body).raise_for_status().json()["ref"]
    scene.flow.wait_event(scene.run, "step.started")
    scene.flow.accepted(scene.run)
    at = scene.standing = scene.host.stands_at("during_cleanup")

    def release() -> None:
        scene.host.points.pass_all()
        at.release()

    scene.release = release


def look_in_flight(scene: Scene) -> None:
    """The order landed, its answer was lost, and the first look for it is on its way to the supplier."""
    wire: Proxy = scene.flow.proxy(scene.flow.world.supplier_url)
    wire.arm("hold_request", r"GET /orders")
    asked = platform.SUPPLIER | {"url": wire.url, "capability": platform.IMPATIENCE}
    scene.flow.world.kill("celery")
    scene.flow.world.start("celery", COUNTERMAND_PROVIDERS=json.dumps({"supplier": asked}))
    scene.flow.world.control("drop_response", reference=scene.reference, times=1)
    scene.start_host()
    scene.run = scene.flow.start(scene.reference)
    until(lambda: wire.asked("GET /orders"), "a look to be in flight")
    until(lambda: "run.suspended" in scene.flow.kinds(scene.run), "its worker to give it back until the answer is known")
    scene.release = wire.release


def webhook_arriving(scene: Scene) -> None:
    """The supplier accepted and has not answered; its webhook is in the inbox, and nobody has read it: Celery stands still."""
    at_supplier("after_accept")(scene)
    world = scene.flow.world
    world.signal("celery", signal.SIGSTOP)
    assert news_of_order(scene.flow, scene.reference).status_code == 200

    def release() -> None:
        world.signal("celery", signal.SIGCONT)
        world.release(reference=scene.reference)

    scene.release = release


FENCE_READ = r"UPDATE runs_run SET version = version \+ 1, effects_total|SELECT version \+ 1, lease_epoch"
"""The statement with which the fence of a sending reads the run: with the lock, and as `tests/twin/broken.py` does without it."""


def in_the_fence(scene: Scene) -> None:
    """The web process has read the run and decided that the order may be sent; its next statement is held on the way to the database."""
    flow = scene.flow
    wire = flow.database_proxy()
    flow.world.kill("web")
    flow.world.start("web", application=scene.application, DATABASE_URL=wire.url)
    assert flow.support  # logged in before anything is held: an idle transaction is not kept for long
    wire.arm("hold_after", FENCE_READ)
    scene.start_host()
    scene.run = flow.start(scene.reference)
    until(lambda: wire.struck, "the fence to have read")
    scene.release = wire.release


def undo_in_sending(scene: Scene) -> None:
    """An order that landed is being undone: asked for by one person, approved by another; the supplier did it and has not answered."""
    flow = scene.flow
    scene.start_host()
    scene.run = flow.start(scene.reference)
    flow.wait_status(scene.run, "completed")
    flow.world.control("after_accept", reference=scene.reference, until_released=True, on=["cancel"])
    rulebook.change(ADMIN, "supplier", "create_order", CURRENCY, NewTerms(max_amount=AMOUNT), "the rule of the tests")
    people = {actor.name: actor for actor in directory().who_may(COMPENSATION_REQUEST)}
    operation = uuid.UUID(flow.effect(scene.run)["operation_id"])
    request, _ = compensations.request(people["Support"], operation, Wanted(AMOUNT, CURRENCY, "duplicate"))
    compensations.decide(people["Approver"], request.pk, "approved", request.version)
    flow.wait_log(scene.reference, "held")
    scene.release = lambda: flow.world.release(reference=scene.reference)


BRING: dict[str, Callable[[Scene], None]] = {
    "B1": at_point("before_declare"),
    "B2": at_point("declared", declare_first=True),
    "B3": at_point("sending"),
    "B4": at_supplier("before_accept"),
    "B5": at_supplier("after_accept"),
    "B6": at_point("response_returned"),
    "B7": at_point("recorded"),
    "B8": during_cleanup,
    "B9": undo_in_sending,
    "B10": look_in_flight,
    "B11": webhook_arriving,
    "B12": in_the_fence,
}
