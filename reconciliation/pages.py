"""What the pages show of cases, built from rows in few queries. It renders nothing, judges nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.db.models import F, Q, QuerySet

from ledger import sentences as effect_sentences
from ledger.facts import records_of
from ledger.models import Effect
from ledger.naming import action_words, provider_name
from ledger.pages import amount_text, facts_of, piece
from ledger.providers.money import decimal_text
from ledger.vocabulary import UNKNOWABLE
from reconciliation import states
from reconciliation.allowed import allowed_actions
from reconciliation.models import Case, CaseEvent
from runs import transition
from runs.actors import Actor
from runs.errors import NotFound
from runs.ids import parse_ref, parse_uuid
from runs.models import Run
from runs.wording import moment_text, say

Context = dict[str, Any]
TARGET_S = 4 * 3600.0  # how soon a case should be settled
SHOWN_MAX = 200
TABS = (("unclaimed", "Unclaimed"), ("mine", "Mine"), ("all", "All"), ("settled", "Settled today"))

KIND_WORDS = {
    states.NO_LOOKUP: "This provider can't be asked",
    states.NOT_FOUND_SENDER_ALIVE: "Not found, but its sender may be alive",
    states.CEILING: "Asking did not settle it",
    states.CONFLICTING: "Answers disagree",
    states.DUPLICATED: "Happened more than once",
    states.LEFT_BEHIND: "Clean-up left something behind",
    states.DOES_NOT_STOP: "A worker does not stop",
    states.ORPHAN: "News about something we do not know",
    states.ABSENT_ASK: "It did not happen: send it or leave it?",
    states.PROVIDER_DOWN: "A provider does not answer",
}


# The queue


def find(actor: Actor, tab: str) -> QuerySet[Case]:
    """The cases of a tab: money at risk first, each currency by itself and the largest first, then age."""
    now = transition.clock()
    rows = Case.objects.select_related("run", "effect__run")
    if tab == "settled":
        return rows.filter(state=states.SETTLED, settled_at__gte=now - timedelta(hours=24)).order_by("-settled_at", "id")
    rows = rows.filter(state__in=states.UNSETTLED)
    if tab == "mine":
        rows = rows.filter(state=states.CLAIMED, claimed_by=actor.id)
    elif tab != "all":
        rows = rows.exclude(state=states.CLAIMED, claimed_until__gt=now)
    no_amount = Q(amount__isnull=True)
    return rows.annotate(plain=no_amount).order_by("plain", "currency", F("amount").desc(nulls_last=True), "opened_at", "id")


def rows(actor: Actor, tab: str) -> list[Context]:
    """The most urgent rows of a tab."""
    now = transition.clock()
    return [row(case, actor, now) for case in find(actor, tab)[:SHOWN_MAX]]


def tabs(actor: Actor, current: str) -> list[Context]:
    """The tabs with how many cases stand in each."""
    return [
        {"label": label, "url": f"/cases/?tab={key}", "count": find(actor, key).order_by().count(), "current": key == current}
        for key, label in TABS
    ]


def row(case: Case, actor: Actor | None = None, now: datetime | None = None) -> Context:
    """The context of `reconciliation/cases/list.html#row`."""
    now = now or transition.clock()
    return {"case": shown(case, now), "claimed": claim_of(case, actor, now)}


def shown(case: Case, now: datetime) -> Context:
    """A case as list and page show it."""
    effect = case.effect
    ended = case.settled_at or now
    return {
        "id": str(case.pk),
        "ref": case.ref,
        "version": case.version,
        "state": case.state,
        "kind": case.kind,
        "kind_words": KIND_WORDS[case.kind],
        "what": what(case),
        "why": case.why,
        "provider_name": provider_name(case.provider) if case.provider else "",
        "amount": case.amount,
        "currency": case.currency,
        "business_ref": case.business_ref,
        "operation_id": str(effect.pk) if effect else "",
        "sent_at": effect.sent_at if effect else None,
        "opened_at": case.opened_at,
        "age_s": (ended - case.opened_at).total_seconds(),
        "target_s": TARGET_S if case.state != states.SETTLED else None,
        "url": f"/cases/{case.ref}/",
        "run_ref": case.run.ref if case.run else "",
        "run_title": case.run.title if case.run else "",
        "settles_itself": not states.VERDICTS[case.kind],
        "reopened": case.reopened,
        "settled_at": case.settled_at,
        "settled_by": case.settled_by,
    }


def what(case: Case) -> str:
    """What the case is about, in a few words."""
    if case.effect is not None:
        return f"{action_words(case.effect.action)} {case.business_ref}"
    if case.kind == states.PROVIDER_DOWN:
        return f"{provider_name(case.provider)} does not answer"
    if case.kind == states.ORPHAN:
        return f"unknown reference {case.business_ref}" if case.business_ref else f"an event of {provider_name(case.provider)}"
    return case.run.title if case.run else KIND_WORDS[case.kind]


def claim_of(case: Case, actor: Actor | None, now: datetime) -> Context | None:
    """Who holds the case, while the claim lasts."""
    if case.state != states.CLAIMED or case.claimed_until is None or case.claimed_until <= now:
        return None
    return {"by": case.claimed_name, "until": case.claimed_until, "mine": actor is not None and case.claimed_by == actor.id}


def open_count() -> int:
    """How many cases wait for a person (counted to 100)."""
    return Case.objects.filter(state__in=states.UNSETTLED).order_by()[:100].count()


def links(effect_ids: Iterable[str]) -> dict[str, dict[str, str]]:
    """The open case of each of these effects (by operation id), as the run's page links to it."""
    found = Case.objects.filter(effect__in=list(effect_ids), state__in=states.UNSETTLED).order_by("opened_at")
    return {str(case.effect_id): {"url": f"/cases/{case.ref}/", "ref": case.ref} for case in found}


def of_run(run: Run) -> list[Case]:
    """Every open case of a run."""
    return list(Case.objects.filter(run=run, state__in=states.UNSETTLED).order_by("opened_at"))


def oldest_unknown_s() -> float | None:
    """How long the oldest effect in doubt has been so, while it is being checked automatically."""
    since = (
        Effect.objects.filter(state="unknown", unknown_since__isnull=False)
        .order_by("unknown_since")
        .values_list("unknown_since", flat=True)
        .first()
    )
    return (transition.clock() - since).total_seconds() if since else None


# One case


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
        "settled": _findings(case),
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
    """Where a person can look it up: the provider's `lookup_url` of the settings, with `{reference}` filled in."""
    template = str(settings.PROVIDERS.get(effect.provider, {}).get("lookup_url", ""))
    if not template.startswith(("https://", "http://")):
        return []
    url = template.replace("{reference}", quote(effect.provider_reference, safe=""))
    return [{"url": url, "label": f"Look up {effect.provider_reference} at {provider_name(effect.provider)}"}]


VERDICT_WORDS = {
    states.HAPPENED: "It happened",
    states.HAPPENED_DIFFERENTLY: "It happened for a different amount",
    states.DID_NOT_HAPPEN: "It did not happen",
    states.CANNOT_BE_KNOWN: "It can't be known",
    states.SURPLUS_NAMED: "These are the surplus",
    states.SEND_AGAIN: "Send it again",
    states.LEAVE: "Leave it unsent",
    states.BELONGS_TO: "It belongs to one of our actions",
    states.NOT_OURS: "It is not ours",
    states.DONE_BY_HAND: "It was done by hand",
    states.NOT_NEEDED: "It is not needed",
    "settled_itself": "It settled itself",
}


def _findings(case: Case) -> list[Context]:
    """Every verdict ever recorded, oldest first, and what people did with the case."""
    told = []
    for event in CaseEvent.objects.filter(case=case).order_by("at", "id"):
        says = _event_words(event)
        if says:
            told.append({"by": event.actor_name, "at": event.at, "says": says, "evidence": _evidence_words(event.data)})
    return told


def _event_words(event: CaseEvent) -> str:
    verdict = VERDICT_WORDS.get(str(event.data.get("verdict", "")), "")
    match event.kind:
        case "settled":
            return verdict
        case "evidence":
            return f"{verdict} — kept as evidence, the case stayed open"
        case "second_asked":
            return f"{verdict} — a second person must confirm"
        case "second_disagreed":
            return "Did not agree; the case went back to the queue"
        case "passed_on":
            return f"Could not tell, passed it on{': ' + str(event.data['notes']) if event.data.get('notes') else ''}"
        case "claimed":
            return "Claimed it"
        case "taken_over":
            return f"Took it over from {event.data.get('from') or 'somebody'}"
        case "opened" | "reopened":
            return f"{event.kind.capitalize()}: {event.data.get('why', '')}"
    return ""


def _evidence_words(data: Context) -> str:
    seen = str(data.get("seen_where") or "").replace("_", " ")
    seen_at = data.get("seen_at")
    when = moment_text(datetime.fromisoformat(seen_at), with_day=True) if seen_at else ""
    parts = [
        f"reference {data['external_id']}" if data.get("external_id") else "",
        f"seen in {seen}" if seen else "",
        f"at {when} by their clock" if when else "",
        amount_text(data.get("amount"), data.get("currency")) if data.get("amount") is not None else "",
        f"sender gone: {data['sender_gone']}" if data.get("sender_gone") else "",
        str(data.get("notes") or ""),
    ]
    return ", ".join(filter(None, parts))


def _second(case: Case) -> Context | None:
    """The finding that waits for a second person."""
    if case.state != states.AWAITING_SECOND or not case.finding:
        return None
    return {"by": case.finding.get("by_name", "Somebody"), "evidence": _evidence_words(case.finding)}


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


# The form

_HELP = {
    states.HAPPENED: "You found it at the provider. Its reference there is needed.",
    states.HAPPENED_DIFFERENTLY: "You found it, for another amount. Reference and amount are needed.",
    states.DID_NOT_HAPPEN: "You looked where it would be, and it is not there.",
    states.CANNOT_BE_KNOWN: "Nobody can find out. A second person must confirm; it stays unknown in the account.",
    states.SURPLUS_NAMED: "Tick the ones that are too many.",
    states.SEND_AGAIN: "It is proved that it did not happen. The run may send it once more.",
    states.LEAVE: "It is not sent.",
    states.BELONGS_TO: "Name the action (E-…) that it belongs to.",
    states.NOT_OURS: "Somebody else's.",
    states.DONE_BY_HAND: "You or somebody else tidied it up.",
    states.NOT_NEEDED: "There is nothing to tidy up.",
    "pass_on": "The case goes back to the queue with your notes.",
}
_AFTER = {
    states.HAPPENED: "The action becomes landed.",
    states.HAPPENED_DIFFERENTLY: "The action becomes landed for that amount.",
    states.DID_NOT_HAPPEN: "The action becomes “did not happen”.",
    states.CANNOT_BE_KNOWN: "The action stays unknown and its reference stays taken.",
}
PLACES = {
    "provider_dashboard": "Provider's dashboard",
    "statement": "Statement",
    "provider_support": "Provider's support",
    "customer": "Customer",
    "other": "Somewhere else",
}
_WITH_EVIDENCE = {states.HAPPENED, states.HAPPENED_DIFFERENTLY, states.DID_NOT_HAPPEN}


def form(case: Case, given: Context | None = None, errors: dict[str, str] | None = None) -> Context:
    """The finder's form: the verdicts of this kind of case and the fields that those need."""
    offered = states.VERDICTS[case.kind]
    verdicts = [{"value": word, "label": VERDICT_WORDS[word], "help": f"{_HELP[word]} {_AFTER.get(word, '')}".strip()} for word in offered]
    if offered:
        verdicts.append({"value": "pass_on", "label": "I can't tell — pass it on", "help": _HELP["pass_on"]})
    return {
        "verdicts": verdicts,
        "places": [{"value": value, "label": label} for value, label in PLACES.items()],
        "asks_evidence": bool(_WITH_EVIDENCE & set(offered)),
        "asks_effect": states.BELONGS_TO in offered,
        "asks_amount": states.HAPPENED_DIFFERENTLY in offered and case.amount is not None,
        "surplus": [str(one) for one in case.facts.get("external_ids", [])] if states.SURPLUS_NAMED in offered else [],
        "expected": decimal_text(case.amount, case.currency) if case.amount is not None and case.currency else "",
        "form": given or {},
        "errors": errors or {},
    }
