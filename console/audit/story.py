"""The whole story of one run for an auditor: what stands on its page without anything to press, and what that page leaves out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from console.audit import words
from console.pages import contexts
from ledger import pages as effect_pages
from ledger.models import Account, Compensation
from runs import asking, pages, story
from runs.models import CancelRequest, Event, Run, Seal

Context = dict[str, Any]
ACTS_MAX = 500
BUCKETS = ("stopped", "landed", "undone", "cleaned_up", "did_not_happen", "unknown")


def of_run(run: Run) -> Context:
    """The context of `audit/run.html`."""
    effects = effect_pages.effects(run)
    names = effect_pages.names_of(effects)
    head = pages.head(run, effect_pages.standing(run))
    return {
        "run": run,
        "says": head["says"],
        "notes": head["notes"],
        "times": head["times"],
        "requests": list(CancelRequest.objects.filter(run=run).order_by("position", "at")[:ACTS_MAX]),
        "receipt": contexts.receipt(run),
        "accounts": [_account(issued) for issued in Account.objects.filter(run=run).order_by("version")],
        "acts": [_act(event, names) for event in Event.objects.filter(run=run, actor_type="person").order_by("seq")[:ACTS_MAX]],
        "approvals": [_approval(one) for one in asking.of_run(run)],
        "undos": [_undo(one) for one in _requests(run)],
        "effects": effects,
        "effects_count": effect_pages.counted(run, effects),
        "seal": Seal.objects.filter(run=run).order_by("-first").defer("links").first(),
    }


def _account(issued: Account) -> Context:
    counts = [{"name": name.replace("_", " "), "count": getattr(issued, name)} for name in BUCKETS if getattr(issued, name)]
    return {
        "version": issued.version,
        "issued_at": issued.issued_at,
        "final": issued.final,
        "total": issued.effects_total,
        "counts": counts,
    }


def _act(event: Event, names: story.Names) -> Context:
    return {
        "seq": event.seq,
        "at": event.at,
        "by": event.actor_name,
        "channel": event.channel,
        "says": words.tell(event, names),
        "sub": words.sub(event),
    }


def _approval(approval: Any) -> Context:
    return asking.shown(approval, effect_pages.action_shown) | {
        "digest": approval.digest,
        "decided_by": approval.decided_name,
        "decided_at": approval.decided_at,
        "spent_at": approval.spent_at,
    }


def _requests(run: Run) -> Iterable[Compensation]:
    found = Compensation.objects.filter(run=run).select_related("original", "effect").prefetch_related("decisions")
    return found.order_by("requested_at", "id")


def _undo(request: Compensation) -> Context:
    """A request to undo something, with every word that was said about it."""
    return {"request": request, "decisions": sorted(request.decisions.all(), key=lambda one: one.at), "effect": request.effect}
