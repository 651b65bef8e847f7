"""Stopping locked runs: each gets its cancel position, its withheld effects and its receipt, all in the caller's one transaction.

Reads and writes are made for all of them at once, so that a tree of a thousand costs little more per run than its rows.
"""

from __future__ import annotations

import uuid
from typing import Any

from runs import closing, decisions, deliveries, nudge, preview, states, transition
from runs.actors import Actor
from runs.book import Line, book
from runs.inserting import insert_all
from runs.models import Approval, CancelRequest, Run

CANCEL = "cancel"
TERMINATE = "terminate"
ACCEPTED = "accepted"
REPEAT = "repeat"
ALREADY_CLOSED = "already_closed"


def stop(actor: Actor, levels: list[list[Run]], mode: str, reason: str, seen: int | None = None) -> dict[uuid.UUID, CancelRequest]:
    """Stop the locked runs, given level by level (parents before children). Returns the request written for each.

    `seen` is the version that the person saw of the one run on the first level.
    """
    runs = [run for level in levels for run in level]
    positions = _order(actor, runs, mode, reason)
    moved = [run for run in runs if run.pk in positions]
    _withdraw(actor, moved, mode)
    holdings = book().holdings(runs)
    withheld: dict[uuid.UUID, list[Line]] = {
        run.pk: book().withhold(run, mode, actor) for run in runs if holdings[run.pk].declared and not run.is_closed
    }
    book().leave_unasked(runs)
    receipts = preview.receipts(runs, positions, mode, holdings, withheld, seen)
    requests = _requests(actor, runs, positions, mode, reason, seen, receipts)
    unstarted = [run for run in moved if run.lease_epoch == 0] if mode == CANCEL else []
    closing.close_unstarted(unstarted, actor)
    for level in reversed(levels):
        for run in level:
            _after(actor, run, mode)
    nudge.stopped(run.pk for run in moved)
    return requests


def _order(actor: Actor, runs: list[Run], mode: str, reason: str) -> dict[uuid.UUID, int]:
    """Give each run its cancel position and move it; runs whose end is decided, or cancelled already, are left where they are."""
    now = transition.clock()
    decided = states.CLOSED if mode == TERMINATE else states.CLOSED | {states.FAILING}
    moved = [run for run in runs if run.state not in decided and (run.cancel_position is None or mode == TERMINATE)]
    for run in moved:
        run.asked_at = run.asked_at or now
        run.cancel_mode = mode
        if run.state in (states.SCHEDULED, states.RUNNING, *states.WAITING):
            run.state = states.CANCELLING
        run.waits_for = run.wake_at = None
        run.cancel_position = run.cancel_position or run.version + 1
    transition.record_all(moved, f"{mode}.accepted", actor, {"reason": reason})
    return {run.pk: run.version for run in moved}


def _withdraw(actor: Actor, moved: list[Run], mode: str) -> None:
    asking = set(Approval.objects.filter(run__in=[run.pk for run in moved], state="requested").values_list("run_id", flat=True))
    for run in moved:
        if run.pk in asking:
            decisions.withdraw(run, f"{actor.name} asked to {mode} the run.", actor)
        deliveries.open_for(run)


def _requests(
    actor: Actor,
    runs: list[Run],
    positions: dict[uuid.UUID, int],
    mode: str,
    reason: str,
    seen: int | None,
    receipts: dict[uuid.UUID, dict[str, Any]],
) -> dict[uuid.UUID, CancelRequest]:
    made: dict[uuid.UUID, CancelRequest] = {}
    now = transition.clock()
    for number, run in enumerate(runs):
        made[run.pk] = new_request(
            actor,
            run,
            mode,
            _kind(run, positions),
            reason,
            seen=seen if number == 0 else None,
            position=positions.get(run.pk, run.version),
            at=now,
            caused_by=made.get(run.parent_id) if run.parent_id else None,
            receipt=receipts[run.pk],
        )
    insert_all(list(made.values()))
    return made


def new_request(actor: Actor, run: Run, mode: str, answer: str, reason: str, **values: Any) -> CancelRequest:
    """The row of one act of asking, not saved."""
    who = {"actor_type": actor.type, "actor_id": actor.id, "actor_name": actor.name, "channel": actor.channel}
    seen = values.pop("seen", None)
    return CancelRequest(run=run, mode=mode, answer=answer, reason=reason, version_seen=seen, **who, **values)


def _kind(run: Run, positions: dict[uuid.UUID, int]) -> str:
    if run.pk in positions:
        return ACCEPTED
    return ALREADY_CLOSED if run.cancel_position is None else REPEAT


def _after(actor: Actor, run: Run, mode: str) -> None:
    if run.is_closed:
        return
    if mode == TERMINATE:
        closing.close(run, states.TERMINATED, actor, lease_ended="terminated")
    closing.advance(run, actor)
