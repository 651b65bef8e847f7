"""Opening the case of an action in doubt before its checks are over: the page on which a person who knows something says so. A door."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.pages.guard import go, page
from console.pages.runs import actor_of
from ledger import pages as effect_pages
from ledger.models import Effect
from ledger.queries import read_effect
from reconciliation import on_request
from runs import actors
from runs.errors import Problem
from runs.parsing import check_text

TEMPLATE = "reconciliation/cases/open.html"
WHY_MAX = 1000


@page("GET", "POST")
def open_case(request: HttpRequest, ref: str) -> HttpResponse:
    """`/effects/E-…/case`: what a case means, and what is known; sent, the case, or the one that is open already."""
    actor_of(request).require(actors.CASE_SETTLE, None, "open cases")
    effect = read_effect(actor_of(request), ref)
    return _open(request, effect) if request.method == "POST" else _dialog(request, effect)


def _open(request: HttpRequest, effect: Effect) -> HttpResponse:
    why = request.POST.get("why", "")[:WHY_MAX]
    try:
        check_text(why, "why")
        case, _ = on_request.open_case(actor_of(request), effect.pk, why)
    except Problem as refused:
        if refused.status == 403:
            raise
        return _dialog(request, effect, refused.status, why=why, problem={"title": f"{refused.title}.", "detail": refused.detail})
    return go(request, f"/cases/{case.ref}/")


def _dialog(request: HttpRequest, effect: Effect, status: int = 200, **more: Any) -> HttpResponse:
    told = {name: getattr(effect, name) for name in ("action", "provider", "business_ref", "amount", "currency")}
    context = {
        "action": effect_pages.action_shown(told),
        "effect": {"ref": effect.ref, "run_ref": effect.run.ref},
        "post_url": f"/effects/{effect.ref}/case",
        "back_url": f"/runs/{effect.run.ref}/#effect-{effect.pk}",
        **more,
    }
    part = f"{TEMPLATE}#dialog" if request.headers.get("HX-Request") else TEMPLATE
    return render(request, part, context, status=status)
