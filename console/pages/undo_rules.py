"""The rules of undoing, under Settings: read by everyone who may see runs, changed by administrators. Doors: they parse, ask, render."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from console.pages.guard import number, page
from console.pages.runs import actor_of
from ledger import prospects, rulebook, undo_pages
from ledger.models import CompensationRule
from ledger.naming import action_words, provider_name
from ledger.providers.money import BadAmount, decimal_text, minor_units
from ledger.rulebook import NewTerms
from runs import actors
from runs.errors import Invalid, Problem
from runs.parsing import check_text

TEMPLATE = "ledger/rules/list.html"
BASE = "/settings/undo-rules/"
FIELDS = ("provider", "action", "currency", "max_amount", "days_after_landing", "approvals", "second_from", "reason", "active")


@page("GET", "POST", back=BASE)
def rules(request: HttpRequest) -> HttpResponse:
    """`/settings/undo-rules/`: what holds, every earlier version, and the form; sent, the next version of one rule."""
    actor = actor_of(request)
    actor.require(actors.RUN_READ, None, "see the rules of undoing")
    if request.method != "POST":
        return _page(request)
    given = {name: request.POST.get(name, "").strip()[:2000] for name in FIELDS}
    try:
        check_text(given)
        key = (given["provider"], given["action"], given["currency"].upper())
        rule = rulebook.change(actor, *key, _terms(given), given["reason"], number(request.POST.get("version")))
    except Problem as refused:
        if refused.status == 403:
            raise
        field = refused.facts.get("field")
        problem = {"title": f"{refused.title}.", "detail": refused.detail}
        return _page(request, refused.status, given=given, errors={field: refused.detail} if field in FIELDS else {}, problem=problem)
    messages.info(request, f"Version {rule.version} of the rule for {action_words(rule.action)} {rule.currency} holds from now on.")
    return redirect(BASE)


def _terms(given: dict[str, str]) -> NewTerms:
    currency = given["currency"].upper()
    return NewTerms(
        active=given["active"] != "no",
        max_amount=_amount(given, "max_amount", currency),
        days_after_landing=_whole(given, "days_after_landing"),
        approvals=_whole(given, "approvals") or 0,
        second_from=_amount(given, "second_from", currency),
    )


def _amount(given: dict[str, str], field: str, currency: str) -> int | None:
    if not given[field]:
        return None
    try:
        return minor_units(given[field], currency)
    except BadAmount as wrong:
        raise Invalid(f"{wrong}. Write it like 1250.00, without thousands separators.", field=field) from None


def _whole(given: dict[str, str], field: str) -> int | None:
    if not given[field]:
        return None
    value = number(given[field])
    if value is None:
        raise Invalid(f"{field} is a whole number.", field=field)
    return value


def _page(request: HttpRequest, status: int = 200, **more: Any) -> HttpResponse:
    actor = actor_of(request)
    context = {
        "rules": [_shown(rule) for rule in rulebook.all_current()],
        "undoable": _undoable(),
        "may_change": actor.is_person and actor.may(actors.RULE_CHANGE),
        "post_url": BASE,
        "given": {"approvals": "1", "active": "yes"},
        **more,
    }
    return render(request, TEMPLATE, context, status=status)


def _shown(rule: CompensationRule) -> dict[str, Any]:
    versions = rulebook.versions(rule.provider, rule.action, rule.currency)
    return {
        "rule": rule,
        "what": action_words(rule.action),
        "provider_name": provider_name(rule.provider),
        "max_text": undo_pages.amount_text(rule.max_amount, rule.currency),
        "second_text": undo_pages.amount_text(rule.second_from, rule.currency),
        "max_input": decimal_text(rule.max_amount, rule.currency) if rule.max_amount else "",
        "second_input": decimal_text(rule.second_from, rule.currency) if rule.second_from else "",
        "earlier": versions[1:],
    }


def _undoable() -> list[tuple[str, str]]:
    """(provider, action) of everything that some provider here can undo."""
    found = {name: prospects.capability(name) for name in sorted(settings.PROVIDERS)}
    return [(name, action) for name, record in found.items() if record is not None for action in sorted(record.compensable)]
