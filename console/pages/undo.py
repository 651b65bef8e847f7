"""Asking for an undo and deciding on one. Doors: they parse what was sent; the domain decides who may, and whether it still may be."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from console.pages.guard import go, number, page
from console.pages.runs import actor_of
from console.recent import kept
from ledger import compensations, queries, undo_api, undo_pages
from ledger.models import Compensation, Effect
from ledger.prospects import Wanted
from ledger.providers.money import BadAmount, decimal_text, minor_units
from runs import actors, transition
from runs.errors import Invalid, Problem, ReauthenticationRequired
from runs.parsing import check_text

ASK, REQUEST = "ledger/undo/ask.html", "ledger/undo/request.html"
TEXT_MAX = 2000
INBOX = "/approvals/"


@page("GET", "POST")
def ask(request: HttpRequest, ref: str) -> HttpResponse:
    """`/effects/E-…/undo`: what would be undone and what the rules say; sent, the request."""
    effect = queries.read_effect(actor_of(request), ref)
    if request.method == "POST":
        return _ask(request, effect)
    return _ask_form(request, effect)


def _ask(request: HttpRequest, effect: Effect) -> HttpResponse:
    given = {name: request.POST.get(name, "").strip()[:TEXT_MAX] for name in ("amount", "reason", "note", "external_id")}
    try:
        check_text(given)
        wanted = Wanted(_amount(effect, given["amount"]), effect.landed_currency, given["reason"], given["note"], given["external_id"])
        made, _ = compensations.request(actor_of(request), effect.pk, wanted)
    except Problem as refused:
        if refused.status == 403:
            raise
        field = refused.facts.get("field")
        errors = {field: refused.detail} if field in ("amount", "reason", "note") else {}
        problem = None if errors else {"title": f"{refused.title}.", "detail": refused.detail}
        return _ask_form(
            request, queries.read_effect(actor_of(request), effect.ref), refused.status, given=given, errors=errors, problem=problem
        )
    what = undo_pages.shown(undo_pages.read(made.ref))
    amount = f" ({what['amount_text']})" if what["amount_text"] else ""
    messages.info(request, f"Asked to undo {what['what']}{amount}. Someone else must approve it. Request {made.ref}.")
    return go(request, f"/runs/{effect.run.ref}/#effect-{effect.pk}")


def _amount(effect: Effect, text: str) -> int | None:
    """The amount as it was typed, read exactly or not at all: separators of thousands are never guessed."""
    if not effect.landed_currency:
        return None
    try:
        return minor_units(text, effect.landed_currency)
    except BadAmount:
        raise Invalid(
            f"{text[:40]!r} is not an amount of {effect.landed_currency}: write it like {decimal_text(125000, effect.landed_currency)},"
            " without thousands separators.",
            field="amount",
        ) from None


def _ask_form(request: HttpRequest, effect: Effect, status: int = 200, **more: Any) -> HttpResponse:
    form = undo_pages.form(effect)
    amount = decimal_text(form["left"], form["currency"]) if form["left"] and form["currency"] else ""
    context = form | {
        "may_ask": actor_of(request).may(actors.COMPENSATION_REQUEST),
        "post_url": f"/effects/{effect.ref}/undo",
        "back_url": f"/runs/{effect.run.ref}/#effect-{effect.pk}",
        "given": {"amount": amount},
        "example": decimal_text(125000, form["currency"]) if form["currency"] else "",
        **more,
    }
    return _render(request, ASK, context, status)


@page("GET")
def detail(request: HttpRequest, ref: str) -> HttpResponse:
    """`/undo/C-…/`: one request, and what became of it."""
    found = undo_api.read(actor_of(request), ref)
    if ref != found.ref:
        return redirect(f"/undo/{found.ref}/")
    return _request(request, found, "show")


@page("GET", "POST")
def decide(request: HttpRequest, ref: str, verb: str) -> HttpResponse:
    """`/undo/C-…/approve`, `…/reject` and `…/withdraw`: what is decided upon, as it stands now; sent, the decision."""
    found = undo_api.read(actor_of(request), ref)
    if request.method == "POST":
        return _decide(request, found, verb)
    return _request(request, found, verb, comment=kept(request).get("comment", ""))


def _decide(request: HttpRequest, found: Compensation, verb: str) -> HttpResponse:
    actor, comment = actor_of(request), request.POST.get("comment", "").strip()[:TEXT_MAX]
    try:
        check_text({"comment": comment})
        if verb == "withdraw":
            compensations.withdraw(actor, found.pk, comment)
        else:
            word = {"approve": "approved", "reject": "rejected"}[verb]
            compensations.decide(actor, found.pk, word, number(request.POST.get("version")) or 0, comment)
    except ReauthenticationRequired:
        raise
    except Problem as refused:
        if refused.status == 403:
            raise
        wrong = {"comment_error": refused.detail} if refused.facts.get("field") in ("comment", "reason") else {}
        problem = None if wrong else {"title": f"{refused.title}.", "detail": refused.detail}
        status = 422 if wrong else refused.status
        return _request(request, undo_pages.read(found.ref), verb, status, comment=comment, problem=problem, **wrong)
    messages.info(request, _said(undo_pages.read(found.ref), verb))
    return go(request, INBOX)


def _said(found: Compensation, verb: str) -> str:
    if verb == "withdraw":
        return f"Withdrawn. Nothing of {found.ref} was sent."
    if verb == "reject":
        return f"Rejected. {found.requested_name} can see why; the original stays in effect."
    shown = undo_pages.shown(found)
    return "Approved. The undo is being sent." if found.state != "requested" else f"Your approval of {found.ref} counts. {shown['needs']}."


def _request(request: HttpRequest, found: Compensation, verb: str, status: int = 200, **more: Any) -> HttpResponse:
    context = {
        "undo": undo_pages.shown(found, actor_of(request)),
        "verb": verb,
        "as_of": transition.clock(),
        "post_url": f"/undo/{found.ref}/{verb}",
        "back_url": INBOX,
        **more,
    }
    return _render(request, REQUEST, context, status)


def _render(request: HttpRequest, template: str, context: dict[str, Any], status: int) -> HttpResponse:
    part = f"{template}#dialog" if request.headers.get("HX-Request") else template
    return render(request, part, context, status=status)
