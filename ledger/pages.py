"""What the pages show of a run's effects and account, built from rows in few queries. It renders nothing and changes nothing.

Cases belong to the layer above: whoever composes a page passes what it knows of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, When

from ledger import accounts, states, undo_pages
from ledger.allowed import allowed_actions
from ledger.facts import Records, effect_facts, records_of
from ledger.models import Account, Effect, Evidence
from ledger.money import UnknownCurrency, money_text
from ledger.naming import action_words, provider_name
from ledger.sentences import EffectFacts, detail, sentence
from ledger.undo_allowed import allowed_on_effect
from ledger.vocabulary import UNKNOWABLE
from runs import transition
from runs.actors import Actor
from runs.models import Run
from runs.pages import Standing
from runs.wording import count

Context = dict[str, Any]

EFFECTS_MAX = 500


# What the run's own app must be told of its effects


def standing(run: Run) -> Standing:
    """How the run's work effects stand, in two queries."""
    effects = Effect.objects.filter(run=run, role=states.WORK).exclude(state__in=[states.LANDED, states.REFUSED, states.ABSENT])
    found = list(effects.order_by("created_at", "operation_id").only("ref", "state", "action", "amount", "currency"))
    sending = [effect for effect in found if effect.state == states.SENDING]
    doubt = [effect for effect in found if effect.state in states.DOUBT]
    landed = Effect.objects.filter(run=run, role=states.WORK, state__in=states.LANDED_LIKE)
    removed = Effect.objects.filter(acts_on=OuterRef("pk"), role=states.CLEANUP, state=states.LANDED)
    return Standing(
        in_effect=landed.exclude(Exists(removed)).count() - _undone(landed) if run.landed else 0,
        unsettled=tuple(effect.ref for effect in found if effect.state in states.DOUBT | {states.SENDING}),
        unknown=len(doubt),
        never_sent=sum(effect.state == states.WITHHELD for effect in found),
        in_flight_words=tuple(f"the {name_of(effect.action, effect.amount, effect.currency)}" for effect in sending),
    )


def _undone(landed: QuerySet[Effect]) -> int:
    """How many of them are undone. Few ever are: only those that something acts on are read."""
    acted_on = landed.filter(Q(compensations__effect__state=states.LANDED) | Q(reversals__failed_at__isnull=True, reversals__isnull=False))
    found = Effect.objects.filter(pk__in=acted_on.values("pk")).prefetch_related(*accounts.ACTING)
    return sum(accounts.bucket(effect) == "undone" for effect in found)


def names(refs: Iterable[str]) -> dict[str, str]:
    """What each of these effects is called: its words, amount and business reference."""
    found = Effect.objects.filter(ref__in=list(refs)).values_list("ref", "action", "amount", "currency", "business_ref")
    return {ref: f"{name_of(action, amount, currency)} {business_ref}" for ref, action, amount, currency, business_ref in found}


def names_of(shown: Iterable[Context]) -> dict[str, str]:
    """The same from the effects of a page that were already read."""
    told = ((item["effect"], amount_text(item["effect"]["amount"], item["effect"]["currency"])) for item in shown)
    return {one["ref"]: " ".join(filter(None, [one["what"], amount, one["business_ref"]])) for one, amount in told}


def undo_names(run: Run) -> dict[str, str]:
    """What each undo that was carried out for the run is called."""
    return names(
        Effect.objects.filter(run=run, role=states.COMPENSATION).order_by("-created_at").values_list("ref", flat=True)[:EFFECTS_MAX]
    )


def name_of(action: str, amount: int | None, currency: str | None) -> str:
    """`order $238.80 USD`."""
    return " ".join(filter(None, [action_words(action), amount_text(amount, currency)]))


def amount_text(amount: int | None, currency: str | None) -> str:
    """The amount with symbol and code, or ''. An unknown code is shown as it is."""
    if amount is None or not currency:
        return ""
    try:
        return money_text(amount, currency)
    except UnknownCurrency:
        return f"{amount} minor units of {currency}"


def line(entry: Mapping[str, Any]) -> Context:
    """An effect's line of a preview or receipt, as a dialog or receipt shows it."""
    sent_at = entry.get("sent_at")
    return {
        "what": f"{action_words(entry['action'])} {entry['business_ref']}",
        "amount": entry["amount"],
        "currency": entry["currency"],
        "ref": entry["ref"],
        "sent_at": datetime.fromisoformat(sent_at) if sent_at else None,
        "note": _line_note(entry),
    }


def _line_note(entry: Mapping[str, Any]) -> str:
    """An attempt whose sender may still act although its effect is known is listed, and says so."""
    if "attempt" in entry and entry["state"] != states.SENDING:
        return f"already {entry['state']}; its sender is not known to have stopped"
    return ""


# The effects of a run


def effects(run: Run, actor: Actor | None = None) -> list[Context]:
    """The effects of `runs/detail.html#effects`, oldest first, in a few queries; `case_url` and `case_ref` are left empty.

    Of more than `EFFECTS_MAX` those that are not settled are chosen first, because somebody may have to act on them.
    """
    settled = Case(When(state__in=states.OPEN | states.DOUBT, then=0), default=1)
    chosen = _listed(run).order_by(settled, "created_at", "operation_id").prefetch_related(*accounts.ACTING)[:EFFECTS_MAX]
    found = sorted(chosen, key=lambda effect: (effect.created_at, effect.operation_id))
    records, now = records_of(found), transition.clock()
    shown = []
    for effect in found:
        effect.run = run
        facts = facts_of(effect, now, records[effect.pk])
        shown.append(_effect(effect, facts, records[effect.pk], now, actor))
    return shown


def total(run: Run, shown: list[Context]) -> int:
    """How many effects the run has of those that `effects` lists, which may be more than it listed."""
    return len(shown) if len(shown) < EFFECTS_MAX else _listed(run).count()


def counted(run: Run, shown: list[Context]) -> Context:
    """How many there are, in words, and where the rest of them are when not all are listed."""
    of = total(run, shown)
    if of == len(shown):
        return {"says": count(of, "action"), "all_url": ""}
    says = f"{len(shown):,} of {count(of, 'action')}: those that are not settled, and the oldest"
    return {"says": says, "all_url": f"/api/v1/runs/{run.ref}/effects"}


def _listed(run: Run) -> QuerySet[Effect]:
    return Effect.objects.filter(run=run).exclude(role=states.COMPENSATION)


def effect_actions(effects: Iterable[Effect], actor: Actor) -> dict[str, Context]:
    """What the partial `effect_actions` shows for each of these effects, by id."""
    found, now = list(effects), transition.clock()
    records = records_of(found)
    return {
        str(effect.pk): {
            "effect": {"id": str(effect.pk), "ref": effect.ref},
            "allowed": _allowed(effect, records[effect.pk], now, actor),
        }
        for effect in found
    }


def facts_of(effect: Effect, now: datetime, records: Records) -> EffectFacts:
    """The facts of one effect, with what acts on it (prefetched as `acting`)."""
    facts = replace(effect_facts(effect, now, records), answer_by=effect.answer_by)
    cleaned = [
        other for other in getattr(effect, "acting", []) if (other.role, other.state) == (states.CLEANUP, states.LANDED)
    ]  # fmt: skip
    if cleaned and effect.state == states.LANDED:
        return replace(facts, undo="cleaned_up", undo_at=cleaned[0].known_at, undo_reference=cleaned[0].ref)
    return facts


def _effect(effect: Effect, facts: EffectFacts, records: Records, now: datetime, actor: Actor | None) -> Context:
    shown = {
        "id": str(effect.pk),
        "ref": effect.ref,
        "what": facts.action_words + (" (clean-up)" if effect.role == states.CLEANUP else ""),
        "name": " ".join(filter(None, [facts.action_words, facts.amount_text, effect.provider_reference])),
        "provider_name": facts.provider_name,
        "amount": effect.amount,
        "currency": effect.currency,
        "business_ref": effect.provider_reference,
        "external_id": effect.external_id,
        "sent_at": facts.sent_at,
        "state": effect.state,
        "relative": facts.relative,
        "undo": UNKNOWABLE if effect.unknowable else facts.undo,
        "attempts": len(records.attempts),
        "role": effect.role,
        "step_key": effect.step_key,
        "release": effect.release,
        "bucket": accounts.bucket(effect),
        "evidence": [piece(one, facts.provider_name) for one in records.evidence],
        "case_url": "",
        "case_ref": "",
        "undos": undo_pages.lines(records.undos, now),
        "removed_by": facts.undo_reference if facts.undo == "cleaned_up" else "",
    } | _due(effect)
    return {"effect": shown, "says": sentence(facts), "more": detail(facts), "allowed": _allowed(effect, records, now, actor)}


def _due(effect: Effect) -> Context:
    """What happens next by itself, and when; `due` is None when nothing does."""
    if effect.state == states.SENDING:
        return {"due": effect.answer_by, "due_words": "we stop waiting for its answer"}
    if effect.state in states.LOOKED_AT and not effect.unknowable:
        return {"due": effect.next_look_at, "due_words": "next check"}
    return {"due": None, "due_words": ""}


def _allowed(effect: Effect, records: Records, now: datetime, actor: Actor | None) -> frozenset[str]:
    """What this person may do about the effect; nothing without an actor (a push)."""
    if actor is None or effect.role != states.WORK:
        return frozenset()
    again = allowed_actions(effect.state, effect.role, effect.release, actor, effect.unknowable)
    return again | allowed_on_effect(records.prospect(effect, now), actor)


_SOURCE_WORDS = {
    "sender": "The sender's answer",
    "look": "A look at {provider}",
    "webhook": "A webhook of {provider}",
    "supervisor": "The worker's supervisor",
    "person": "{person}",
    "system": "Countermand",
}
_VERDICT_WORDS = {
    "landed": "it happened",
    "refused": "it was refused",
    "absent": "it did not happen",
    "pending": "accepted, not final",
    "not_sent": "nothing was sent",
    "unknown": "no clear answer",
    "reversed": "it was undone",
    "duplicated": "it happened more than once",
    "empty": "nothing found",
    "unreachable": "no answer, so no information",
    "sender_stopped": "the sender has stopped",
    "surplus": "named as too many",
}
_USED_WORDS = {
    "agrees": "agrees with what was known",
    "late_evidence": "kept as late evidence",
    "conflicts": "contradicts what was known",
    "kept": "kept, did not settle it",
}


def piece(evidence: Evidence, provider: str) -> Context:
    """One observation, as a line: when, from where, what it said, how it was used."""
    source = _SOURCE_WORDS.get(evidence.source, evidence.source).format(provider=provider, person=evidence.actor_name)
    amount = amount_text(evidence.amount, evidence.currency)
    status = f"HTTP {evidence.http_status}" if evidence.http_status else ""
    said = [_VERDICT_WORDS.get(evidence.verdict, evidence.verdict), evidence.external_id, amount, status]
    used = _USED_WORDS.get(evidence.used_as, "")
    return {
        "at": evidence.at,
        "source": source,
        "says": ", ".join(filter(None, said)) + (f" — {used}" if used else ""),
        "raw": evidence.body,
    }


# The account


def account(run: Run, shown: list[Context] | None = None) -> Context | None:
    """The context of `runs/detail.html#account`: the last one issued, or a draft once the run is stopping; None before.

    `shown` are the effects of the page, for what each number links to.
    """
    if not run.is_closed and run.cancel_position is None and run.state != "failing":
        return None
    issued = Account.objects.filter(run=run).order_by("-version").first() if run.is_closed else None
    body = issued.body if issued is not None else accounts.draft(run)
    buckets = _buckets(run, body, shown or [])
    summed = sum(bucket["count"] for bucket in buckets)
    return {
        "version": body["version"],
        "issued_at": datetime.fromisoformat(body["issued_at"]),
        "final": body["final"],
        "issued": body["version"] > 0,
        "total": run.effects_total,
        "buckets": buckets,
        "adds_up": summed == run.effects_total,
        "sum_error": f"the actions listed are {summed}, but {run.effects_total} were recorded.",
        "relied_on": len(body.get("relied_on", [])),
        "json_url": f"/runs/{run.ref}/account.json",
        "csv_url": f"/runs/{run.ref}/account.csv",
    }


_BUCKET_NAMES = {
    "stopped": "stopped",
    "landed": "landed",
    "undone": "undone",
    "cleaned_up": "cleaned up",
    "did_not_happen": "did not happen",
    "unknown": "unknown",
    "not_sent_yet": "not sent yet",
    "in_flight": "in flight",
}


_DRAFT_ONLY = ("not_sent_yet", "in_flight")


def _buckets(run: Run, body: Context, shown: list[Context]) -> list[Context]:
    first = {item["effect"]["bucket"]: item["effect"]["id"] for item in reversed(shown) if item["effect"]["role"] == states.WORK}
    buckets: list[Context] = []
    for key, name in _BUCKET_NAMES.items():
        entries = body.get(key)
        if entries is None or (not entries and key in _DRAFT_ONLY):
            continue
        plus = any(bucket["count"] for bucket in buckets)
        buckets.append(
            {
                "key": key,
                "name": name,
                "count": len(entries),
                "note": _bucket_note(run, key, entries),
                "url": f"#effect-{first[key]}" if key in first else "#run-effects",
                "person": key == "unknown" and bool(entries) and run.needs_person + run.unknowable > 0,
                "plus": plus,
            }
        )
    return buckets


def _bucket_note(run: Run, key: str, entries: list[Context]) -> str:
    if not entries:
        return ""
    if key == "landed":
        late = sum(entry["confirmed_relative_to_cancel"] == "after" for entry in entries)
        return f"in effect ({late} confirmed after the cancel)" if late else "in effect"
    if key == "unknown":
        if run.needs_person:
            return "needs a person"
        return "can't be known" if all(entry["unknowable"] for entry in entries) else "being checked"
    return {
        "stopped": "never sent",
        "undone": "landed, then undone",
        "cleaned_up": "landed, then removed",
        "did_not_happen": "refused, or proved absent",
        "not_sent_yet": "planned",
        "in_flight": "no answer yet",
    }[key]


# An action that an approval would allow


def action_shown(action: Mapping[str, Any]) -> Context:
    """The action of an approval in words: what, where, how much."""
    provider, amount, currency = action.get("provider", ""), action.get("amount"), action.get("currency") or ""
    return {
        "what": f"{action_words(action.get('action', 'action'))} {action.get('business_ref', '')}".strip(),
        "provider_name": provider_name(provider),
        "business_ref": action.get("business_ref", ""),
        "occurrence": action.get("occurrence", 1),
        "amount": amount,
        "currency": currency,
        "amount_text": amount_text(amount, currency),
    }


def result_words(result: Any) -> str:
    """A run's result in a few words: `amount: $241.80 USD, supplier order: SO-1`. An amount beside a currency is minor units."""
    if not isinstance(result, dict):
        return "" if result is None else str(result)[:300]
    told = dict(result)
    amount, currency = told.get("amount"), told.get("currency")
    if isinstance(amount, int) and isinstance(currency, str) and currency:
        told["amount"] = amount_text(amount, told.pop("currency"))
    return ", ".join(f"{str(key).replace('_', ' ')}: {value}" for key, value in list(told.items())[:6] if value is not None)[:300]
