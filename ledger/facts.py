"""From rows to what a sentence about an effect needs to know: the one gathering behind page and API. It reads, and changes nothing."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ledger import catalogue, prospects, rulebook, states, undo_states
from ledger.lines import relative_to_cancel
from ledger.models import Attempt, Compensation, Effect, Evidence, Reversal
from ledger.money import UnknownCurrency, money_text
from ledger.naming import action_words, provider_name
from ledger.prospects import Prospect
from ledger.rules import Terms
from ledger.sentences import EffectFacts
from runs.errors import ProviderUnknown
from runs.shapes import first_cancels
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


@dataclass
class Records:
    """What is on record beside the effect itself, each in order, and the terms under which such an effect may be undone."""

    attempts: list[Attempt] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    undos: list[Compensation] = field(default_factory=list)
    reversals: list[Reversal] = field(default_factory=list)
    terms: Terms | None = None
    terminated: bool = False

    def prospect(self, effect: Effect, now: datetime) -> Prospect:
        """Whether an undo of the effect can be asked for."""
        return prospects.prospect(effect, self.terms, self.undos, self.reversals, self.evidence, now)


def records_of(effects: Iterable[Effect]) -> dict[uuid.UUID, Records]:
    """What is on record of several effects, in at most six queries."""
    effects = list(effects)
    ids = [effect.pk for effect in effects]
    found: dict[uuid.UUID, Records] = defaultdict(Records)
    _add_undos([effect for effect in effects if effect.state in states.LANDED_LIKE | {states.SENDING, states.REVERSED}], found)
    for attempt in Attempt.objects.filter(effect__in=ids).order_by("number"):
        found[attempt.effect_id].attempts.append(attempt)
    for evidence in Evidence.objects.filter(effect__in=ids).order_by("at", "id"):
        found[evidence.effect_id].evidence.append(evidence)
    _add_terminations(effects, found)
    return found


def _add_terminations(effects: list[Effect], found: dict[uuid.UUID, Records]) -> None:
    """A run that was cancelled and then terminated was stopped by the cancel."""
    first = first_cancels(list({effect.run_id for effect in effects}), run__cancel_mode="terminate")
    for effect in effects:
        found[effect.pk].terminated = effect.run_id in first and first[effect.run_id].mode == "terminate"


def _add_undos(effects: list[Effect], found: dict[uuid.UUID, Records]) -> None:
    if not effects:
        return
    ids, rules = [effect.pk for effect in effects], rulebook.by_key(rulebook.all_current())
    for effect in effects:
        # What is still in flight will land, if it lands, in the currency that was asked for.
        found[effect.pk].terms = rules.get((effect.provider, effect.action, effect.landed_currency or effect.currency))
    for undo in Compensation.objects.filter(original__in=ids).select_related("effect").order_by("requested_at", "id"):
        found[undo.original_id].undos.append(undo)
    for reversal in Reversal.objects.filter(effect__in=ids).order_by("seen_at", "id"):
        found[reversal.effect_id].reversals.append(reversal)


def effect_facts(effect: Effect, now: datetime, records: Records | None = None) -> EffectFacts:
    """The facts of one effect (with its run loaded) at `now`, the database's time. Without `records` it reads them."""
    records = records or records_of([effect])[effect.pk]
    schedule = _schedule(effect.provider)
    return EffectFacts(
        state=effect.state,
        action_words=action_words(effect.action),
        provider_name=provider_name(effect.provider),
        reference=effect.provider_reference,
        amount_text=_amount(effect.amount, effect.currency),
        sent_at=latest_send(effect, records.attempts),
        answered_at=effect.known_at,
        answer_wait_s=(effect.answer_by - now).total_seconds() if effect.answer_by else None,
        cancel_at=effect.run.asked_at,
        cancel_seq=effect.run.cancel_position,
        terminated=records.terminated,
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
        left_in_place_by=effect.left_in_place_by,
        why_withheld=_why_withheld(effect, records.attempts),  # type: ignore[arg-type]
        conflict=_conflict(effect, records) if effect.state == states.CONFLICTED else (),
        found_refs=_found(records.evidence) if effect.state == states.DUPLICATED else (),
        surplus_refs=_surplus(records.evidence) if effect.state == states.DUPLICATED else (),
        **_undo(effect, now, records),
    )


def _undo(effect: Effect, now: datetime, records: Records) -> dict[str, Any]:
    """What can be asked of the effect, or what became of what was asked."""
    if effect.role == states.COMPENSATION or effect.state not in states.LANDED_LIKE | {states.SENDING}:
        return {}
    record = prospects.capability(effect.provider)
    if effect.state == states.SENDING:
        possible = record is not None and effect.action in record.compensable and records.terms is not None and records.terms.active
        return {"can_ask_undo": possible}
    hope = records.prospect(effect, now)
    told: dict[str, Any] = {"can_ask_undo": hope.possible, "why_no_undo": "" if hope.used_up else hope.why_not}
    acting = [undo.effect for undo in records.undos if undo.effect is not None]
    undone = prospects.undone_amount(effect, acting, records.reversals)
    sent = [undo for undo in records.undos if undo.effect is not None]
    if prospects.is_undone(effect, acting, records.reversals):
        return told | _undone(sent, records.reversals, record.undo_visible_days if record else None) | {"why_no_undo": ""}
    if undone:
        told["undone_amount_text"] = _amount(undone, effect.landed_currency)
    if hope.open is not None:
        asked = {"undo": "undo_waiting", "undo_reference": hope.open.ref}
        return told | asked | {"undo_amount_text": _amount(hope.open.amount, hope.open.currency), "why_no_undo": ""}
    if sent and sent[-1].effect is not None and sent[-1].effect.state in undo_states.FAILED and not any(map(_under_way, records.undos)):
        return told | _undo_failed(sent[-1].effect)
    return told


def latest_send(effect: Effect, attempts: Sequence[Attempt]) -> datetime | None:
    """When its bytes may last have left: the attempt that the present outcome is about, not a first one that was proved absent."""
    sent = [attempt.sent_at for attempt in attempts if attempt.state != states.NOT_SENT]
    return sent[-1] if sent else None if attempts else effect.sent_at


def _under_way(undo: Compensation) -> bool:
    if undo.effect is None:
        return undo.state == undo_states.APPROVED
    return undo.effect.state in states.OPEN | {states.CONFLICTED}


def _undone(sent: list[Compensation], reversals: list[Reversal], visible_days: int | None) -> dict[str, Any]:
    done = [undo for undo in sent if undo.effect is not None and undo.effect.state == states.LANDED]
    if done and done[-1].effect is not None:
        last = done[-1].effect
        told = {"undo_reference": last.external_id or done[-1].ref, "undo_at": last.known_at}
    else:
        told = {"undo_reference": reversals[-1].external_id, "undo_at": reversals[-1].seen_at}
    return told | {"undo": "undone", "undo_visible_days": visible_days}


def _undo_failed(undo: Effect) -> dict[str, Any]:
    message = undo.provider_message if undo.state == states.REFUSED else ""
    return {"undo": "undo_failed", "undo_message": message, "undo_why": undo_failed_why(undo)}


def undo_failed_why(undo: Effect) -> str:
    """Why an undo is not in effect, where its provider did not say."""
    told = {states.REVERSED: "it had worked, and was taken back later", states.ABSENT: "it is proved not to have happened"}
    return told.get(undo.state, "it was refused")


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


def _why_withheld(effect: Effect, attempts: Sequence[Attempt]) -> str:
    if effect.withheld_why and effect.withheld_why not in _WITHHELD_BY_STOP:
        return "closed"
    return "not_sent" if not effect.withheld_why or any(attempt.state == states.NOT_SENT for attempt in attempts) else "cancel"


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
    confirmed = f"confirmed by {last.detail['confirmed_by']}" if last.detail.get("confirmed_by") else ""
    reference = f"reference {last.external_id}" if last.external_id else ""
    return ", ".join(filter(None, [reference, seen if seen != "seen" else "", confirmed]))


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


def _surplus(evidence: list[Evidence]) -> tuple[str, ...]:
    """What a person last named as too many."""
    named = [one.detail["external_ids"] for one in evidence if one.source == "person" and one.verdict == prospects.SURPLUS]
    return tuple(named[-1]) if named else ()
