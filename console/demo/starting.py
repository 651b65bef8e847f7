"""Starting practice runs: the supplier is told what to do wrong, then a real run is created for the agent workers. It writes no results."""

from __future__ import annotations

from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import httpx
from django.conf import settings

from examples.purchase_orders.agent import AGENT, PLAN
from examples.purchase_orders.orders import BadOrder, read_csv
from examples.purchase_orders.situations import Situation
from examples.purchase_orders.submit import run_body
from runs import actors, api
from runs.actors import Actor
from runs.errors import Invalid, Problem
from runs.ids import new_ref
from runs.models import Run

SUPPLIER_TIMEOUT_S = 5.0
UPLOAD_BYTES_MAX = 256 * 1024
ORDERS_MAX = 200


class SupplierAway(Problem):
    code, status, title = "supplier_away", 503, "The practice supplier does not answer"


def supplier_url() -> str:
    """The practice supplier's address. Raises `SupplierAway` when none is configured."""
    url = settings.PROVIDERS.get("supplier", {}).get("url")
    if not url:
        raise SupplierAway("No supplier is configured here, so nothing was started.")
    return str(url)


def _tell(path: str, body: dict[str, Any]) -> None:
    try:
        httpx.post(supplier_url() + path, json=body, timeout=SUPPLIER_TIMEOUT_S, trust_env=False).raise_for_status()
    except httpx.HTTPError as error:
        raise SupplierAway(f"The practice supplier did not take the instruction ({type(error).__name__}). Nothing was started.") from None


def release_all() -> None:
    """Let the supplier go on with everything that it is holding."""
    _tell("/release", {})


def practice_actor(person: Actor) -> Actor:
    """The machine that creates practice runs in a person's name; it may create runs of the practice agent and nothing else."""
    return Actor("machine", "practice", f"{person.name} (practice)", "web", frozenset({actors.RUN_WORK}), frozenset({AGENT}))


def start_situation(person: Actor, situation: Situation) -> Run:
    """Arm the supplier for one new order and create its run. Raises `SupplierAway`."""
    person.require(actors.DEMO_START, None, "start practice runs")
    reference = f"PO-{new_ref('P')[2:8]}"
    for control in situation.supplier_controls(reference):
        _tell("/control", control)
    return _create(
        person,
        {
            "agent": AGENT,
            "title": f"{reference} to {situation.supplier}",
            "business_ref": reference,
            "input": situation.run_input(reference),
            "labels": {"practice": situation.key},
            "plan": PLAN,
        },
    )


def start_orders(person: Actor, orders: list[dict[str, Any]]) -> list[Run]:
    """One run for each order of a file; an order that has its run already gets no second one."""
    person.require(actors.DEMO_START, None, "start practice runs")
    return [_create(person, run_body(order)) for order in orders]


def _create(person: Actor, body: dict[str, Any]) -> Run:
    answer = api.create_run(practice_actor(person), given=body)
    assert answer.body is not None
    return Run.objects.get(pk=answer.body["id"])


def uploaded(content: bytes) -> list[dict[str, Any]]:
    """The orders of an uploaded file. Raises `Invalid` with what to correct."""
    if len(content) > UPLOAD_BYTES_MAX:
        raise Invalid(f"The file is larger than {UPLOAD_BYTES_MAX // 1024} KiB.", field="file")
    with NamedTemporaryFile(suffix=".csv") as file:
        file.write(content)
        file.flush()
        try:
            orders = read_csv(Path(file.name))
        except BadOrder as wrong:
            raise Invalid(str(wrong).replace(Path(file.name).name, "the file"), field="file") from None
        except UnicodeDecodeError:
            raise Invalid("The file is not UTF-8. Save it as UTF-8.", field="file") from None
    if not orders:
        raise Invalid("The file has no orders.", field="file")
    if len(orders) > ORDERS_MAX:
        raise Invalid(f"The file has {len(orders)} orders; {ORDERS_MAX} at most can be started at once.", field="file")
    return orders


def of_the_file(first: int) -> list[dict[str, Any]]:
    """The first orders of the file that comes with it."""
    return read_csv()[:first]
