"""Requests to undo a landed effect: asked by one person, decided by others, withdrawn until they are carried out. Nothing here sends.

Every verb locks the run, then the original, then the request, and decides from what it reads after that. Requests are never deleted;
one that nobody may act on any more ends, with who, when and why.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from django.db import transaction

from ledger import catalogue, endings, outcomes, prospects, undo_states, undoing
from ledger.models import Compensation, CompensationDecision, Effect
from ledger.prospects import Wanted
from ledger.rules import EXCEEDS_LANDED, Verdict
from runs import actors, hints, people, sweeps, transition
from runs.actors import Actor
from runs.errors import (
    AlreadyDecided,
    Conflict,
    ExceedsLanded,
    Expired,
    Invalid,
    NotAllowed,
    NotEligible,
    NotFound,
    SamePerson,
    Stale,
)
from runs.models import Run

EXPIRES_AFTER = timedelta(hours=72)
AMOUNT_MAX = 10**15
SYSTEM = actors.system("undoing")
NOBODY_DECIDED = "Nobody decided within 72 h. Ask again."
NOT_CARRIED_OUT = "It was not carried out within 72 h. Ask again."


@dataclass
class Held:
    """A request with its original and their run, locked in this order (run, original, request) until the transaction ends."""

    run: Run
    original: Effect
    request: Compensation

    def excluded(self) -> dict[str, str]:
        """Who may not approve it, and why."""
        return undoing.excluded(self.run, self.original, self.request.requested_by, self.request.editors)

    def wanted(self) -> Wanted:
        """What is asked."""
        one = self.request
        return Wanted(one.amount, one.currency, one.reason, one.note, one.target)


def hold(request_id: uuid.UUID) -> Held:
    """Lock a request after its original and their run. Raises `NotFound`."""
    original = Compensation.objects.filter(pk=request_id).values_list("original_id", flat=True).first()
    if original is None:
        raise NotFound("No such undo request.")
    locked = outcomes.lock(original)
    request = Compensation.objects.select_for_update().get(pk=request_id)
    request.original = locked.effect
    locked.effect.run = locked.run
    return Held(locked.run, locked.effect, request)


# Asking


def request(actor: Actor, operation_id: uuid.UUID, wanted: Wanted) -> tuple[Compensation, bool]:
    """Ask for an effect to be undone. Returns the request and whether it is new (the same person's same wish comes back as it is).

    Raises `NotAllowed`, `NotFound`, `Invalid`, `NotEligible` (also when nobody could approve it), `ExceedsLanded`.
    """
    require_asker(actor)
    _check(wanted)
    with transaction.atomic(durable=True):
        held = outcomes.lock(operation_id)
        run, effect = held.run, held.effect
        now = transition.clock()
        open_one = Compensation.objects.select_for_update().filter(original=effect, state=undo_states.REQUESTED).first()
        if open_one is not None and _lapse(Held(run, effect, open_one), now):
            open_one = None
        if open_one is not None:
            return _already_asked(actor, open_one, wanted), False
        verdict = undoing.judge(effect, wanted, now)
        _refuse_unless_eligible(verdict)
        made = _insert(actor, run, effect, wanted, verdict, now)
        endings.record(run, made, "requested", actor, {"reason": made.reason, "note": made.note, "rule_version": made.rule_version})
        return made, True


def require_asker(actor: Actor) -> None:
    """Raise `NotAllowed` unless this is a person who may ask for an undo."""
    _require_person(actor, actors.COMPENSATION_REQUEST, "ask for an undo")


def _require_person(actor: Actor, scope: str, what: str) -> None:
    """No agent token, model or part of the system asks for an undo or decides on one."""
    if not actor.is_person:
        raise NotAllowed(f"Only a person may {what}.", needs=scope)
    actor.require(scope, None, what)


def _check(wanted: Wanted) -> None:
    if wanted.amount is not None and (not isinstance(wanted.amount, int) or isinstance(wanted.amount, bool)):
        raise Invalid("amount must be a whole number of minor units.", field="amount")
    if wanted.amount is not None and not 1 <= wanted.amount <= AMOUNT_MAX:
        raise Invalid("amount must be more than 0: a whole number of minor units.", field="amount")
    if (wanted.amount is None) != (not wanted.currency):
        raise Invalid("amount and currency go together.", field="currency" if wanted.amount is not None else "amount")
    if wanted.reason not in undo_states.REASONS:
        raise Invalid(f"reason must be one of {', '.join(undo_states.REASONS)}.", field="reason")
    if wanted.reason == "other" and not wanted.note.strip():
        raise Invalid("Say in a note what the reason is.", field="note")


def _already_asked(actor: Actor, open_one: Compensation, wanted: Wanted) -> Compensation:
    asked = Wanted(open_one.amount, open_one.currency, open_one.reason, open_one.note, open_one.target)
    mine = replace(wanted, note=wanted.note.strip(), external_id=wanted.external_id or open_one.target)
    if open_one.requested_by == actor.id and asked == mine:
        return open_one
    raise NotEligible(
        f"{open_one.ref}, asked for by {open_one.requested_name}, waits for a decision. One undo is decided at a time.",
        compensation=open_one.ref,
    )


def _refuse_unless_eligible(verdict: Verdict) -> None:
    refusal = verdict.refusal
    if refusal is None:
        return
    kind: type[Conflict] = ExceedsLanded if refusal.code == EXCEEDS_LANDED else NotEligible
    raise kind(
        refusal.says, reasons=[reason.as_json() for reason in verdict.reasons], field="amount" if kind is ExceedsLanded else "effect"
    )


def _insert(actor: Actor, run: Run, effect: Effect, wanted: Wanted, verdict: Verdict, now: datetime) -> Compensation:
    made = Compensation(
        run=run,
        original=effect,
        provider=effect.provider,
        action=catalogue.capability(effect.provider).compensable[effect.action],
        target=prospects.target_of(effect, wanted.external_id),
        amount=wanted.amount,
        currency=wanted.currency,
        reason=wanted.reason,
        note=wanted.note.strip(),
        requested_by=actor.id,
        requested_name=actor.name,
        requested_at=now,
        expires_at=now + EXPIRES_AFTER,
    )
    _bind(Held(run, effect, made), verdict)
    made.save()
    return made


def _bind(held: Held, verdict: Verdict) -> None:
    """What is asked, bound to the original as it stands and to the rule. Refused at once when nobody could approve it."""
    one = held.request
    one.verdict = [reason.as_json() for reason in verdict.reasons]
    one.rule_version, one.approvals_needed = verdict.rule_version, verdict.approvals
    one.original_position = held.original.known_position
    one.excluded = sorted(held.excluded())
    one.digest = undoing.digest_of(one, held.original, verdict.rule_version)
    able = approvers(held)
    if len(able) < one.approvals_needed:
        who = (
            "Nobody else here may approve it"
            if not able
            else f"It needs {one.approvals_needed} approvals, and only {able[0].name} may give one"
        )
        raise NotEligible(
            f"{who}: whoever asks, edits, settles its case or started its run may not. Nothing was asked for.", approvers=len(able)
        )


def approvers(held: Held) -> list[Actor]:
    """Everyone who could approve it now."""
    excluded = held.excluded()
    return [one for one in people.directory().who_may(actors.COMPENSATION_APPROVE) if one.id not in excluded]


def edit(actor: Actor, request_id: uuid.UUID, version: int, changes: dict[str, object]) -> Compensation:
    """Change what is asked (amount, reason, note) while it is undecided: the next version, which nobody has approved yet.

    Whoever edits cannot approve. Raises as `request`, and `AlreadyDecided`, `Stale` (another version), `Expired`.
    """
    _require_person(actor, actors.COMPENSATION_REQUEST, "edit an undo request")
    with transaction.atomic(durable=True):
        held = hold(request_id)
        one = held.request
        refusal = _no_longer(held, version)
        if refusal is None:
            wanted = replace(held.wanted(), **changes)  # type: ignore[arg-type]
            _check(wanted)
            verdict = undoing.judge(held.original, wanted, transition.clock(), besides=one.pk)
            _refuse_unless_eligible(verdict)
            one.amount, one.currency, one.reason, one.note = wanted.amount, wanted.currency, wanted.reason, wanted.note.strip()
            one.version += 1
            one.editors = [*one.editors, *([actor.id] if actor.id not in (*one.editors, one.requested_by) else [])]
            _bind(held, verdict)
            endings.write(one, *_BOUND)
            endings.record(held.run, one, "edited", actor, {"reason": one.reason, "note": one.note, "rule_version": one.rule_version})
    if refusal is not None:
        raise refusal
    return one


_BOUND = (
    "amount",
    "currency",
    "reason",
    "note",
    "version",
    "editors",
    "excluded",
    "verdict",
    "rule_version",
    "approvals_needed",
    "original_position",
    "digest",
)


# Deciding


def decide(actor: Actor, request_id: uuid.UUID, decision: str, version: int, comment: str = "") -> Compensation:
    """A person approves or rejects the request as it was shown to them (`version`). The last approval that it needs makes it due.

    Raises `NotAllowed`, `SamePerson`, `AlreadyDecided`, `Stale`, `Expired`, `Invalid`. Being late or stale is kept before it is refused.
    """
    _require_person(actor, actors.COMPENSATION_APPROVE, "decide on an undo")
    if decision not in undo_states.DECISIONS:
        raise Invalid("decision must be approved or rejected.", field="decision")
    if decision == undo_states.REJECTED and not comment.strip():
        raise Invalid("Rejecting needs a reason.", field="comment")
    actor.require_recent("decide on an undo")
    with transaction.atomic(durable=True):
        held = hold(request_id)
        _require_somebody_else(actor, held)
        refusal = _no_longer(held, version)
        if refusal is None:
            _decide(actor, held, decision, comment.strip())
    if refusal is not None:
        raise refusal
    return held.request


def _require_somebody_else(actor: Actor, held: Held) -> None:
    if (why := held.excluded().get(actor.id)) and held.request.state == undo_states.REQUESTED:
        raise SamePerson(why, approvers=[one.name for one in approvers(held)])


def _no_longer(held: Held, version: int) -> Conflict | None:
    """Why an undecided request cannot be acted on any more, kept in the row where it has just turned out."""
    one = held.request
    if one.state != undo_states.REQUESTED:
        return AlreadyDecided(what_became(one), state=one.state)
    if refusal := _lapse(held, transition.clock()):
        return refusal
    if version != one.version:
        return Stale(f"You saw version {version} of {one.ref}; it is version {one.version} now. Look again.", version=one.version)
    return None


def what_became(one: Compensation) -> str:
    """Why a decision comes too late, in words."""
    match one.state:
        case undo_states.APPROVED | undo_states.EXECUTING | undo_states.EXECUTED:
            names = [told.by_name for told in one.decisions.filter(decision=undo_states.APPROVED, version=one.version).order_by("at")]
            return f"Already approved by {' and '.join(names)}. Your decision changed nothing."
        case undo_states.EXPIRED | undo_states.STALE:
            return one.ended_why
        case _:
            return f"Already {one.state} by {one.ended_name}: “{one.ended_why}” Your decision changed nothing."


def _decide(actor: Actor, held: Held, decision: str, comment: str) -> None:
    run, one = held.run, held.request
    if one.decisions.filter(by=actor.id, version=one.version).exists():
        raise AlreadyDecided(f"You have approved {one.ref} already. It needs {one.approvals_needed} different people.", state=one.state)
    CompensationDecision(
        compensation=one,
        decision=decision,
        version=one.version,
        digest=one.digest,
        by=actor.id,
        by_name=actor.name,
        channel=actor.channel,
        comment=comment,
        at=transition.clock(),
    ).save()
    if decision == undo_states.REJECTED:
        endings.end(run, one, undo_states.REJECTED, actor, comment)
        return
    given = len(valid_approvals(held))
    if given >= one.approvals_needed:
        one.state, one.approved_at = undo_states.APPROVED, transition.clock()
        endings.write(one, "state", "approved_at")
        hints.nudge("undo.due")
    endings.record(run, one, "approved", actor, {"given": given, "needed": one.approvals_needed, "comment": comment})


def valid_approvals(held: Held) -> list[CompensationDecision]:
    """The approvals of what is asked now, by people who are not excluded, one each."""
    return given_by(held.request, held.excluded())


def given_by(request: Compensation, excluded: Mapping[str, str]) -> list[CompensationDecision]:
    """The approvals of what `request` asks now, one each, but for those of the excluded (`ledger.undoing.excluded`)."""
    bound = undo_states.APPROVED, request.version, request.digest
    told = [one for one in request.decisions.all() if (one.decision, one.version, one.digest) == bound and one.by not in excluded]
    return list({one.by: one for one in sorted(told, key=lambda one: one.at)}.values())


def withdraw(actor: Actor, request_id: uuid.UUID, why: str) -> Compensation:
    """Take a request back while nothing of it has been sent: by anybody who may ask or approve, with a reason. Raises `AlreadyDecided`."""
    if not actor.is_person or not (actor.may(actors.COMPENSATION_REQUEST) or actor.may(actors.COMPENSATION_APPROVE)):
        raise NotAllowed(f"{actor.name} may not withdraw an undo request.", needs=actors.COMPENSATION_REQUEST)
    if not why.strip():
        raise Invalid("Withdrawing needs a reason.", field="reason")
    with transaction.atomic(durable=True):
        held = hold(request_id)
        one = held.request
        if one.state not in undo_states.UNDECIDED_OR_DUE:
            sent = one.state in (undo_states.EXECUTING, undo_states.EXECUTED)
            raise AlreadyDecided(
                f"{one.ref} is on its way to {one.provider}: it can't be called back." if sent else what_became(one), state=one.state
            )
        endings.end(held.run, one, undo_states.WITHDRAWN, actor, why.strip())
        return one


# What nobody may act on any more


def _lapse(held: Held, now: datetime) -> Expired | Stale | None:
    """End an open request whose time is over or whose ground has changed, in this transaction; at exactly `expires_at` it has expired."""
    one = held.request
    if one.expires_at <= now:
        why = NOBODY_DECIDED if one.state == undo_states.REQUESTED else NOT_CARRIED_OUT
        endings.end(held.run, one, undo_states.EXPIRED, SYSTEM, why)
        return Expired(why)
    if why := gone_stale(held, now):
        endings.end(held.run, one, undo_states.STALE, SYSTEM, why)
        return Stale(why)
    return None


def end_if_over(held: Held) -> bool:
    """End a locked open request that has expired or gone stale; returns whether it has ended."""
    return _lapse(held, transition.clock()) is not None


def gone_stale(held: Held, now: datetime) -> str:
    """Why what was asked is not what stands now ('' when it is): original, sums, rule and digest, all read afresh under the lock."""
    one, effect = held.request, held.original
    verdict = undoing.judge(effect, held.wanted(), now, besides=one.pk)
    if verdict.refusal is not None:
        return f"It changed since it was asked for. {verdict.refusal.says} Ask again if it is still wanted."
    if verdict.rule_version != one.rule_version:
        return f"The rule changed to version {verdict.rule_version} since it was asked for. Ask again under the new rule."
    if undoing.digest_of(one, effect, verdict.rule_version) != one.digest:
        return f"{effect.ref} or what was asked of it changed since it was asked for. Ask again if it is still wanted."
    return ""


def lapse_due(limit: int = 100) -> int:
    """End what has expired or gone stale; returns how many. Nothing rests on it: every verb checks for itself."""
    rows = Compensation.objects.filter(state__in=undo_states.UNDECIDED_OR_DUE).order_by("expires_at").values_list("pk", flat=True)
    return sweeps.each(rows[:limit], lapse)


def lapse(request_id: uuid.UUID) -> bool:
    """End one request if its time is over or its ground has changed; returns whether it has ended now."""
    with transaction.atomic(durable=True):
        held = hold(request_id)
        if held.request.state not in undo_states.UNDECIDED_OR_DUE:
            return False
        return end_if_over(held)
