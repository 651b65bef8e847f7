"""Cancelling many runs: the question, and the page that follows the job. The domain fixes the selection and answers for each run."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render

from console.pages.guard import number, page
from console.pages.runs import actor_of
from console.profiles import zone_of
from runs import actors, bulk, bulk_pages, listing, queries, transition
from runs.actors import Actor
from runs.errors import Invalid, NotAllowed, Problem
from runs.ids import parse_ref, parse_uuid
from runs.models import Run

ASK, PROGRESS = "runs/bulk/ask.html", "runs/bulk/progress.html"
REASON_MAX = 1000


@page("GET", "POST")
def ask(request: HttpRequest) -> HttpResponse:
    """`/bulk/cancel?run=R-…&run=…`, or with `all=1` a list's own filters: what it would meet; sent, the job."""
    actor = actor_of(request)
    actor.require(actors.RUN_CANCEL, None, "cancel runs")
    params = request.POST if request.method == "POST" else request.GET
    try:
        return _send(request, actor, params) if request.method == "POST" else _question(request, actor, params)
    except Problem as refused:
        problem = {"title": f"{refused.title}.", "detail": refused.detail}
        return render(request, ASK, {"problem": problem, "back_url": "/runs/"}, status=refused.status)


def _question(request: HttpRequest, actor: Actor, params: QueryDict, as_of: datetime | None = None) -> HttpResponse:
    as_of = as_of or transition.clock()
    found = _chosen(actor, params, as_of)
    number_of = len(found.order_by()[: bulk.RUNS_MAX + 1].values_list("pk", flat=True))
    if not number_of:
        raise Invalid("No run matches: there is nothing to cancel.")
    if number_of > bulk.RUNS_MAX:
        raise Invalid(f"At most {bulk.RUNS_MAX:,} runs at once; narrow the selection.")
    context = {
        "count": number_of,
        "filters": _filters(request, params) if params.get("all") == "1" else None,
        "split": bulk_pages.split(found),
        "fields": [(name, value) for name, values in params.lists() if name not in ("csrfmiddlewaretoken", "reason") for value in values],
        "as_of": as_of.isoformat(),
        "back_url": "/runs/",
    }
    return render(request, ASK, context)


def _filters(request: HttpRequest, params: QueryDict) -> list[str]:
    return [token["label"] for token in listing.applied(params, listing.read(params), zone_of(request))]


def _chosen(actor: Actor, params: QueryDict, as_of: datetime) -> QuerySet[Run]:
    """The named runs, or the open ones of a list as it was when the question was asked."""
    if params.get("all") == "1":
        return listing.rows(actor, listing.read(params)).filter(created_at__lte=as_of, closed_at__isnull=True)
    refs = [ref for text in params.getlist("run")[: bulk.RUNS_MAX + 1] if (ref := parse_ref(text, "R"))]
    return queries.readable(actor, Run.objects.filter(Q(ref__in=refs)))


def _send(request: HttpRequest, actor: Actor, params: QueryDict) -> HttpResponse:
    reason = params.get("reason", "").strip()[:REASON_MAX]
    if params.get("all") != "1":
        job = bulk.request(actor, reason, names=params.getlist("run"))
        return redirect(f"/bulk/{job.pk}/")
    try:
        as_of = datetime.fromisoformat(params.get("as_of", ""))
    except ValueError:
        raise Invalid("Open the question again: this form is not whole.", field="as_of") from None
    asked: dict[str, Any] = {name: values for name, values in params.lists() if name not in ("csrfmiddlewaretoken", "reason")}
    job = bulk.request(actor, reason, matching=_chosen(actor, params, as_of), selection={"filter": asked})
    return redirect(f"/bulk/{job.pk}/")


@page("GET")
def progress(request: HttpRequest, pk: str) -> HttpResponse:
    """`/bulk/…/`: one row a run, with its answer; sums that add up."""
    actor = actor_of(request)
    job = bulk.find(parse_uuid(pk) or parse_uuid("0" * 32))  # type: ignore[arg-type]
    if job.actor["id"] != actor.id and not actor.may(actors.RUN_READ):
        raise NotAllowed("You can't see somebody else's bulk cancel.", needs=actors.RUN_READ)
    context = bulk_pages.progress(job, number(request.GET.get("after")) or 0)
    part = f"{PROGRESS}#progress" if request.headers.get("HX-Request") else PROGRESS
    return render(request, part, context)
