"""What a person may do to a run now: the one function behind every button, in list and detail alike. Every verb checks again."""

from __future__ import annotations

from runs import actors, states
from runs.actors import Actor
from runs.models import Approval, Run

CANCEL = "cancel"
TERMINATE = "terminate"
DECIDE = "decide"


def allowed_actions(run: Run, actor: Actor | None) -> frozenset[str]:
    """`cancel` while a cancel could still change something, `terminate` while the run is open. Nothing without an actor (a push)."""
    if actor is None or run.is_closed:
        return frozenset()
    undecided = run.cancel_position is None and run.state != states.FAILING
    stops = {CANCEL} if undecided and may_stop(run, actor) else set()
    return frozenset(stops | {TERMINATE}) if may_stop(run, actor, TERMINATE) else frozenset(stops)


def may_stop(run: Run, actor: Actor, mode: str = CANCEL) -> bool:
    """Whether the actor has the permission, whatever state the run is in."""
    if not actor.may(actors.RUN_CANCEL, run.agent):
        return False
    return mode == CANCEL or (actor.is_person and actor.may(actors.RUN_TERMINATE))


def allowed_on_approval(approval: Approval, actor: Actor | None) -> frozenset[str]:
    """`decide` while it is undecided, for people who may decide."""
    if actor is None or not actor.is_person or approval.state != "requested" or not actor.may(actors.APPROVAL_DECIDE):
        return frozenset()
    return frozenset({DECIDE})
