"""What the pages show of undo requests: what is asked, of what, by whom, who may decide, and what became of it. It decides nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Q, QuerySet

from ledger import compensations, facts, prospects, undo_states, undoing
from ledger.facts import Records
from ledger.models import Compensation, Effect
from ledger.money import UnknownCurrency, money_text
from ledger.naming import action_words, provider_name
from ledger.prospects import Prospect
from ledger.sentences import sentence
from ledger.undo_allowed import allowed_on_request
from runs import actors, people, transition
from runs.actors import Actor
from runs.errors import NotFound
from runs.ids import parse_ref, parse_uuid
from runs.wording import Parts, Ref, say

Context = dict[str, Any]
SHOWN_MAX = 50
DECIDED_FOR = timedelta(days=7)

_BECAME = {
    undo_states.REQUESTED: "Waits for a decision.",
    undo_states.APPROVED: "Approved. The undo is being sent.",
    undo_states.EXECUTING: "Approved. The undo is being sent.",
    undo_states.REJECTED: "Rejected by {who}: “{why}”",
    undo_states.WITHDRAWN: "Withdrawn by {who}: “{why}”",
    undo_states.EXPIRED: "{why}",
    undo_states.STALE: "{why}",
}


_TOLD = {
    undo_states.REJECTED: "Rejected by {who}",
    undo_states.WITHDRAWN: "Withdrawn by {who}",
    undo_states.EXPIRED: "Ran out before it was sent",
    undo_states.STALE: "Does not hold any more",
}


def amount_text(amount: int | None, currency: str) -> str:
    """The amount with symbol and code, or ''."""
    if amount is None or not currency:
        return ""
    try:
        return money_text(amount, currency)
    except UnknownCurrency:
        return f"{amount} minor units of {currency}"


def read(text: str) -> Compensation:
    """The request named by id or reference, in any case. Raises `NotFound`."""
    ref, pk = parse_ref(text, "C"), parse_uuid(text)
    rows = Compensation.objects.select_related("original", "run__root", "effect")
    found = rows.filter(Q(ref=ref) if ref else Q(pk=pk)).first() if ref or pk else None
    if found is None:
        raise NotFound(f"No undo request is called {text[:60]!r}. Use its id, or its reference such as C-7K2M9Q4TXA.")
    found.original.run = found.run
    return found


def by_id(ids: Iterable[uuid.UUID]) -> QuerySet[Compensation]:
    """These requests, ready to be shown."""
    rows = Compensation.objects.select_related("original", "run__root", "effect").prefetch_related("decisions")
    return rows.filter(pk__in=list(ids))


def find(tab: str, actor: Actor) -> QuerySet[Compensation]:
    """The requests of a tab; undecided ones by when they run out."""
    rows = Compensation.objects.select_related("original", "run__root", "effect").prefetch_related("decisions")
    if tab == "decided":
        return (
            rows.exclude(state=undo_states.REQUESTED).filter(requested_at__gte=transition.clock() - DECIDED_FOR).order_by("-requested_at")
        )
    if tab == "asked":
        return rows.filter(requested_by=actor.id).order_by("-requested_at")
    return rows.filter(state=undo_states.REQUESTED).exclude(requested_by=actor.id).order_by("expires_at", "id")


def open_count() -> int:
    """How many wait for a decision (counted to 100)."""
    return Compensation.objects.filter(state=undo_states.REQUESTED).order_by()[:100].count()


def shown(request: Compensation, actor: Actor | None = None) -> Context:
    """One request (with its original, run and effect loaded), for the dialogs."""
    return all_shown([request], actor)[0]


def all_shown(requests: Iterable[Compensation], actor: Actor | None = None) -> list[Context]:
    """Several requests, for the inbox: what stands beside them is read for all at once."""
    found = list(requests)
    for request in found:
        request.original.run = request.run
        if request.effect is not None:
            request.effect.run = request.run
    originals = [request.original for request in found]
    records = facts.records_of([*originals, *(request.effect for request in found if request.effect is not None)])
    witnesses = undoing.witnesses_of(originals)
    undecided = any(request.state == undo_states.REQUESTED for request in found)
    able = people.directory().who_may(actors.COMPENSATION_APPROVE) if undecided else []
    now = transition.clock()
    return [_shown(request, actor, records, witnesses[request.original_id], able, now) for request in found]


def _shown(
    request: Compensation,
    actor: Actor | None,
    records: Mapping[uuid.UUID, Records],
    witnesses: set[str],
    approvers: list[Actor],
    now: datetime,
) -> Context:
    original = request.original
    excluded = undoing.excluded(request.run, original, request.requested_by, request.editors, witnesses)
    able = [one.name for one in approvers if one.id not in excluded]
    given = compensations.given_by(request, excluded)
    told, told_at = _told(request, [one.by_name for one in given])
    allowed = allowed_on_request(request, actor, excluded)
    if actor is not None and any(told.by == actor.id for told in given):
        allowed -= {"approve", "reject"}
    amount = amount_text(request.amount, request.currency)
    return {
        "id": str(request.pk),
        "ref": request.ref,
        "state": request.state,
        "version": request.version,
        "amount": request.amount,
        "currency": request.currency,
        "amount_text": amount,
        "what": action_words(original.action),
        "undo_words": action_words(request.action),
        "provider_name": provider_name(request.provider),
        "target": request.target,
        "business_ref": original.provider_reference,
        "original": original,
        "original_amount": amount_text(original.landed_amount, original.landed_currency),
        "original_says": sentence(facts.effect_facts(original, now, records[original.pk])),
        "relative": facts.relative_to_cancel(original),
        "run": request.run,
        "requested_name": request.requested_name,
        "requested_at": request.requested_at,
        "reason": undo_states.REASONS.get(request.reason, request.reason),
        "note": request.note,
        "expires_at": request.expires_at,
        "verdict": request.verdict,
        "needed": request.approvals_needed,
        "given": [told.by_name for told in given],
        "needs": _needs(request, [told.by_name for told in given]),
        "why_not_you": _why_not_you(request, actor, excluded, able),
        "decisions": sorted(request.decisions.all(), key=lambda one: one.at),
        "became": became(request),
        "became_says": became_says(request, now, records[request.effect.pk] if request.effect is not None else None),
        "told": told,
        "told_at": told_at,
        "mine": actor is not None and actor.id == request.requested_by,
        "ended_at": request.ended_at,
        "effect": request.effect,
        "allowed": allowed,
        "verb_object": f"Approve {amount}" if amount else f"Approve undoing {action_words(original.action)}",
    }


def _told(request: Compensation, given: list[str]) -> tuple[str, datetime | None]:
    """Who decided, in few words, and when; nothing while it waits. What became of it afterwards is another matter (`became_says`)."""
    if request.state == undo_states.REQUESTED:
        return "", None
    if request.state in _TOLD:
        return _TOLD[request.state].format(who=request.ended_name), request.ended_at
    return f"Approved by {' and '.join(given)}" if given else "Approved", request.approved_at


def _needs(request: Compensation, given: list[str]) -> str:
    if request.approvals_needed < 2:
        return ""
    by = f"{len(given)} given by {' and '.join(given)}" if given else "none given yet"
    return f"Needs {request.approvals_needed} approvals — {by}"


def _why_not_you(request: Compensation, actor: Actor | None, excluded: dict[str, str], able: list[str]) -> str:
    if actor is None or request.state != undo_states.REQUESTED or actor.id not in excluded:
        return ""
    people = "1 person can" if len(able) == 1 else f"{len(able)} people can"
    return f"{excluded[actor.id]} {people}: {', '.join(able[:8])}." if able else f"{excluded[actor.id]} Nobody else can at present."


def became(request: Compensation) -> str:
    """What became of a request that was not sent, in words."""
    return _BECAME.get(request.state, "").format(who=request.ended_name, why=request.ended_why)


def became_says(request: Compensation, now: Any, records: Records | None = None) -> Parts:
    """What became of it: once it is on its way, in the words of its own effect. An approval is never shown as the undo itself."""
    effect = request.effect
    if effect is None:
        return say(became(request))
    effect.run = request.run
    if effect.state == "landed":
        told = say("Undone. ", f"{provider_name(effect.provider)} confirmed ", Ref(effect.external_id or request.ref))
        return say(told, say(" at ", effect.known_at) if effect.known_at else None, ".")
    if effect.state in undo_states.FAILED:
        message = effect.provider_message if effect.state == "refused" else ""
        said = f'{provider_name(effect.provider)} said "{message}"' if message else facts.undo_failed_why(effect)
        return say(f"The undo did not work: {said}. The original {action_words(request.original.action)} is still in effect.")
    return sentence(facts.effect_facts(effect, now, records))


def lines(undos: list[Compensation], now: Any) -> list[Context]:
    """The undo requests of one effect, as they stand under it."""
    return [
        {
            "ref": undo.ref,
            "url": f"/undo/{undo.ref}/",
            "amount": undo.amount,
            "currency": undo.currency,
            "state": undo.effect.state if undo.effect is not None else undo.state,
            "chip": chip_of(undo),
            "says": became_says(undo, now),
            "at": undo.requested_at,
        }
        for undo in undos
    ]


def chip_of(undo: Compensation) -> tuple[str, str | None]:
    """(state, undo) for `effect_chip`, or ('', None) when the words say it all (nothing of it was sent)."""
    if undo.effect is None:
        return ("landed", "undo_waiting") if undo.state == undo_states.REQUESTED else ("", None)
    if undo.effect.state == "landed":
        return "landed", "undone"
    if undo.effect.state in undo_states.FAILED:
        return "landed", "undo_failed"
    return undo.effect.state, None


# Asking


def form(effect: Effect) -> Context:
    """What the form of asking shows: the effect, how much can be given back, what the rules say."""
    records = facts.records_of([effect])[effect.pk]
    now = transition.clock()
    hope: Prospect = records.prospect(effect, now)
    currency = effect.landed_currency
    record = prospects.capability(effect.provider)
    return {
        "effect": effect,
        "run": effect.run,
        "what": action_words(effect.action),
        "provider_name": provider_name(effect.provider),
        "landed_text": amount_text(effect.landed_amount, currency),
        "says": sentence(facts.effect_facts(effect, now, records)),
        "prospect": hope,
        "why_not": hope.why_not or (f"{hope.open.ref} waits for a decision." if hope.open else ""),
        "open": hope.open,
        "target": hope.target,
        "left": hope.left,
        "left_text": amount_text(hope.left, currency),
        "currency": currency,
        "partly": bool(record and effect.action in record.partly_compensable),
        "surplus": sorted(undoing.surplus_of(effect)),
        "reasons": hope.verdict.reasons,
        "words": list(undo_states.REASONS.items()),
    }
