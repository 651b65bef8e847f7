"""The queue of cases as pages show it: tabs, order, rows, counts. It renders nothing, judges nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet

from ledger.models import Effect
from ledger.naming import action_words, provider_name
from reconciliation import queries, states
from reconciliation.models import Case
from runs import transition
from runs.actors import Actor
from runs.models import Run

Context = dict[str, Any]
TARGET_S = 4 * 3600.0  # how soon a case should be settled
SHOWN_MAX = 100
COUNTED_MAX = 1000
TABS = (("unclaimed", "Unclaimed"), ("mine", "Mine"), ("all", "All"), ("settled", "Settled today"))

KIND_WORDS = {
    states.NO_LOOKUP: "This provider can't be asked",
    states.NOT_FOUND_SENDER_ALIVE: "Not found, but its sender may be alive",
    states.CEILING: "Asking has not settled it",
    states.CONFLICTING: "Answers disagree",
    states.DUPLICATED: "Happened more than once",
    states.LEFT_BEHIND: "Clean-up left something behind",
    states.DOES_NOT_STOP: "A worker does not stop",
    states.ORPHAN: "News about something we do not know",
    states.ABSENT_ASK: "It did not happen: send it or leave it?",
    states.PROVIDER_DOWN: "A provider does not answer",
}


def find(actor: Actor, tab: str, text: str = "") -> QuerySet[Case]:
    """The cases of a tab: money at risk first, each currency by itself and the largest first, then age. Money-free ones come last."""
    now = transition.clock()
    rows = Case.objects.select_related("run", "effect__run")
    if text.strip():
        rows = rows.filter(queries.named(text.strip()))
    if tab == "settled":
        return rows.filter(state=states.SETTLED, settled_at__gte=now - timedelta(hours=24)).order_by("-settled_at", "id")
    rows = rows.exclude(state=states.SETTLED)
    if tab == "mine":
        rows = rows.filter(state=states.CLAIMED, claimed_by=actor.id)
    elif tab != "all":
        rows = rows.exclude(state=states.CLAIMED, claimed_until__gt=now)
    return rows.order_by(*Case.MOST_URGENT)


def rows(actor: Actor, tab: str, text: str = "") -> list[Context]:
    """The most urgent rows of a tab."""
    now = transition.clock()
    return [row(case, actor, now) for case in find(actor, tab, text)[:SHOWN_MAX]]


def tabs(actor: Actor, current: str, text: str = "") -> list[Context]:
    """The tabs with how many cases stand in each, counted to `COUNTED_MAX`."""
    query = f"&{urlencode({'q': text})}" if text else ""
    told = []
    for key, label in TABS:
        count = find(actor, key, text).order_by()[: COUNTED_MAX + 1].count()
        words = f"{COUNTED_MAX:,}+" if count > COUNTED_MAX else f"{count:,}" if count else ""
        told.append({"label": label, "url": f"/cases/?tab={key}{query}", "count": count, "words": words, "current": key == current})
    return told


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
    left_s = (case.claimed_until - now).total_seconds()
    mine = actor is not None and case.claimed_by == actor.id
    return {"by": case.claimed_name, "until": case.claimed_until, "left_s": left_s, "mine": mine}


def open_count() -> int:
    """How many cases wait for a person (counted to 100)."""
    return Case.objects.exclude(state=states.SETTLED).order_by()[:100].count()


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
