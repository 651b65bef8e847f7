"""The list of runs and a run's own page. Doors: they parse, ask, render."""

from __future__ import annotations

import json
from typing import Any

from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from console.pages import contexts, fragments
from console.pages.guard import number, page
from console.profiles import zone_of
from ledger import accounts
from ledger import queries as effect_queries
from runs import actors, listing, pages, queries
from runs import doing as what_it_does
from runs.actors import Actor
from runs.errors import Invalid, NotFound
from runs.models import Run

LIST = "runs/list.html"


@page("GET")
def run_list(request: HttpRequest) -> HttpResponse:
    """`/runs/`: filters, counts, one page of rows."""
    try:
        return render(request, LIST, _list(request))
    except Invalid as wrong:
        blank = {
            "problem": {"title": "These filters can't be read.", "detail": wrong.detail},
            "links": [{"url": "/runs/", "label": "Clear filters"}],
        }
        return render(request, LIST, blank, status=400)


def _list(request: HttpRequest) -> dict[str, Any]:
    params, actor = request.GET, actor_of(request)
    wanted = listing.read(params)
    size = number(params.get("size")) if number(params.get("size")) in listing.SIZES else 50
    cursor = params.get("cursor")
    found = listing.page(actor, wanted, cursor, size or 50)
    query = params.copy()
    query.pop("cursor", None)
    return {
        "rows": pages.rows(found.items, actor),
        "may_pick": actor.may(actors.RUN_CANCEL),
        "all_url": f"/bulk/cancel?{query.urlencode()}&all=1" if wanted.narrows else "",
        "filters": listing.form(wanted, zone_of(request)),
        "applied": listing.applied(params, wanted, zone_of(request)),
        "clear_url": "/runs/" if wanted.narrows else "",
        "watch": f"runs?{query.urlencode()}",
        "newest": listing.newest_mark(found) if not cursor else "",
        "pager": {
            "newer": _at(request, found.previous),
            "older": _at(request, found.next),
            "size": size,
            "sizes": listing.SIZES,
            "count_text": listing.count_text(actor, wanted, found, cursor),
        },
        "empty": None if found.items else _empty(wanted),
        **_strip(request, actor),
    }


def _strip(request: HttpRequest, actor: Actor) -> dict[str, Any]:
    """The counts; when they cannot be had the list is shown all the same."""
    try:
        return {"strip": listing.strip(actor, request.GET)}
    except DatabaseError:
        return {"strip": [], "partial": "Counts are unavailable right now."}


def _at(request: HttpRequest, cursor: str | None) -> str:
    if cursor is None:
        return ""
    params = request.GET.copy()
    params["cursor"] = cursor
    return f"?{params.urlencode()}"


def _empty(wanted: listing.Wanted) -> dict[str, str]:
    if wanted.narrows:
        return {"text": "No runs match these filters.", "url": "/runs/", "label": "Clear filters"}
    return {"text": "No runs yet. Runs appear here as soon as an agent starts one.", "url": "", "label": ""}


def actor_of(request: HttpRequest) -> Actor:
    """Who asks: set by the guard."""
    return request.actor  # type: ignore[attr-defined, no-any-return]


def run_of(request: HttpRequest, ref: str) -> Run:
    """The run that an address names, for those who may see it. Raises `NotFound` and `NotAllowed` in words for a page."""
    try:
        return queries.read_run(actor_of(request), ref)
    except NotFound:
        raise NotFound(f"No run called {ref[:60]}. Check the reference, or search.") from None


@page("GET")
def run_detail(request: HttpRequest, ref: str) -> HttpResponse:
    """`/runs/R-…/`: everything about one run; `before` shows an older part of its timeline."""
    run = run_of(request, ref)
    if ref != run.ref:
        return redirect(f"/runs/{run.ref}/")
    return render(request, "runs/detail.html", contexts.run_page(run, actor_of(request), number(request.GET.get("before"))))


@page("GET")
def doing(request: HttpRequest, ref: str) -> HttpResponse:
    """`/runs/R-…/doing`: the part of the page that says how far the running steps are; the page asks for it again while the run is open.

    `drawn` is the version that the page's picture shows: the picture comes along when there is a newer one, because steps push none.
    """
    run = run_of(request, ref)
    part = render(request, "runs/detail.html#doing", {"run": run, "doing": what_it_does.now(run)})
    if (number(request.GET.get("drawn")) or 0) < run.version:
        part.write(fragments.picture_html(run, oob=True))
    return part


@page("GET")
def account_file(request: HttpRequest, ref: str, form: str) -> HttpResponse:
    """The account as a file: the last one issued, or a draft."""
    run = run_of(request, ref)
    body = accounts.latest(run)
    if form == "csv":
        response = HttpResponse(accounts.as_csv(body), content_type="text/csv; charset=utf-8")
    else:
        response = HttpResponse(json.dumps(body, indent=2, ensure_ascii=False), content_type="application/json")
    name = f"{run.ref}-account-{body['version'] or 'draft'}.{form}"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


@page("GET")
def effect(request: HttpRequest, ref: str) -> HttpResponse:
    """`/effects/E-…`: to the effect's place on its run's page."""
    found = effect_queries.read_effect(actor_of(request), ref)
    return redirect(f"/runs/{found.run.ref}/#effect-{found.pk}")
