"""The same names for asyncio: the same laws, and a task's cancellation never interrupts a send."""

import asyncio
from pathlib import Path

import pytest

from countermand import AsyncCountermand, AsyncRun, Op, RunCancelled
from tests.sdk.double import Double


@pytest.fixture
def acm(plane: Double, tmp_path: Path) -> AsyncCountermand:
    return AsyncCountermand(plane.url, "cm_test_secret", spool=str(tmp_path / "spool"))


async def _order(run: AsyncRun, send: object, ref: str = "PO-1") -> object:
    return await run.effect("supplier", "create_order", ref=ref, request={}, amount=1, currency="EUR", send=send)


def test_an_async_plan_is_run_like_any_other(plane: Double, acm: AsyncCountermand) -> None:
    run = plane.add(ref="PO-1")

    async def send(op: Op) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"id": op.reference}

    @acm.agent("agent")
    async def plan(run: AsyncRun) -> list[str]:
        async def both(run: AsyncRun) -> list[str]:
            return [(await _order(run, send, ref)).external_id for ref in ("PO-1", "PO-2")]  # type: ignore[attr-defined]

        await run.checkpoint()
        return await run.step("both", both)

    assert acm.claim_once() == "completed"
    assert run.result == ["PO-1", "PO-2"]
    assert [(body["step"], body["ordinal"]) for body in plane.bodies("/effects")] == [("both", 1), ("both", 2)]


async def test_cancelling_the_task_waits_for_the_send_and_its_outcome(plane: Double, acm: AsyncCountermand) -> None:
    inside, sent = asyncio.Event(), []

    async def send(op: Op) -> dict[str, str]:
        inside.set()
        await asyncio.sleep(0.2)
        sent.append(op)
        return {"id": "S-1"}

    with pytest.raises(asyncio.CancelledError):
        async with acm.start("agent") as run:
            task = asyncio.ensure_future(_order(run, send))
            await inside.wait()
            task.cancel()
            await task
    assert len(sent) == 1
    assert [body["verdict"] for body in plane.bodies("/outcome")] == ["landed"]


async def test_the_cancel_is_held_back_while_an_async_send_runs(plane: Double, acm: AsyncCountermand) -> None:
    async def send(op: Op) -> dict[str, str]:
        (held,) = plane.runs.values()
        plane.cancel(held)
        await asyncio.to_thread(run.cancelled.wait, 5)
        await run.checkpoint()
        return {"id": "S-1"}

    with pytest.raises(RunCancelled):
        async with acm.start("agent") as run:
            await _order(run, send)
    assert [body["verdict"] for body in plane.bodies("/outcome")] == ["landed"]
    assert len(plane.bodies("/stopped")) == 1


async def test_parallel_effects_are_one_step_each(plane: Double, acm: AsyncCountermand) -> None:
    async def send(op: Op) -> dict[str, str]:
        await asyncio.sleep(0.05)
        return {"id": op.reference}

    async with acm.start("agent") as run:
        sent = await asyncio.gather(*(_order(run, send, f"PO-{n}") for n in range(12)))
    assert [each["external_id"] for each in sent] == [f"PO-{n}" for n in range(12)]  # type: ignore[index]
    (held,) = plane.runs.values()
    assert held.state == "completed" and len(held.steps) == 12
