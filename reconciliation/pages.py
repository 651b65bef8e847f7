"""What the page of one case shows, built from rows in few queries. It renders nothing, judges nothing and changes nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

from django.db.models import Q

from ledger import catalogue
from ledger import sentences as effect_sentences
from ledger.facts import records_of
from ledger.models import Effect
from ledger.naming import action_words, provider_name
from ledger.pages import facts_of, piece
from ledger.vocabulary import UNKNOWABLE
from reconciliation import files, history, states
from reconciliation.allowed import allowed_actions
from reconciliation.models import Case, CaseEvent
from reconciliation.queue import claim_of, shown
from runs import transition
from runs.actors import Actor
from runs.errors import NotFound, ProviderUnknown
from runs.ids import parse_ref, parse_uuid
from runs.wording import say

Context = dict[str, Any]


def read(text: str) -> Case:
    """The case named by reference or id, in any case, with or without dashes. Raises `NotFound`."""
    ref, pk = parse_ref(text, "Q"), parse_uuid(text)
    named = Q(ref=ref) if ref else Q(pk=pk)
    case = Case.objects.select_related("run", "effect__run").filter(named).first() if ref or pk else None
    if case is None:
        raise NotFound(f"No case called {text[:60]}. Check the reference.")
    return case


def page(case: Case, actor: Actor | None) -> Context:
    """The context of `reconciliation/cases/detail.html`, without the form."""
    now = transition.clock()
    context: Context = {
        "case": shown(case, now),
        "run": case.run,
        "claim": claim_of(case, actor, now),
        "allowed": allowed_actions(case, actor, now),
        "settled": history.of(case),
        "earlier": history.earlier_verdicts(case) if case.reopened and case.state != states.SETTLED else [],
        "files": files.of(case),
        "news": _news(case, now),
        "second": _second(case),
        "claim_url": f"/cases/{case.ref}/claim",
        "take_over_url": f"/cases/{case.ref}/take-over",
        "confirm_url": f"/cases/{case.ref}/confirm",
        "check_url": f"/cases/{case.ref}/check",
        "post_url": f"/cases/{case.ref}/finding",
    }
    return context | (_of_effect(case, case.effect, now) if case.effect is not None else _without_effect(case))


def _of_effect(case: Case, effect: Effect, now: datetime) -> Context:
    records = records_of([effect])[effect.pk]
    facts = facts_of(effect, now, records)
    alive = sorted({attempt.holder for attempt in records.attempts if attempt.stopped_at is None and attempt.holder})
    return {
        "effect": {"ref": effect.ref, "state": effect.state, "relative": facts.relative, "id": str(effect.pk)}
        | {"undo": UNKNOWABLE if effect.unknowable else facts.undo},
        "says": effect_sentences.sentence(facts),
        "more": say(case.why),
        "looks": [piece(one, facts.provider_name) for one in records.evidence],
        "next_look_at": effect.next_look_at,
        "unknowns": _unknowns(effect, facts.provider_name, alive),
        "ask_sender_gone": bool(alive),
        "request_sent": effect.request,
        "siblings": _siblings(effect),
        "lookup_links": _lookup_links(effect),
    }


def _without_effect(case: Case) -> Context:
    listed = [f"{item['key']}: {item['why']}" for item in case.facts.get("items", [])]
    return {"effect": None, "says": say(case.why), "more": [], "looks": [], "unknowns": listed, "siblings": [], "lookup_links": []}


def _unknowns(effect: Effect, provider: str, alive: list[str]) -> list[str]:
    if effect.unknowable or effect.state in ("landed", "refused", "absent", "withheld", "reversed"):
        return []
    unknown = ["Whether it happened."] if effect.state in ("pending", "unknown", "ambiguous") else ["Which of the answers is right."]
    if effect.state == "duplicated":
        unknown = ["Which of them are too many."]
    if alive:
        unknown.append(
            f"Whether worker {', '.join(alive)} is still alive: it was never confirmed stopped, so an empty look proves nothing."
        )
    return unknown


def _siblings(effect: Effect) -> list[Context]:
    """Other effects under the same business reference at the same provider."""
    same = Effect.objects.filter(business_ref=effect.business_ref, provider=effect.provider).exclude(pk=effect.pk).select_related("run")
    return [
        {
            "ref": other.ref,
            "what": f"{action_words(other.action)} of {other.run.ref}",
            "run_ref": other.run.ref,
            "state": other.state,
            "relative": None,
            "provider_name": provider_name(other.provider),
        }
        for other in same.order_by("-created_at")[:10]
    ]


def _lookup_links(effect: Effect) -> list[Context]:
    """Where a person can look it up: the provider's `lookup_url`, with `{reference}` and `{external_id}` filled in."""
    try:
        template = catalogue.capability(effect.provider).lookup_url
    except ProviderUnknown:  # not configured any more
        return []
    if not template.startswith(("https://", "http://")) or ("{external_id}" in template and not effect.external_id):
        return []
    filled = {"{reference}": effect.provider_reference, "{external_id}": effect.external_id}
    for name, value in filled.items():
        template = template.replace(name, quote(value, safe=""))
    return [{"url": template, "label": f"Look up {effect.provider_reference} at {provider_name(effect.provider)}"}]


def _second(case: Case) -> Context | None:
    """The finding that waits for a second person."""
    if case.state != states.AWAITING_SECOND or not case.finding:
        return None
    found = case.finding
    return {
        "by": found.get("by_name", "Somebody"),
        "says": history.VERDICT_WORDS.get(str(found.get("verdict", "")), "").lower(),
        "unknowable": found.get("verdict") == states.CANNOT_BE_KNOWN,
        "why": found.get("why_second", ""),
        "evidence": history.evidence_words(found),
    }


def _news(case: Case, now: datetime) -> str:
    """An automatic answer that came after the case was claimed."""
    if case.effect is None or case.state != states.CLAIMED:
        return ""
    claimed = CaseEvent.objects.filter(case=case, kind__in=["claimed", "taken_over"]).order_by("-at").first()
    if claimed is None:
        return ""
    told = case.effect.evidence.filter(at__gt=claimed.at, verdict__in=["landed", "refused", "absent", "reversed", "duplicated"])
    latest = told.exclude(source="person").order_by("-at").first()
    if latest is None:
        return ""
    line = piece(latest, provider_name(case.effect.provider))
    return f"{line['source']} has just answered: {line['says']}."
