"""The inbox of what waits for an approver: confirmations that runs wait for, and requests to undo.

Doors: the domain decides who may decide, and whether it is still to be decided.
"""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.pages.guard import go, page
from console.pages.runs import actor_of
from console.recent import kept
from ledger import pages as effect_pages
from ledger import undo_pages
from runs import actors, approvals, asking
from runs.errors import Problem, ReauthenticationRequired
from runs.models import Approval

LIST, DECIDE = "runs/approvals/list.html", "runs/approvals/decide.html"
COMMENT_MAX = 2000
WORDS = {"approve": "approved", "reject": "rejected"}


@page("GET")
def approval_list(request: HttpRequest) -> HttpResponse:
    """`/approvals/`: what waits for a decision, and what was decided lately."""
    actor = actor_of(request)
    actor.require(actors.RUN_READ, None, "see approvals")
    tab = request.GET.get("tab", "to_decide")
    tab = tab if tab in dict(asking.TABS) else "to_decide"
    found = [asking.shown(one, effect_pages.action_shown, actor) for one in asking.find(tab)[: asking.SHOWN_MAX]]
    tabs = [{"label": label, "url": f"/approvals/?tab={key}", "current": key == tab} for key, label in asking.TABS]
    undos = undo_pages.all_shown(undo_pages.find(tab, actor)[: undo_pages.SHOWN_MAX], actor)
    context = {
        "approvals": found,
        "undos": undos,
        "tabs": tabs,
        "tab": tab,
        "shown_max": asking.SHOWN_MAX if len(found) == asking.SHOWN_MAX or len(undos) == undo_pages.SHOWN_MAX else None,
        "may_decide": actor.may(actors.APPROVAL_DECIDE),
        "watch": f"approvals?tab={tab}",
    }
    return render(request, LIST, context)


@page("GET", "POST")
def decide(request: HttpRequest, pk: str, verb: str) -> HttpResponse:
    """`/approvals/…/approve` and `…/reject`: what is decided upon, as it stands now; sent, the decision."""
    actor = actor_of(request)
    actor.require(actors.RUN_READ, None, "see approvals")
    approval = asking.read(pk)
    if request.method == "POST":
        return _decide(request, approval, verb)
    return _dialog(request, approval, verb, comment=kept(request).get("comment", ""))


def _decide(request: HttpRequest, approval: Approval, verb: str) -> HttpResponse:
    comment = request.POST.get("comment", "").strip()[:COMMENT_MAX]
    try:
        approvals.decide(actor_of(request), approval.pk, WORDS[verb], comment, request.POST.get("digest", ""))
    except ReauthenticationRequired:
        raise
    except Problem as refused:
        wrong = {"comment_error": refused.detail} if refused.facts.get("field") == "comment" else {}
        problem = None if wrong else {"title": f"{refused.title}.", "detail": refused.detail}
        fresh = asking.read(str(approval.pk))
        return _dialog(request, fresh, verb, refused.status if not wrong else 422, problem=problem, comment=comment, **wrong)
    then = "goes on with exactly this action." if verb == "approve" else "goes on, and its plan is told no."
    messages.info(request, f"{WORDS[verb].capitalize()}. {approval.run.ref} {then}")
    return go(request, "/approvals/")


def _dialog(request: HttpRequest, approval: Approval, verb: str, status: int = 200, **more: Any) -> HttpResponse:
    shown = asking.shown(approval, effect_pages.action_shown, actor_of(request))
    context = {"approval": shown, "verb": verb, "post_url": f"/approvals/{approval.pk}/{verb}", "back_url": "/approvals/", **more}
    part = f"{DECIDE}#dialog" if request.headers.get("HX-Request") else DECIDE
    return render(request, part, context, status=status)
