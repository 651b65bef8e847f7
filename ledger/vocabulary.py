"""What every effect state is called on screen, given its relation to the cancel and what became of it since."""

from __future__ import annotations

from dataclasses import replace

from runs.vocabulary import NOBODY, PERSON, SYSTEM, Chip

EFFECT_CHIPS: dict[str, Chip] = {
    "declared": Chip(
        "Not sent yet", "clock", "outline", "grey",
        "It is planned. Nothing of it has left us.",
        "The worker, to send it.",
    ),
    "withheld": Chip(
        "Not sent", "circle-slash", "outline", "grey",
        "It was stopped before it left us. Nothing reached the provider, and there is nothing to undo.",
        NOBODY,
    ),
    "sending": Chip(
        "In flight", "loader", "tint", "amber",
        "It was sent and there is no answer yet. It cannot be called back.",
        "The provider, to answer; then the system, which asks.",
    ),
    "pending": Chip(
        "Accepted, not final", "hourglass", "tint", "amber",
        "The provider has taken it and has not decided yet.",
        "The provider, to decide.",
    ),
    "landed": Chip(
        "Landed", "circle-check", "outline", "green",
        "The provider did it, and it is in effect.",
        NOBODY,
    ),
    "landed_before": Chip(
        "Landed before the cancel", "circle-check", "outline", "green",
        "Its outcome was recorded before the cancel was. Cancelling did not change it; it is in effect.",
        NOBODY,
    ),
    "landed_after": Chip(
        "Landed — confirmed after the cancel", "triangle-alert", "tint", "amber",
        "It was sent before the cancel and we learned only afterwards that it had happened. It is in effect.",
        "You, if it has to be undone.",
    ),
    "refused": Chip(
        "Refused by the provider", "circle-x", "outline", "grey",
        "The provider said no. Nothing happened.",
        NOBODY,
    ),
    "absent": Chip(
        "Did not happen", "circle-slash", "outline", "grey",
        "It is proved that it did not happen, and that it cannot happen any more.",
        NOBODY,
    ),
    "unknown": Chip(
        "Unknown — checking", "circle-question-mark", "tint", "amber",
        "It may or may not have happened. The provider is being asked. Repeating it by hand could do it twice.",
        SYSTEM,
    ),
    "ambiguous": Chip(
        "Unknown — needs a person", "file-question-mark", "solid", "violet",
        "Asking the provider did not settle it. A person must look it up and record what they find.",
        PERSON,
    ),
    "unknowable": Chip(
        "Can't be known", "file-question-mark", "outline", "grey",
        "Two people found that nobody can tell whether it happened. It stays unknown, and its reference stays taken.",
        NOBODY,
    ),
    "conflicted": Chip(
        "Answers disagree", "badge-alert", "solid", "violet",
        "Two sources say different things about it. Nothing is repeated until a person has decided.",
        PERSON,
    ),
    "duplicated": Chip(
        "Happened more than once", "badge-alert", "solid", "violet",
        "The provider did it several times. A person must name the ones that are too many.",
        PERSON,
    ),
    "reversed": Chip(
        "Undone by the provider", "undo-2", "tint", "amber",
        "It had landed, and the provider undid it later.",
        "You, if it should be in effect after all.",
    ),
    "undo_waiting": Chip(
        "Undo waiting for approval", "users", "solid", "violet",
        "It is in effect. Somebody asked for it to be undone, and somebody else must approve that.",
        "An approver, to decide.",
    ),
    "undone": Chip(
        "Undone", "undo-2", "outline", "green",
        "It had landed, and was undone on request.",
        NOBODY,
    ),
    "undo_failed": Chip(
        "Undo failed", "badge-alert", "solid", "violet",
        "Undoing it did not work. It is still in effect.",
        PERSON,
    ),
    "cleaned_up": Chip(
        "Removed by cleanup", "eraser", "outline", "green",
        "It had landed, and the run's own clean-up removed it.",
        NOBODY,
    ),
}  # fmt: skip

STATES = (
    "declared", "withheld", "sending", "pending", "landed", "refused", "absent",
    "unknown", "ambiguous", "conflicted", "duplicated", "reversed",
)  # fmt: skip
UNKNOWABLE = "unknowable"
UNDOS = ("undo_waiting", "undone", "undo_failed", "cleaned_up")


def chip_key(state: str, relative: str | None = None, undo: str | None = None) -> str:
    """Which entry of EFFECT_CHIPS speaks for an effect: `relative` is before | after | None, `undo` one of UNDOS, UNKNOWABLE or None."""
    if undo == UNKNOWABLE:
        return UNKNOWABLE
    if state == "landed" and undo in UNDOS:
        return undo
    if state == "landed" and relative in ("before", "after"):
        return f"landed_{relative}"
    return state


def effect_chip(state: str, relative: str | None = None, provider: str = "", undo: str | None = None) -> Chip:
    """The chip of an effect; `provider` is the provider's display name. Raises KeyError for a word that is no state."""
    chip = EFFECT_CHIPS[chip_key(state, relative, undo)]
    return replace(chip, text=chip.text.replace("the provider", provider)) if provider else chip
