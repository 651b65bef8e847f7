"""What strikes at a boundary. Each fault lets the run go on again (`scene.release`) when it has struck; then everything heals by itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
from django.db import connection

from console.celery import SCHEDULE, app
from tests import platform
from tests.faults.boundaries import Scene
from tests.flows.driver import SHORT_LEASE_S, freeze, kill, until
from tests.flows.webhooks import news_of_order, orders
from tests.world import SERVERS


def none(scene: Scene) -> None:
    """Nothing: the boundary is reached, and passed."""
    scene.release()


def cancel(scene: Scene) -> None:
    if scene.boundary == "B12":
        return cancel_in_the_fence(scene)
    answer = scene.flow.cancel(scene.run)
    assert answer.status_code in ((409,) if scene.boundary == "B9" else (200, 202)), answer.text
    scene.done.append(f"Support cancels: {answer.status_code}")
    scene.release()


def cancel_in_the_fence(scene: Scene) -> None:
    """It is asked for while the fence stands between its reading and its writing, which goes on when the cancel is answered, or waits."""
    flow = scene.flow
    flow.hold("before_accept", scene.reference)  # what comes of the order is learned after the cancel, whichever of the two is first
    with ThreadPoolExecutor(1) as somebody:
        asked = somebody.submit(flow.cancel, scene.run)
        until(lambda: asked.done() or _waits_for_the_run(), "the cancel to be answered, or to wait for the lock of its run")
        scene.done.append(f"Support cancels, and {'is answered' if asked.done() else 'has to wait'} before the fence writes")
        scene.release()
        answer = asked.result()
    assert answer.status_code == 202, answer.text
    flow.wait_log(scene.reference, "held")
    flow.world.release(reference=scene.reference)


def _waits_for_the_run() -> bool:
    """Whether a verb that reads a whole run waits for its lock. (A heartbeat that waits reads two columns.)"""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            """ AND query LIKE 'SELECT "runs_run"."id", "runs_run"."ref", %'"""
        )
        return bool(cursor.fetchone()[0])


def terminate(scene: Scene) -> None:
    admin = scene.flow.person("admin")
    path = f"/api/v1/runs/{scene.run}/cancellation"
    seen = admin.get(path).raise_for_status().json()
    said = {"mode": "terminate", "reason": "It must end now.", "plan_digest": seen["plan_digest"]}
    answer = admin.post(path, json=said)
    assert answer.status_code in (200, 202), answer.text
    scene.done.append(f"Admin terminates: {answer.status_code}")
    scene.release()


def killed(scene: Scene) -> None:
    if scene.boundary == "B9":
        return executor_killed(scene)
    pid = scene.worker_pid
    scene.another_host()
    kill(pid)
    if scene.boundary == "B4":
        scene.flow.wait_log(scene.reference, "abandoned")  # or else it would be chance whether it is let go before it is missed
    if scene.boundary == "B10":
        scene.done.append("kill -9 of the worker, which holds the run no more")
    else:
        until(lambda: "lease.reaped" in scene.flow.kinds(scene.run), "its supervisor to say so")
        scene.done.append("kill -9 of the worker, which its supervisor reports")
    scene.release()


def executor_killed(scene: Scene) -> None:
    """No worker undoes anything: it is Celery's process that has the answer to come."""
    scene.flow.shaken.add("celery")
    scene.flow.world.kill("celery")
    scene.release()
    scene.flow.world.start("celery")
    scene.done.append("kill -9 of Celery, which is started again")


def frozen(scene: Scene) -> None:
    """SIGSTOP until its lease has expired; it wakes when another worker has had the run, or when nobody can go on without it."""
    pid = scene.worker_pid
    freeze(pid)
    scene.release()
    expired = ("lease.expired", "cleanup.expired", "cleanup.left_behind")
    until(lambda: set(expired) & set(scene.flow.kinds(scene.run)) or not holds_a_lease(scene), "the frozen worker to lose its lease")
    scene.another_host()
    until(lambda: scene.flow.run(scene.run)["status"] != "scheduled", "another worker to have it, or nobody")
    os.kill(pid, signal.SIGCONT)
    scene.done.append("SIGSTOP past the lease, then SIGCONT")


def holds_a_lease(scene: Scene) -> bool:
    return scene.flow.run(scene.run)["lease"] is not None


def connections_dropped(scene: Scene) -> None:
    """Every connection to the database is ended, in whatever it is doing; then again while the run goes on."""
    scene.flow.shaken |= set(SERVERS)
    ended = _end_connections()
    scene.release()
    scene.done.append(f"{ended} and then {_end_connections()} database connections ended")


def _end_connections() -> int:
    with psycopg.connect(platform.OWNER_URL, autocommit=True) as owner:
        ended = owner.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ).fetchone()
    connection.close()  # the test's own was among them
    return int(ended[0]) if ended else 0


def clock_off(scene: Scene) -> None:
    """The worker was started so: nothing of it may matter."""
    scene.done.append(f"the worker's clock is {scene.options['WORKER_CLOCK_OFFSET_S']} s off")
    scene.release()


def delivered_twice(scene: Scene) -> None:
    """Every message of Celery's clock twice more, now and while the run goes on."""
    for _ in range(2):
        for task, _ in SCHEDULE.values():
            app.send_task(task)
            app.send_task(task)
        scene.release()
    scene.done.append(f"{4 * len(SCHEDULE)} messages delivered on top of the clock's")


def webhooks_doubled(scene: Scene) -> None:
    """Once there is an order: its event three times under one id, then an older one under another id."""
    scene.release()
    until(lambda: orders(scene.flow, scene.reference), "the order at the supplier")
    kind = "order.cancelled" if scene.boundary == "B9" else "order.accepted"
    for event_id in ("evt_once", "evt_once", "evt_older", "evt_once"):
        assert news_of_order(scene.flow, scene.reference, kind, event_id).status_code == 200
    scene.done.append("four webhooks of one order, two of them new")


STRIKE: dict[str, Callable[[Scene], None]] = {
    "–": none,
    "F1": cancel,
    "F2": terminate,
    "F3": killed,
    "F4": frozen,
    "F5": connections_dropped,
    "F6": delivered_twice,
    "F7": webhooks_doubled,
    "F8": clock_off,
}


def options(boundary: str, fault: str) -> dict[str, Any]:
    """How the worker host is started: with a short lease to outsleep, or with a date that is wrong, ahead or behind in turn."""
    if fault == "F4":
        return {"lease_s": SHORT_LEASE_S}
    ahead = int(boundary.removeprefix("B")) % 2
    return {"WORKER_CLOCK_OFFSET_S": "600" if ahead else "-600"} if fault == "F8" else {}
