"""From rows to what a sentence about an effect needs to know: the one gathering behind page and API. It reads, and changes nothing."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.conf import settings

from ledger import catalogue, states
from ledger.lines import relative_to_cancel
from ledger.models import Attempt, Effect, Evidence
from ledger.money import UnknownCurrency, money_text
from ledger.sentences import EffectFacts
from runs.errors import ProviderUnknown
from runs.wording import moment_text

_WITHHELD_BY_STOP = frozenset({"cancel", "terminate", "cancelled", "terminated"})
_SAYS = {
    "landed": "it happened",
    "duplicated": "it happened more than once",
    "pending": "it was accepted",
    "refused": "it was refused",
    "absent": "it did not happen",
    "not_sent": "it was never sent",
    "reversed": "it was undone",
}
_VERBS = ("create_", "place_", "make_", "send_", "post_", "issue_")


@dataclass
class Records:
    """What is on record beside the effect itself: its attempts in order, its evidence in order."""

    attempts: list[Attempt] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)


def records_of(effects: Iterable[Effect]) -> dict[uuid.UUID, Records]:
    """Attempts and evidence of several effects, in two queries."""
    ids = [effect.pk for effect in effects]
    found: dict[uuid.UUID, Records] = defaultdict(Records)
    for attempt in Attempt.objects.filter(effect__in=ids).order_by("number"):
        found[attempt.effect_id].attempts.append(attempt)
    for evidence in Evidence.objects.filter(effect__in=ids).order_by("at", "id"):
        found[evidence.effect_id].evidence.append(evidence)
    return found


def effect_facts(effect: Effect, now: datetime, records: Records | None = None) -> EffectFacts:
    """The facts of one effect (with its run loaded) at `now`, the database's time. Without `records` it reads them: two queries."""
    records = records or records_of([effect])[effect.pk]
    schedule = _schedule(effect.provider)
    return EffectFacts(
        state=effect.state,
        action_words=action_words(effect.action),
        provider_name=provider_name(effect.provider),
        reference=effect.provider_reference,
        amount_text=_amount(effect.amount, effect.currency),
        sent_at=effect.sent_at,
        answered_at=effect.known_at,
        answer_wait_s=(effect.answer_by - now).total_seconds() if effect.answer_by else None,
        cancel_at=effect.run.asked_at,
        cancel_seq=effect.run.cancel_position,
        outcome_seq=effect.known_position,
        relative=relative_to_cancel(effect),  # type: ignore[arg-type]
        how_we_know=effect.how_we_know or None,  # type: ignore[arg-type]
        known_by=effect.known_by,
        evidence_text=_finding(records.evidence) if effect.how_we_know == "person" else "",
        provider_message=effect.provider_message,
        provider_time=effect.provider_time,
        landed_amount_text=_amount(effect.landed_amount, effect.landed_currency or effect.currency),
        final_by=effect.final_by,
        looks_done=effect.looks,
        looks_planned=len(schedule),
        next_look_at=effect.next_look_at,
        waiting_s=(now - effect.unknown_since).total_seconds() if effect.unknown_since else None,
        never_stopped_worker=_alive(effect, records.attempts),
        unknowable=effect.unknowable,
        why_withheld=_why_withheld(effect),  # type: ignore[arg-type]
        conflict=_conflict(effect, records) if effect.state == states.CONFLICTED else (),
        found_refs=_found(records.evidence) if effect.state == states.DUPLICATED else (),
    )


def provider_name(name: str) -> str:
    """What people call the provider: the `name` of its settings, else the name that plans use."""
    return str(settings.PROVIDERS.get(name, {}).get("name") or name.replace("_", " ").title())


def action_words(action: str) -> str:
    """An action as a thing that people talk of: `create_order` is an order."""
    for verb in _VERBS:
        action = action.removeprefix(verb)
    return action.replace("_", " ")


def _amount(minor: int | None, currency: str) -> str:
    if minor is None or not currency:
        return ""
    try:
        return money_text(minor, currency)
    except UnknownCurrency:
        return f"{minor} {currency}"


def _schedule(provider: str) -> Sequence[float]:
    """The looks before a person is asked; none for a provider that is not configured any more."""
    try:
        record = catalogue.capability(provider)
    except ProviderUnknown:
        return ()
    return () if record.lookup == "none" else [at for at in record.look_schedule_s if at <= record.person_after_s]


def _why_withheld(effect: Effect) -> str:
    if not effect.withheld_why:
        return "not_sent"
    return "cancel" if effect.withheld_why in _WITHHELD_BY_STOP else "closed"


def _alive(effect: Effect, attempts: list[Attempt]) -> str:
    if effect.state not in states.OPEN:
        return ""
    return ", ".join(sorted({attempt.holder for attempt in attempts if attempt.stopped_at is None and attempt.holder}))


def _finding(evidence: list[Evidence]) -> str:
    """What a person's finding rests on: the provider's reference, where it was seen and when by their clock."""
    found = [one for one in evidence if one.source == "person" and one.verdict in _SAYS]
    if not found:
        return ""
    last = found[-1]
    where = str(last.detail.get("seen_where") or "").replace("_", " ")
    seen = " ".join(filter(None, ["seen", f"in {where}" if where else "", _seen_at(last)]))
    return ", ".join(filter(None, [f"reference {last.external_id}" if last.external_id else "", seen if seen != "seen" else ""]))


def _seen_at(evidence: Evidence) -> str:
    return f"at {moment_text(evidence.provider_time, with_day=True)}" if evidence.provider_time else ""


def _conflict(effect: Effect, records: Records) -> tuple[tuple[str, str], ...]:
    """Who says what: the last word of each source, or all the words of a single one that contradicts itself.

    Our own record stands against a single word.
    """
    name = provider_name(effect.provider)
    who = {"sender": "the sender", "look": f"a look at {name}", "webhook": f"a webhook of {name}", "supervisor": "the supervisor"}
    told = [(who.get(one.source, one.actor_name), _said(effect, one)) for one in records.evidence if one.verdict in _SAYS]
    last = dict(told)
    if len(last) > 1:
        return tuple(last.items())
    words = list(dict.fromkeys(told))
    if len(words) > 1:
        return (words[0], *((f"{source}, later,", said) for source, said in words[1:]))
    asked_for = " ".join(filter(None, [_amount(effect.amount, effect.currency), "was asked for"]))
    return (("our record", asked_for if records.attempts else "it was never sent"), *words)


def _said(effect: Effect, evidence: Evidence) -> str:
    other = evidence.amount is not None and (evidence.amount, evidence.currency or effect.currency) != (effect.amount, effect.currency)
    return _SAYS[evidence.verdict] + (f" for {_amount(evidence.amount, evidence.currency or effect.currency)}" if other else "")


def _found(evidence: list[Evidence]) -> tuple[str, ...]:
    found: dict[str, Any] = {}
    for one in evidence:
        found.update(dict.fromkeys(one.detail.get("external_ids", [])))
    return tuple(found)
