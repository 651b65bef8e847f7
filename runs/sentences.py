"""What a run's header says in each state, and the answers to a cancel, in words. Pure: reads no row, says no more than is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from runs import states
from runs.wording import Lead, Parts, Ref, count, duration, say


@dataclass(frozen=True)
class HeaderFacts:
    """What the header sentence needs to know of one run. Times are aware datetimes.

    `status` is `Run.status`. `unsettled` are references of the effects that are in flight or in doubt; the counts speak of work effects;
    `in_effect` are the landed ones that nothing has removed since.
    """

    status: str
    ref: str = ""
    actions: int = 0
    in_flight: int = 0
    unsettled: tuple[str, ...] = ()
    landed: int = 0
    in_effect: int = 0
    unknown: int = 0
    never_sent: int = 0
    cases_open: int = 0

    asked_by: str = ""
    asked_at: datetime | None = None
    reason: str = ""
    quiet_at: datetime | None = None
    quiet_basis: str = ""
    closed_at: datetime | None = None

    holder: str = ""
    holder_seen_at: datetime | None = None
    worker_pending: bool = False
    cleanups_open: int = 0
    children_open: int = 0
    children_unsettled: int = 0

    waits_for: str = ""
    wake_at: datetime | None = None
    error: str = ""


def header_sentence(facts: HeaderFacts) -> Parts:
    """What is true of the run now and what it waits for. Raises KeyError for a word that is no status."""
    state, tail = split_status(facts.status)
    return _BY_STATE[state](facts, tail)


def split_status(status: str) -> tuple[str, str]:
    """`cancelled_pending` → (`cancelled`, `pending`); a status without a settlement has `""`."""
    for tail in (states.PENDING, states.UNRESOLVED, states.RECONCILED):
        state = status.removesuffix(f"_{tail}")
        if state != status and state in states.CLOSED:
            return state, tail
    return status, ""


def _scheduled(facts: HeaderFacts, tail: str) -> Parts:
    if facts.wake_at:
        return say("Nothing of it is acting. It goes on at ", facts.wake_at, ".")
    if facts.waits_for:
        return say(f"Nothing of it is acting. It waits for {facts.waits_for}.")
    return say("Nothing of it is acting. It waits for a worker to claim it.")


def _running(facts: HeaderFacts, tail: str) -> Parts:
    worker = f"Worker {facts.holder} is acting for it" if facts.holder else "A worker is acting for it"
    seen = say(", last seen ", facts.holder_seen_at) if facts.holder_seen_at else None
    flying = f" {count(facts.in_flight, 'action')} in flight." if facts.in_flight else " Nothing is in flight."
    return say(worker, seen, ".", flying)


def _awaiting_approval(facts: HeaderFacts, tail: str) -> Parts:
    return say("It stands still until an approver decides.")


def _awaiting_evidence(facts: HeaderFacts, tail: str) -> Parts:
    of_what = say(*_unsettled(facts)) if facts.unsettled else say(f"of {count(facts.actions, 'action')}")
    return say("It stands still until we know what happened: ", of_what, ".")


def _cancelling(facts: HeaderFacts, tail: str) -> Parts:
    quiet = _presumed(facts) if facts.quiet_at else []
    waiting = _waiting_for(facts)
    return say(
        Lead("Cancelling."),
        say(f" {facts.asked_by or 'Somebody'} asked at ", facts.asked_at, ".") if facts.asked_at else None,
        " Nothing new can start.",
        f" Waiting for: {waiting}." if waiting else " Nothing is waited for; it is about to close.",
        quiet,
    )


def _waiting_for(facts: HeaderFacts) -> str:
    waits = []
    if facts.worker_pending:
        waits.append(f"worker {facts.holder} to confirm" if facts.holder else "worker to confirm")
    if facts.in_flight:
        waits.append(f"{count(facts.in_flight, 'action')} in flight")
    if facts.cleanups_open:
        waits.append(count(facts.cleanups_open, "clean-up step"))
    if facts.children_open:
        waits.append(count(facts.children_open, "child run"))
    return ", ".join(waits)


def _failing(facts: HeaderFacts, tail: str) -> Parts:
    waiting = _waiting_for(facts) or "clean-up to finish"
    return say(Lead("It failed."), _why(facts), f" Nothing new can start. Waiting for: {waiting}.")


def _completed(facts: HeaderFacts, tail: str) -> Parts:
    return _settled(facts, tail, "Finished.", "It finished, and")


def _failed(facts: HeaderFacts, tail: str) -> Parts:
    return say(_settled(facts, tail, "It failed.", "It failed, and"), _in_effect(facts), _why(facts))


def _cancelled(facts: HeaderFacts, tail: str) -> Parts:
    return say(_settled(facts, tail, "Stopped.", "Nothing new can start."), _in_effect(facts), _presumed(facts))


def _terminated(facts: HeaderFacts, tail: str) -> Parts:
    who = f"Terminated by {facts.asked_by}" if facts.asked_by else "Terminated"
    reason = f' Reason: "{facts.reason}".' if facts.reason else ""
    checked = f"{'is' if facts.unknown == 1 else 'are'} being checked (a person is asked if that fails)"
    return say(
        say(Lead(who), Lead(" at "), facts.closed_at, ".") if facts.closed_at else Lead(f"{who}."),
        reason,
        f" We stopped giving {facts.ref or 'it'} work and refuse anything it still tries. Its clean-up steps did not run.",
        f" Terminating undid nothing: {count(facts.landed, 'action')} had landed and"
        f" {'stays' if facts.landed == 1 else 'stay'} in effect; {facts.unknown:,} {'is' if facts.unknown == 1 else 'are'}"
        f" unknown and {checked}; {facts.never_sent:,} {'was' if facts.never_sent == 1 else 'were'} never sent.",
    )


def _settled(facts: HeaderFacts, tail: str, all_well: str, otherwise: str) -> Parts:
    if tail in ("", states.RECONCILED):
        accounted = _accounted(facts)
        late = " Some were unknown for a while; they are settled now." if tail == states.RECONCILED else ""
        if late and facts.actions == 1:
            late = " It was unknown for a while and is settled now."
        return say(f"{all_well}{accounted}{late}")
    person = " A person must find out." if tail == states.UNRESOLVED else ""
    if not facts.unsettled and facts.children_unsettled + facts.children_open:
        runs = count(facts.children_unsettled or facts.children_open, "child run")
        return say(f"{otherwise} {runs} not settled.{person}")
    if not facts.unsettled:  # every action is settled; something else of the run is with a person, such as clean-up left behind
        cases = facts.cases_open or 1
        return say(f"{all_well}{_accounted(facts)} {count(cases, 'case')} about it {'waits' if cases == 1 else 'wait'} for a person.")
    how_many, which = _unsettled(facts)
    if otherwise.endswith("."):
        how_many = how_many[0].upper() + how_many[1:]
    return say(f"{otherwise} {how_many}", which, f".{person}")


def _accounted(facts: HeaderFacts) -> str:
    if facts.actions == 0:
        return " It had sent nothing."
    return " Its one action is accounted for." if facts.actions == 1 else f" All {count(facts.actions, 'action')} are accounted for."


def _in_effect(facts: HeaderFacts) -> str:
    """A stop undoes nothing, so what landed is named with it."""
    if not facts.in_effect:
        return ""
    return f" {count(facts.in_effect, 'action')} landed and {'is' if facts.in_effect == 1 else 'are'} in effect."


def _unsettled(facts: HeaderFacts) -> tuple[str, Parts]:
    open_now = len(facts.unsettled)
    links: Parts = []
    for position, ref in enumerate(facts.unsettled[:5]):
        links += [", " if position else ": ", Ref(ref)]
    more = f" and {open_now - 5:,} more" if open_now > 5 else ""
    return _so_many(open_now, facts.actions), say(links, more)


def _so_many(some: int, of: int) -> str:
    if some < of:
        return f"{some:,} of {of:,} actions {'is' if some == 1 else 'are'} not settled"
    return "its one action is not settled" if some == 1 else f"none of its {some:,} actions is settled"


def _presumed(facts: HeaderFacts) -> Parts:
    if facts.quiet_basis != "presumed":
        return []
    return say(" ", presumed_sentence(facts.holder, facts.holder_seen_at))


def _why(facts: HeaderFacts) -> str:
    error = facts.error.rstrip(".")
    if not error:
        return ""
    return f" Error: “{error}”." if '"' in error else f' Error: "{error}".'  # one that quotes somebody itself stays readable


_BY_STATE: dict[str, Callable[[HeaderFacts, str], Parts]] = {
    states.SCHEDULED: _scheduled,
    states.RUNNING: _running,
    "writing": _running,
    states.AWAITING_APPROVAL: _awaiting_approval,
    states.AWAITING_EVIDENCE: _awaiting_evidence,
    states.CANCELLING: _cancelling,
    states.FAILING: _failing,
    states.COMPLETED: _completed,
    states.FAILED: _failed,
    states.CANCELLED: _cancelled,
    states.TERMINATED: _terminated,
}


def quiet_sentence(seconds: float) -> Parts:
    """`seconds`: from asked to quiet."""
    return say(f"Quiet after {duration(seconds)}. Nothing of this run is acting any more.")


def presumed_sentence(worker: str, seen_at: datetime | None) -> Parts:
    """Shown for ever next to a run whose worker was never heard to stop."""
    since = say(" since ", seen_at) if seen_at else None
    return say(
        f"Worker {worker or 'of this run'} has not answered", since,
        ". Anything it starts is refused; it may still be computing.",
    )  # fmt: skip


def silent_worker_sentence(seen_at: datetime) -> Parts:
    return say(
        "The worker last answered at ", seen_at,
        ". It may still be running. We refuse any new action from it."
        " Terminate would not stop it sooner; it would only skip clean-up.",
    )  # fmt: skip


def timed_out_sentence(step: str, at: datetime, action_words: str) -> Parts:
    return say(f"We stopped waiting for {step} at ", at, f". That says nothing about {action_words}, which is still in flight.")


def already_closed_sentence(
    ref: str, word: str, closed_at: datetime, asked_at: datetime | None, result: str, landed: tuple[str, ...] = ()
) -> Parts:
    """The answer to a cancel that came too late. `word`: the run's state; `landed`: one line per action that took effect.

    Without `asked_at` nobody has asked: it says why there is nothing to ask for.
    """
    listed = f": {', '.join(landed)}" if landed else ""
    before = say(f", {duration((asked_at - closed_at).total_seconds())} before your cancel at ", asked_at) if asked_at else None
    lead = "Not cancelled: this run had already finished." if asked_at else "This run has already finished."
    stopped = " Nothing was stopped." if asked_at else ""
    return say(
        Lead(lead), " ", Ref(ref), f" {_CLOSED_AS.get(word, word)} at ", closed_at, before,
        f".{stopped} Result: {result or 'none'}. {count(len(landed), 'action')} took effect{listed}.",
    )  # fmt: skip


_CLOSED_AS = {states.CANCELLED: "was cancelled", states.TERMINATED: "was terminated"}


def already_failed_sentence(ref: str) -> Parts:
    """The answer to a cancel of a run that has failed and is cleaning up: its end is decided."""
    lead = Lead("Not cancelled: this run had already failed.")
    return say(lead, " ", Ref(ref), " is cleaning up, and its end is decided. Nothing was stopped.")


def repeat_sentence(asked_by: str, asked_at: datetime, word: str = "cancelling") -> Parts:
    """`word`: what the run is already doing or has come to: cancelling | cancelled | terminated."""
    return say(f"Already {word} — {asked_by} asked at ", asked_at, ". Your click changed nothing.")


def busy_sentence(locked_by: str) -> Parts:
    return say(f"Not recorded: the run is locked by {locked_by}. Nothing was stopped.")


def not_allowed_sentence(ref: str, team: str, verb: str = "cancel") -> Parts:
    return say(f"You can see this run but not {verb} it. {team} can. Run reference: ", Ref(ref), ".")


def changed_while_reading_sentence(sent: tuple[str, ...]) -> Parts:
    """After a cancel accepted on a stale preview; `sent`: one line per action that was sent meanwhile."""
    verb = "was" if len(sent) == 1 else "were"
    return say(f"While you were reading, {len(sent)} more {'action' if len(sent) == 1 else 'actions'} {verb} sent: {', '.join(sent)}.")
