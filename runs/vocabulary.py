"""What every run status is called on screen: text, icon, emphasis, help, and who must act next. The one place for run words.

Emphasis says who must act: outline = settled, tint = the system is working, solid = a person must act.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from runs import states

Tone = Literal["outline", "tint", "solid"]
Colour = Literal["grey", "blue", "green", "amber", "red", "violet"]

NOBODY = "Nobody: this is settled."
SYSTEM = "The system: it goes on checking by itself."
PERSON = "A person: something waits in “Needs a person”."


@dataclass(frozen=True)
class Chip:
    """One state as a page shows it. `icon` names a symbol of `static/icons.svg`; `who` is who must act next."""

    text: str
    icon: str
    tone: Tone
    colour: Colour
    help: str
    who: str


RUN_CHIPS: dict[str, Chip] = {
    states.SCHEDULED: Chip(
        "Scheduled", "clock", "outline", "grey",
        "It is waiting for a worker, or for a time or condition. Nothing of it is acting.",
        "A worker, to claim it.",
    ),
    states.RUNNING: Chip(
        "Running", "play", "tint", "blue",
        "A worker is acting for it. Nothing has been sent that we still wait for.",
        "The worker that holds it.",
    ),
    "writing": Chip(
        "Writing", "loader", "tint", "blue",
        "It has sent something that we have no answer to yet. What is in flight cannot be called back.",
        "The worker that holds it, and the provider it is writing to.",
    ),
    states.AWAITING_APPROVAL: Chip(
        "Awaiting approval", "hourglass", "solid", "violet",
        "It asked whether it may go on, and stands still until a person decides.",
        "An approver, to decide.",
    ),
    states.AWAITING_EVIDENCE: Chip(
        "Awaiting evidence", "circle-question-mark", "tint", "amber",
        "We do not know yet what happened to something it sent, and it stands still until we do.",
        "The reconciler, which asks the provider; a person if that fails.",
    ),
    states.CANCELLING: Chip(
        "Cancelling", "circle-dot-dashed", "tint", "amber",
        "Somebody asked for it to stop. Nothing new can start; what was already sent may still land.",
        "The worker, to stop; then cleanup.",
    ),
    states.FAILING: Chip(
        "Failing — cleaning up", "eraser", "tint", "amber",
        "It failed. Nothing new can start; its clean-up steps are running.",
        "Cleanup, to finish.",
    ),
}  # fmt: skip

_CLOSED: dict[str, tuple[str, str, Colour, str]] = {
    states.COMPLETED: ("Completed", "circle-check", "green", "It finished its work."),
    states.FAILED: ("Failed", "circle-x", "red", "It ended with an error."),
    states.CANCELLED: ("Cancelled", "circle-stop", "grey", "It was stopped on request, and nothing of it is acting."),
    states.TERMINATED: ("Terminated", "octagon-x", "red", "It was closed at once, without its clean-up steps."),
}

for _state, (_word, _icon, _colour, _said) in _CLOSED.items():
    RUN_CHIPS[_state] = Chip(_word, _icon, "outline", _colour, f"{_said} Every action is accounted for.", NOBODY)
    RUN_CHIPS[f"{_state}_{states.PENDING}"] = Chip(
        f"{_word} — effects pending", "diamond", "tint", "amber",
        f"{_said} Not everything it sent, or its child runs sent, is settled yet; it is being checked.",
        SYSTEM,
    )  # fmt: skip
    RUN_CHIPS[f"{_state}_{states.UNRESOLVED}"] = Chip(
        f"{_word} — unresolved", "diamond", "solid", "violet",
        f"{_said} What happened to something it sent could not be found out automatically.",
        PERSON,
    )  # fmt: skip
    RUN_CHIPS[f"{_state}_{states.RECONCILED}"] = Chip(
        f"{_word} — reconciled", _icon, "outline", _colour,
        f"{_said} Something was unknown for a while, and is settled now.",
        NOBODY,
    )  # fmt: skip

STEP_CHIPS: dict[str, Chip] = {
    "running": Chip("Running", "play", "tint", "blue", "A worker is in it.", "The worker that holds the run."),
    "waiting": Chip("Waiting", "hourglass", "tint", "blue", "It stands still until what it waits for is met.", "Whatever it waits for."),
    "done": Chip("Done", "circle-check", "outline", "grey", "It ended, and its result is kept.", NOBODY),
    "failed": Chip("Failed", "circle-x", "outline", "red", "It ended with an error.", NOBODY),
    "timed_out": Chip(
        "We stopped waiting", "clock", "tint", "amber",
        "Its time was over. That says nothing about anything that it sent.",
        "The worker, to stop.",
    ),
    "stopped": Chip("Stopped", "circle-stop", "outline", "grey", "Its run was closed before it ended.", NOBODY),
    "discarded": Chip(
        "Discarded", "circle-slash", "outline", "grey",
        "Its answer came after the cancel; it is kept with its cost, and not used.",
        NOBODY,
    ),
}  # fmt: skip

CLEANUP_CHIPS: dict[str, Chip] = {
    "registered": Chip("To be cleaned up", "clock", "outline", "grey", "It is tidied once the run is quiet.", "A worker, to do it."),
    "claimed": Chip("Being cleaned up", "loader", "tint", "amber", "A worker is tidying it.", "The worker that holds the run."),
    "done": Chip("Cleaned up", "eraser", "outline", "green", "It was tidied.", NOBODY),
    "left_behind": Chip("Left behind", "triangle-alert", "solid", "violet", "Clean-up did not reach it.", PERSON),
    "voided": Chip("Nothing to clean up", "circle-slash", "outline", "grey", "The run ended well: nothing had to be tidied.", NOBODY),
}  # fmt: skip


def run_chip(status: str, in_flight: int = 0) -> Chip:
    """The chip of a run's `status` (`Run.status`, not `Run.state`). Raises KeyError for a word that is no status."""
    chip = RUN_CHIPS[status]
    if status == "writing":
        return replace(chip, text=f"Writing — {in_flight:,} in flight")
    return chip
