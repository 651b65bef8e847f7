"""The one function that says in words what became of an effect, for pages, API and account alike. Pure: it reads no row.

Every sentence about an outcome says how we know it. None offers to send anything again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from runs.wording import Lead, Parts, Ref, count, duration, say

Source = Literal["sender", "look", "webhook", "person"]


@dataclass(frozen=True)
class EffectFacts:
    """What a sentence needs to know of one effect. Times are aware datetimes, lengths are seconds, amounts are ready text.

    `terminated`: a termination stopped the run, not a cancel. `relative` compares our own records: did the outcome's record come
    before or after that of the stop (None: no stop).
    With `answer_by` the wait is said as a moment, for a page that stays open, instead of as `answer_wait_s`.
    `looks_planned` counts the schedule before a person is asked, `next_look_at` is the next of them.
    """

    state: str
    action_words: str = "action"
    provider_name: str = "the provider"
    reference: str = ""
    amount_text: str = ""

    sent_at: datetime | None = None
    answered_at: datetime | None = None
    answer_wait_s: float | None = None
    answer_by: datetime | None = None
    cancel_at: datetime | None = None
    cancel_seq: int | None = None
    terminated: bool = False
    outcome_seq: int | None = None
    relative: Literal["before", "after"] | None = None

    how_we_know: Source | None = None
    known_by: str = ""
    evidence_text: str = ""
    provider_message: str = ""
    provider_time: datetime | None = None
    landed_amount_text: str = ""
    final_by: datetime | None = None

    looks_done: int = 0
    looks_planned: int = 0
    next_look_at: datetime | None = None
    waiting_s: float | None = None
    never_stopped_worker: str = ""
    unknowable: bool = False

    why_withheld: Literal["cancel", "not_sent", "closed"] = "cancel"
    why_absent: str = ""
    conflict: tuple[tuple[str, str], ...] = ()
    found_refs: tuple[str, ...] = ()
    surplus_refs: tuple[str, ...] = ()

    can_ask_undo: bool = False
    """Whether an undo of this action can be asked for here: never promised before it can be done."""
    why_no_undo: str = ""
    """Why none can be asked for; of what has landed."""
    left_in_place_by: str = ""
    undone_amount_text: str = ""
    """The part that is undone, while the rest is in effect."""
    undo: Literal["undo_waiting", "undone", "undo_failed", "cleaned_up"] | None = None
    undo_reference: str = ""
    undo_at: datetime | None = None
    undo_amount_text: str = ""
    undo_message: str = ""
    undo_why: str = ""
    undo_visible_days: int | None = None


def sentence(facts: EffectFacts) -> Parts:
    """What happened, what did not, what is in effect now, and how we know. Raises KeyError for a word that is no state."""
    return _unknowable(facts) if facts.unknowable else _BY_STATE[facts.state](facts)


def detail(facts: EffectFacts) -> Parts:
    """The line below the sentence: what happens next, or the record it rests on. Empty when there is nothing to add."""
    if facts.state == "withheld" and facts.cancel_at and facts.why_withheld != "closed":
        record = f" (record {facts.cancel_seq})" if facts.cancel_seq is not None else ""
        if facts.why_withheld == "not_sent":  # a send had started, so no record can say that none had
            return say("Stopped at ", facts.cancel_at, f"{record}. Its sender reported that nothing left.")
        return say("Stopped at ", facts.cancel_at, f". No send had started{record}.")
    if facts.state == "sending" and facts.answer_by is not None:
        asked = say(f", then we check with {facts.provider_name} using ", _by(facts), ".")
        return say("Waiting until ", facts.answer_by, " at the latest", asked)
    if facts.state == "sending" and facts.answer_wait_s is not None:
        wait = duration(max(0.0, facts.answer_wait_s))
        return say(f"Waiting up to {wait} more, then we check with {facts.provider_name} using ", _by(facts), ".")
    if facts.state in ("landed", "duplicated") and facts.why_no_undo:
        return say(f"Can't be undone: {facts.why_no_undo.rstrip('.')}. Undo it with {facts.provider_name} by hand if it must be.")
    return []


def short(facts: EffectFacts) -> str:
    """A few words for a list line."""
    if facts.state == "withheld":
        return "Not sent — stopped before it left us"
    if facts.state == "landed" and facts.relative:
        return {"before": "Landed before the cancel", "after": "Landed — confirmed after the cancel"}[facts.relative]
    return _SHORT[facts.state].format(provider=facts.provider_name)


_SHORT = {
    "declared": "Not sent yet",
    "sending": "In flight — no answer yet",
    "pending": "Accepted, not final",
    "landed": "Landed",
    "refused": "Refused by {provider}",
    "absent": "Did not happen",
    "unknown": "Unknown — checking",
    "ambiguous": "Unknown — needs a person",
    "conflicted": "Answers disagree",
    "duplicated": "Happened more than once",
    "reversed": "Undone by {provider}",
}


@dataclass(frozen=True)
class _Stop:
    """What stopped the run, as a thing, as what happened, and as an act."""

    noun: str
    accepted: str
    doing: str


_CANCEL = _Stop("the cancel", "the cancel was accepted", "Cancelling")
_TERMINATION = _Stop("the termination", "the run was terminated", "Terminating")


def _stop(facts: EffectFacts) -> _Stop:
    return _TERMINATION if facts.terminated else _CANCEL


def _declared(facts: EffectFacts) -> Parts:
    return say(Lead("Not sent yet."), f" This {facts.action_words} is planned. Nothing of it has left us.")


def _withheld(facts: EffectFacts) -> Parts:
    stopped = "was stopped before it left us"
    if facts.why_withheld == "closed":
        stopped = "had not left us when its run closed, and will not any more"
    return say(
        Lead("Not sent."),
        f" This {facts.action_words} {stopped}. Nothing reached {facts.provider_name}. There is nothing to undo.",
    )


def _sending(facts: EffectFacts) -> Parts:
    if not facts.cancel_at:
        return say(
            Lead("In flight."),
            f" We sent this {facts.action_words} to {facts.provider_name}",
            _at(facts.sent_at),
            " and are waiting for the answer.",
        )
    return say(
        Lead("In flight."),
        f" We had already sent this {facts.action_words} to {facts.provider_name}",
        _at(facts.sent_at),
        f" when {_stop(facts).accepted} at ",
        facts.cancel_at,
        ". It can't be called back. We are waiting for the answer and will start nothing new.",
        " If it lands, you can ask for it to be undone."
        if facts.can_ask_undo
        else f" If it lands, it stays in effect until somebody undoes it with {facts.provider_name}.",
    )


def _pending(facts: EffectFacts) -> Parts:
    decides = say(" and decides by ", facts.final_by) if facts.final_by else say(" and has not decided yet")
    return say(f"{facts.provider_name} accepted it", decides, ".", _know(facts))


def _landed(facts: EffectFacts) -> Parts:
    if facts.undo:
        return _undo(facts)
    told = {"before": _landed_before, "after": _landed_after}.get(facts.relative or "", _landed_plain)
    know = say(_evidence(facts)) if facts.how_we_know == "person" else _know(facts)
    return say(told(facts), _other_amount(facts), know, _partly_undone(facts), _left_in_place(facts))


def _partly_undone(facts: EffectFacts) -> str:
    return f" {facts.undone_amount_text} of it is undone." if facts.undone_amount_text else ""


def _landed_plain(facts: EffectFacts) -> Parts:
    return say(Lead("Landed."), _confirmed(facts), ". It is in effect now.")


def _landed_before(facts: EffectFacts) -> Parts:
    return say(
        Lead(f"Landed before {_stop(facts).noun}."),
        _confirmed(facts),
        say(f"; {_stop(facts).accepted} at ", facts.cancel_at) if facts.cancel_at else None,
        f". {_stop(facts).doing} did not change it. It is in effect now.",
    )


def _landed_after(facts: EffectFacts) -> Parts:
    sent = say(" It was sent", _at(facts.sent_at), f", before {_stop(facts).accepted}", _at(facts.cancel_at), "; ")
    told = say(f"{facts.provider_name}'s answer reached us", _at(facts.answered_at))
    if facts.how_we_know == "person":
        told = _found(facts, "it happened")
    clock = say(f" By {facts.provider_name}'s clock it happened at ", facts.provider_time, ".")
    return say(
        Lead(f"Landed. We learned it after {_stop(facts).noun}."),
        sent,
        told,
        ". It is in effect now.",
        clock if facts.provider_time else None,
    )


def _confirmed(facts: EffectFacts) -> Parts:
    if facts.how_we_know == "person":
        return say(" ", _found(facts, "it happened"))
    return say(f" {facts.provider_name} confirmed this {facts.action_words}", _at(facts.answered_at))


def _other_amount(facts: EffectFacts) -> str:
    if not facts.landed_amount_text or facts.landed_amount_text == facts.amount_text:
        return ""
    return f" It landed for {facts.landed_amount_text}, not {facts.amount_text}."


def _left_in_place(facts: EffectFacts) -> str:
    return f" Left in place by {facts.left_in_place_by}." if facts.left_in_place_by else ""


def _refused(facts: EffectFacts) -> Parts:
    said = f': "{facts.provider_message.rstrip(".")}"' if facts.provider_message else ""
    return say(f"{facts.provider_name} refused it{said}. Nothing happened.", _know(facts))


def _absent(facts: EffectFacts) -> Parts:
    evidence = _evidence(facts) if facts.how_we_know == "person" else ""
    return say("Proved not to have happened: ", _how_absent(facts), ". It can't happen any more.", evidence)


def _how_absent(facts: EffectFacts) -> Parts:
    if facts.why_absent:
        return say(facts.why_absent)
    if facts.how_we_know == "person":
        return say(f"{facts.known_by or 'somebody'} found", _at(facts.answered_at), " that it did not happen")
    if facts.how_we_know == "sender":
        return say("its sender reported that nothing left")
    if facts.how_we_know == "webhook":
        return say(f"{facts.provider_name} told us so by webhook", _at(facts.answered_at))
    looks = count(facts.looks_done, "look") if facts.looks_done else "looks"
    return say(f"its sender had stopped, and {looks} at {facts.provider_name} found nothing of it")


def _unknowable(facts: EffectFacts) -> Parts:
    return say(
        Lead("It can't be known."),
        f" We sent this {facts.action_words}",
        _at(facts.sent_at),
        ". Two people found that nobody can tell whether it happened. It stays unknown in the account and its reference stays taken.",
    )


def _unknown(facts: EffectFacts) -> Parts:
    check = f": check {min(facts.looks_done + 1, facts.looks_planned)} of {facts.looks_planned}"
    when = say(", next at ", facts.next_look_at) if facts.next_look_at else say(", due now")
    return say(
        Lead("We don't know yet."),
        f" We sent this {facts.action_words}",
        _at(facts.sent_at),
        f" and got no clear answer. It may or may not have happened. We are asking {facts.provider_name} with ",
        _by(facts),
        say(check, when) if facts.looks_planned else None,
        ". ",
        Lead("Don't repeat it by hand — it could happen twice."),
    )


def _ambiguous(facts: EffectFacts) -> Parts:
    sent = say(f" We sent this {facts.action_words}", _at(facts.sent_at), ". ")
    if facts.looks_done:
        over = f" over {duration(facts.waiting_s)}" if facts.waiting_s else ""
        asked = f"After {count(facts.looks_done, 'check')}{over}, {facts.provider_name} has not told us whether it happened"
    elif facts.looks_planned:  # somebody knows of it before the checks are over
        asked = f"{facts.provider_name} has not told us yet whether it happened"
    else:
        asked = f"{facts.provider_name} can't be asked, so nothing has told us whether it happened"
    alive = f", and worker {facts.never_stopped_worker} was never confirmed stopped" if facts.never_stopped_worker else ""
    return say(
        Lead("A person must find out."),
        sent,
        f"{asked}{alive}. Look it up by ",
        _by(facts),
        " and record what you find. Until then this run stays unresolved.",
    )


def _conflicted(facts: EffectFacts) -> Parts:
    says = ", ".join(f"{source} says {what}" for source, what in facts.conflict)
    says = says or f"Two sources say different things about this {facts.action_words}"
    return say(f"{says[0].upper()}{says[1:]}. A person must decide. Nothing is repeated meanwhile.")


def _duplicated(facts: EffectFacts) -> Parts:
    times = f"{len(facts.found_refs)} times" if facts.found_refs else "more than once"
    refs: Parts = []
    for position, ref in enumerate(facts.found_refs):
        refs += [", " if position else ": ", Ref(ref)]
    too_many: Parts = []
    for position, ref in enumerate(facts.surplus_refs):
        too_many += [", " if position else " Too many: ", Ref(ref)]
    return say(f"Found {times} at {facts.provider_name}", refs, ".", [*too_many, "."] if too_many else "", _know(facts))


def _reversed(facts: EffectFacts) -> Parts:
    return say(
        Lead(f"Undone by {facts.provider_name}."),
        f" This {facts.action_words} had landed; {facts.provider_name} undid it",
        _at(facts.answered_at),
        ". It is not in effect now.",
        _know(facts),
    )


def _undo(facts: EffectFacts) -> Parts:
    name = facts.provider_name
    if facts.undo == "undo_waiting":
        text = facts.undo_amount_text or facts.amount_text
        amount = f" ({text})" if text else ""
        return say(
            f"Asked to undo {facts.action_words}{amount}. Someone else must approve it. Request ",
            Ref(facts.undo_reference),
            ". It is in effect until then.",
            _partly_undone(facts),
        )
    if facts.undo == "undone":
        days = f" Customers may see it in {count(facts.undo_visible_days, 'day')}." if facts.undo_visible_days else ""
        return say(Lead("Undone."), f" {name} confirmed ", Ref(facts.undo_reference), _at(facts.undo_at), f".{days}")
    if facts.undo == "undo_failed":
        why = f'{name} said "{facts.undo_message}"' if facts.undo_message else facts.undo_why or f"{name} did not say why"
        still = f"The original {facts.action_words} is still in effect."
        return say(f"The undo did not work: {why}. {still}", _partly_undone(facts))
    return say(
        Lead("Removed by cleanup."),
        f" This {facts.action_words} had landed",
        _at(facts.answered_at),
        "; the run's own clean-up removed it",
        _at(facts.undo_at),
        ".",
        _know(facts),
    )


def _know(facts: EffectFacts) -> Parts:
    """How we know an outcome; a person's finding names the person, the time and what it rests on."""
    name = facts.provider_name
    if facts.how_we_know == "person":
        verdict = _VERDICTS.get(facts.state, "it happened")
        return say(" ", _found(facts, verdict), ".", _evidence(facts))
    told = {
        "sender": " We know it from the sender's answer.",
        "look": f" We know it from a look at {name}.",
        "webhook": f" We know it from a webhook of {name}.",
    }
    return say(told.get(facts.how_we_know or "", " How we know is not recorded."))


_VERDICTS = {
    "refused": "it was refused",
    "pending": "it was accepted",
    "duplicated": "it happened more than once",
    "reversed": "it was undone",
}


def _found(facts: EffectFacts, verdict: str) -> Parts:
    return say(f"{facts.known_by or 'Somebody'} found", _at(facts.answered_at), f": {verdict}")


def _evidence(facts: EffectFacts) -> str:
    return f" Evidence: {facts.evidence_text}." if facts.evidence_text else ""


def _at(moment: datetime | None) -> Parts:
    return say(" at ", moment) if moment else []


def _by(facts: EffectFacts) -> Parts:
    return say("reference ", Ref(facts.reference)) if facts.reference else say("its operation id")


_BY_STATE: dict[str, Callable[[EffectFacts], Parts]] = {
    "declared": _declared,
    "withheld": _withheld,
    "sending": _sending,
    "pending": _pending,
    "landed": _landed,
    "refused": _refused,
    "absent": _absent,
    "unknown": _unknown,
    "ambiguous": _ambiguous,
    "conflicted": _conflicted,
    "duplicated": _duplicated,
    "reversed": _reversed,
}
