"""What one new fact makes of an effect: a pure function from states and a fact to states. It reads no row, no clock, no provider.

A sender's report settles its attempt and the effect follows from its attempts; a look, a webhook or a person speaks of the effect itself.
Contradictions move to `conflicted`; older news never contradicts; nothing here ever leads back to sending.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ledger import states as s

APPLIED = "applied"
AGREES = "agrees"
LATE = "late_evidence"
CONFLICTS = "conflicts"

_DID_NOT = frozenset({s.REFUSED, s.NOT_SENT, s.ABSENT})
_UNDECIDED = frozenset({s.SENDING, s.UNKNOWN, s.PENDING})


@dataclass(frozen=True)
class Judgement:
    """`attempts` are the attempts' states afterwards, `effect` is the effect's, `used_as` is what the reporter is told."""

    effect: str
    attempts: tuple[str, ...]
    used_as: str


def from_sender(state: str, attempts: Sequence[str], index: int, verdict: str, unsent: str, mismatch: bool = False) -> Judgement:
    """A sender reports `verdict` (landed, refused, pending, unknown, not_sent) for attempt `index`.

    `unsent`: what an effect of which nothing was sent becomes now: declared (its run is running), absent (it waits), withheld (it stops).
    `mismatch`: it landed, but not with the reference, amount or currency we asked for.
    """
    before = attempts[index]
    same = tuple(attempts)
    if before == verdict and not mismatch:
        return Judgement(state, same, AGREES)
    if mismatch:
        return _conflict(state, (*same[:index], verdict, *same[index + 1 :]) if before in _UNDECIDED else same)
    if _contradicts(before, verdict):
        return _conflict(state, same)
    if before not in _UNDECIDED:
        return Judgement(state, same, AGREES if before in _DID_NOT and verdict in _DID_NOT else LATE)
    if verdict == s.UNKNOWN and before == s.PENDING:
        return Judgement(state, same, LATE)
    after = (*same[:index], verdict, *same[index + 1 :])
    if state not in s.OPEN:
        landed_elsewhere = verdict == s.LANDED and state in (s.REFUSED, s.ABSENT, s.DECLARED, s.WITHHELD)
        return _conflict(state, after) if landed_elsewhere else Judgement(state, after, LATE)
    now = _follow(after, unsent)
    if state == s.AMBIGUOUS and now == s.UNKNOWN:
        now = state
    return Judgement(now, after, APPLIED)


def _contradicts(before: str, verdict: str) -> bool:
    """It did and it did not; or it was accepted although nothing was sent, or nothing was there."""
    pair = {before, verdict}
    return (s.LANDED in pair and bool(pair & _DID_NOT)) or (s.PENDING in pair and bool(pair & {s.NOT_SENT, s.ABSENT}))


def _conflict(state: str, attempts: tuple[str, ...]) -> Judgement:
    return Judgement(s.CONFLICTED, attempts, LATE if state == s.CONFLICTED else CONFLICTS)


def _follow(attempts: tuple[str, ...], unsent: str) -> str:
    """The effect's state as it follows from its attempts."""
    for certain in (s.LANDED, s.SENDING, s.PENDING, s.UNKNOWN):
        if certain in attempts:
            return certain
    if s.REFUSED in attempts:
        return s.REFUSED
    return unsent if set(attempts) == {s.NOT_SENT} else s.ABSENT


def from_outside(state: str, attempts: Sequence[str], verdict: str) -> Judgement:
    """A look or a webhook says of the effect: landed, pending, refused, absent, reversed, duplicated or conflicted (it does not match)."""
    same = tuple(attempts)
    if state == s.CONFLICTED or (state == s.DUPLICATED and verdict != s.CONFLICTED):
        return Judgement(state, same, LATE)
    if verdict == s.CONFLICTED:
        return _conflict(state, same)
    if state in (s.DECLARED, s.WITHHELD):
        return Judgement(state, same, AGREES) if verdict == s.ABSENT else _conflict(state, same)
    if state == verdict:
        return Judgement(state, same, AGREES)
    if state in s.OPEN:
        return _settle_open(state, same, verdict)
    if state == s.LANDED and verdict in (s.REVERSED, s.DUPLICATED):
        return Judgement(verdict, same, APPLIED)
    if _older_news(state, verdict):
        return Judgement(state, same, LATE)
    if state in _DID_NOT and verdict in _DID_NOT:
        return Judgement(state, same, AGREES)
    return _conflict(state, same)


def _older_news(state: str, verdict: str) -> bool:
    """Pending after known, landed after reversed. (Nothing was ever there when it is absent: an accepted object contradicts that.)"""
    return (verdict == s.PENDING and state != s.ABSENT) or (verdict == s.LANDED and state == s.REVERSED)


def _settle_open(state: str, attempts: tuple[str, ...], verdict: str) -> Judgement:
    attempt_verdict = s.LANDED if verdict in (s.REVERSED, s.DUPLICATED) else verdict
    if verdict in (s.REFUSED, s.ABSENT):
        after = tuple(attempt_verdict if a in _UNDECIDED else a for a in attempts)
    else:
        undecided = [i for i, a in enumerate(attempts) if a in _UNDECIDED]
        last = undecided[-1] if undecided else len(attempts) - 1
        after = (*attempts[:last], attempt_verdict, *attempts[last + 1 :])
    return Judgement(verdict, after, APPLIED)


def from_person(state: str, attempts: Sequence[str], verdict: str) -> Judgement:
    """A person settles what is in doubt: landed, refused or absent. Elsewhere their word is evidence like any other."""
    if state == s.CONFLICTED and verdict in (s.LANDED, s.REFUSED, s.ABSENT):
        return Judgement(verdict, _as_decided(attempts, verdict), APPLIED)
    return from_outside(state, attempts, verdict)


def _as_decided(attempts: Sequence[str], verdict: str) -> tuple[str, ...]:
    """The attempts in step with a person's verdict, so that what contradicts it later is seen to."""
    if verdict != s.LANDED:
        return tuple(a if a in _DID_NOT else verdict for a in attempts)
    after = [s.UNKNOWN if a == s.SENDING else a for a in attempts]
    if after and s.LANDED not in after:
        after[-1] = s.LANDED
    return tuple(after)
