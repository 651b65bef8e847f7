"""Cancel and terminate: dialog and page at one address, and what each answer looks like. The domain decides; these say what it said."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string

from console.pages import contexts
from console.pages.guard import number, page
from console.pages.runs import actor_of, run_of
from console.people import teams_with
from console.recent import kept
from ledger import pages as effect_pages
from runs import actors, cancellation, family, pages, preview, sentences, usual
from runs.allowed import may_stop
from runs.book import book
from runs.errors import Busy, Invalid, NotAllowed, PlanChanged
from runs.ids import parse_ref
from runs.models import CancelRequest, Run
from runs.wording import Parts, plain, say

Context = dict[str, Any]
CANCEL, TERMINATE = "runs/cancellation.html", "runs/termination.html"
REASON_MAX = 1000


# Cancel


@page("GET", "POST")
def cancel(request: HttpRequest, ref: str) -> HttpResponse:
    """`/runs/R-…/cancel`: what a cancel would meet; sent, its answer."""
    run = run_of(request, ref)
    if request.method == "POST":
        return _cancel(request, run)
    problem = _beforehand(request, run, cancellation.CANCEL)
    return problem or _dialog(request, CANCEL, _cancel_context(run))


@page("GET")
def cancel_plan(request: HttpRequest, ref: str) -> HttpResponse:
    """`/runs/R-…/cancel/plan`: the part of an open dialog that follows the run."""
    return render(request, f"{CANCEL}#plan", _cancel_context(run_of(request, ref)))


def _cancel_context(run: Run) -> Context:
    return _addresses(run, "cancel") | {
        "plan": pages.plan(preview.preview(run), effect_pages.line, usual.quiet_words(run.agent)),
        "plan_url": f"/runs/{run.ref}/cancel/plan",
        "seen": run.version,
    }


def _addresses(run: Run, verb: str) -> Context:
    return {"run": run, "post_url": f"/runs/{run.ref}/{verb}", "back_url": f"/runs/{run.ref}/"}


def _cancel(request: HttpRequest, run: Run) -> HttpResponse:
    reason = request.POST.get("reason", "").strip()[:REASON_MAX]
    try:
        answer = cancellation.request_cancel(
            actor_of(request),
            run.pk,
            reason=reason,
            seen=number(request.POST.get("seen")),
            plan_digest=request.POST.get("plan_digest") or None,
        )
    except NotAllowed:
        return _not_allowed(request, CANCEL, run, cancellation.CANCEL)
    except Busy:
        return _busy(request, CANCEL, _cancel_context(run) | {"reason": reason})
    return _answered(request, CANCEL, answer)


# Terminate


@page("GET", "POST")
def terminate(request: HttpRequest, ref: str) -> HttpResponse:
    """`/runs/R-…/terminate`: what terminating would skip and leave; sent, its answer."""
    run = run_of(request, ref)
    if request.method == "POST":
        return _terminate(request, run)
    problem = _beforehand(request, run, cancellation.TERMINATE)
    return problem or _dialog(request, TERMINATE, _terminate_context(run) | {"reason": kept(request).get("reason", "")})


def _terminate_context(run: Run) -> Context:
    plan = pages.terminate_plan(run, preview.preview(run))
    return _addresses(run, "terminate") | {"plan": plan, "seen": run.version}


def _terminate(request: HttpRequest, run: Run) -> HttpResponse:
    reason, typed = request.POST.get("reason", "").strip()[:REASON_MAX], request.POST.get("typed", "")
    given = {"reason": reason, "typed": typed}
    if parse_ref(typed, "R") != run.ref and may_stop(run, actor_of(request), cancellation.TERMINATE):
        wrong = {"typed_error": f"Type {run.ref}, exactly this run's reference."}
        return _dialog(request, TERMINATE, _terminate_context(run) | given | wrong, 422)
    try:
        answer = cancellation.request_cancel(
            actor_of(request),
            run.pk,
            mode=cancellation.TERMINATE,
            reason=reason,
            seen=number(request.POST.get("seen")),
            plan_digest=request.POST.get("plan_digest") or None,
        )
    except NotAllowed:
        return _not_allowed(request, TERMINATE, run, cancellation.TERMINATE)
    except Busy:
        return _busy(request, TERMINATE, _terminate_context(run) | given)
    except PlanChanged as stale:
        return _stale(request, run, given, stale)
    except Invalid as wrong:
        return _dialog(
            request, TERMINATE, _terminate_context(run) | given | {f"{wrong.facts.get('field', 'reason')}_error": wrong.detail}, 422
        )
    return _answered(request, TERMINATE, answer)


def _stale(request: HttpRequest, run: Run, given: Context, stale: PlanChanged) -> HttpResponse:
    fresh = Run.objects.get(pk=run.pk)
    seen = number(request.POST.get("seen"))
    changed = pages.changed_lines(fresh, seen, effect_pages.names(pages.subjects(fresh, seen or 0)))
    problem = {"title": "Something changed while you were reading.", "detail": "Check again, then terminate."}
    given = given | {"typed": ""}  # typed again only after reading what changed
    context = _terminate_context(fresh) | given | {"problem": problem, "may_retry": True, "changed": changed, "tone": "warn"}
    return _dialog(request, TERMINATE, context, stale.status)


# Answers


def _answered(request: HttpRequest, template: str, answer: cancellation.Answer) -> HttpResponse:
    run = Run.objects.get(pk=answer.run.pk)
    if answer.kind == cancellation.ACCEPTED:
        return _accepted(request, run, answer.request)
    if answer.kind == cancellation.REPEAT:
        return _said(request, template, run, _repeat(run, answer.request), 200, tone="warn")
    return _said(request, template, run, _already_closed(run, answer.request), 409, links=_see_what_it_did(run))


def _accepted(request: HttpRequest, run: Run, made: CancelRequest) -> HttpResponse:
    """202 with the parts of the page that have changed; without JavaScript, the run's page with the same words."""
    context = contexts.head(run, actor_of(request))
    words = plain(say(context["says"], _while_reading(made)))
    if not request.headers.get("HX-Request"):
        messages.info(request, words)
        return redirect(f"/runs/{run.ref}/")
    parts = _changed_parts(request, run, context)
    done = {"cm-done": {"announce": words}}
    return HttpResponse(parts, status=202, headers={"HX-Reswap": "none", "HX-Trigger": json.dumps(done)})


def _while_reading(made: CancelRequest) -> Parts:
    sent = contexts.while_reading(made.receipt or {})
    return say(" ", sentences.changed_while_reading_sentence(sent)) if sent else []


def _changed_parts(request: HttpRequest, run: Run, head: Context) -> str:
    """What the page that was clicked on shows of the run: its row, or the parts of its own page."""
    if f"/runs/{run.ref}" not in request.headers.get("HX-Current-URL", ""):
        row = pages.row(run, actor_of(request))
        return render_to_string("runs/list.html#row", {"row": row, "oob": True}, request)
    outside = contexts.effects(run)
    shown = head | {
        "oob": True,
        "receipt": contexts.receipt(run),
        "account": contexts.account(run),
        "effects": outside,
        "effects_count": effect_pages.counted(run, outside),
        "family": family.below(run),
    }
    names = ("head", "receipt", "account", "effects", "children")
    return "".join(render_to_string(f"runs/detail.html#{name}", shown, request) for name in names)


def _repeat(run: Run, first: CancelRequest) -> Parts:
    asked_at = run.asked_at if first.mode == cancellation.CANCEL and run.asked_at else first.at
    return sentences.repeat_sentence(first.actor_name, asked_at, run.state if run.is_closed else "cancelling")


def _already_closed(run: Run, late: CancelRequest | None) -> Parts:
    if not run.is_closed or run.closed_at is None:
        return sentences.already_failed_sentence(run.ref)
    landed = tuple(_line_words(entry) for entry in book().holdings([run])[run.pk].landed)
    asked_at = late.at if late is not None else None
    return sentences.already_closed_sentence(run.ref, run.state, run.closed_at, asked_at, effect_pages.result_words(run.result), landed)


def _line_words(entry: Context) -> str:
    name = effect_pages.name_of(entry["action"], entry["amount"], entry["currency"])
    return f"{name} {entry['business_ref']} ({entry['ref']})"


def _see_what_it_did(run: Run) -> list[dict[str, str]]:
    return [{"url": f"/runs/{run.ref}/#run-effects", "label": "See what it did"}]


def _beforehand(request: HttpRequest, run: Run, mode: str) -> HttpResponse | None:
    """What is already clear before anything is asked: not allowed, already asked for, already over."""
    template = CANCEL if mode == cancellation.CANCEL else TERMINATE
    if not may_stop(run, actor_of(request), mode):
        return _not_allowed(request, template, run, mode)
    first = cancellation.accepted(run, mode)
    if first is not None:
        return _said(request, template, run, _repeat(run, first), 200, tone="warn")
    if run.is_closed or (run.state == "failing" and mode == cancellation.CANCEL):
        return _said(request, template, run, _already_closed(run, None), 200, links=_see_what_it_did(run))
    return None


def _not_allowed(request: HttpRequest, template: str, run: Run, mode: str) -> HttpResponse:
    scope = actors.RUN_CANCEL if mode == cancellation.CANCEL else actors.RUN_TERMINATE
    return _said(request, template, run, sentences.not_allowed_sentence(run.ref, teams_with(scope), mode), 403)


def _busy(request: HttpRequest, template: str, context: Context) -> HttpResponse:
    problem = {"parts": sentences.busy_sentence("another transaction")}
    return _dialog(request, template, context | {"problem": problem, "may_retry": True}, 503)


def _said(request: HttpRequest, template: str, run: Run, parts: Parts, status: int, **more: Any) -> HttpResponse:
    """The dialog (or page) with an answer in place of the form."""
    verb = "cancel" if template == CANCEL else "terminate"
    return _dialog(request, template, _addresses(run, verb) | {"problem": {"parts": parts}, "may_retry": False, **more}, status)


def _dialog(request: HttpRequest, template: str, context: Context, status: int = 200) -> HttpResponse:
    """The dialog's body alone for the page's script, else the page."""
    part = f"{template}#dialog" if request.headers.get("HX-Request") else template
    return render(request, part, context, status=status)
