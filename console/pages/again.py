"""Doing a business action again on purpose: the page on which a person opens its next occurrence. A door: the ledger decides."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.pages.guard import go, page
from console.pages.runs import actor_of
from ledger import occurrences
from ledger import pages as effect_pages
from ledger.models import Effect
from ledger.queries import read_effect
from runs import actors
from runs.errors import Problem
from runs.parsing import check_text

TEMPLATE = "ledger/again.html"


@page("GET", "POST")
def do_again(request: HttpRequest, ref: str) -> HttpResponse:
    """`/effects/E-…/again`: what opening another occurrence means, and why it is wanted; sent, the occurrence."""
    actor_of(request).require(actors.OCCURRENCE_OPEN, None, "open another occurrence")
    effect = read_effect(actor_of(request), ref)
    return _open(request, effect) if request.method == "POST" else _dialog(request, effect)


def _open(request: HttpRequest, effect: Effect) -> HttpResponse:
    reason = request.POST.get("reason", "")
    try:
        check_text(reason, "reason")
        opened = occurrences.open_next(actor_of(request), effect.provider, effect.action, effect.business_ref, reason)
    except Problem as refused:
        if refused.status == 403:
            raise
        wrong = {"reason_error": refused.detail} if refused.facts.get("field") == "reason" else {}
        problem = None if wrong else {"title": f"{refused.title}.", "detail": refused.detail}
        return _dialog(request, effect, refused.status, reason=reason, problem=problem, **wrong)
    name = f"{opened.business_ref}#{opened.number}"
    messages.info(request, f"Occurrence {opened.number} is open: the first run that names it may send {name}.")
    return go(request, _url(effect))


def _url(effect: Effect) -> str:
    return f"/runs/{effect.run.ref}/#effect-{effect.pk}"


def _dialog(request: HttpRequest, effect: Effect, status: int = 200, **more: Any) -> HttpResponse:
    told = {name: getattr(effect, name) for name in ("action", "provider", "business_ref", "amount", "currency")}
    context = {
        "action": effect_pages.action_shown(told),
        "effect": {"ref": effect.ref, "run_ref": effect.run.ref},
        "post_url": f"/effects/{effect.ref}/again",
        "back_url": _url(effect),
        **more,
    }
    part = f"{TEMPLATE}#dialog" if request.headers.get("HX-Request") else TEMPLATE
    return render(request, part, context, status=status)
