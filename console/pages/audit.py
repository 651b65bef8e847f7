"""The audit pages: what happened, one run's whole story, and exports. Doors; nothing on them can be pressed but *Export*."""

from __future__ import annotations

from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render

from console.audit import choosing, exporting, filters, search, story, words
from console.pages.guard import number, page
from console.pages.runs import actor_of, run_of
from console.profiles import zone_of
from ledger import pages as effect_pages
from runs import actors, transition
from runs.errors import Invalid
from runs.models import Event
from runs.planning import TooLong

Context = dict[str, Any]
PATH = "/audit/"
LIST = "audit/list.html"


def _require(request: HttpRequest) -> None:
    actor_of(request).require(actors.AUDIT_READ, None, "read the audit trail")


@page("GET")
def event_list(request: HttpRequest) -> HttpResponse:
    """`/audit/`: every event there is, as far as the filters let through. Not live: it says of when it is."""
    _require(request)
    clear = [{"url": PATH, "label": "Clear filters"}]
    try:
        return render(request, LIST, _list(request))
    except Invalid as wrong:
        problem = {"title": "These filters can't be read.", "detail": wrong.detail}
        return render(request, LIST, {"problem": problem, "links": clear}, status=400)
    except TooLong:
        problem = {"title": "That took too long.", "detail": "Narrow it to a time range, a run or a person, and ask again."}
        return render(request, LIST, {"problem": problem, "links": clear}, status=503)


def _list(request: HttpRequest) -> Context:
    params, actor = request.GET, actor_of(request)
    wanted = filters.read(params)
    size = number(params.get("size")) if number(params.get("size")) in search.SIZES else search.SIZES[0]
    found = search.page(actor, wanted, params.get("place", ""), size or search.SIZES[0])
    names = effect_pages.names({event.subject for event in found.items if event.subject.startswith("E-")})
    return {
        "as_of": transition.clock(),
        "rows": [_row(event, names) for event in found.items],
        "filters": filters.form(params, wanted, zone_of(request), choosing.kinds()),
        "applied": filters.applied(params, wanted, PATH, zone_of(request)),
        "clear_url": PATH if wanted.narrows else "",
        "export_url": f"{PATH}export?{_filters(request)}",
        "pager": {
            "newer": _at(request, found.newer),
            "older": _at(request, found.older),
            "size": size,
            "sizes": search.SIZES,
            "count_text": f"{found.counted} record{'' if found.counted == '1' else 's'}",
        },
        "empty": None if found.items else {"text": "No records match these filters." if wanted.narrows else "Nothing has happened yet."},
    }


def _row(event: Event, names: dict[str, str]) -> Context:
    return {"event": event, "says": words.tell(event, names), "sub": words.sub(event)}


def _at(request: HttpRequest, place: str) -> str:
    params = request.GET.copy()
    params["place"] = place
    return f"?{params.urlencode()}" if place else ""


def _filters(request: HttpRequest) -> str:
    """The filters of the address, without where one is in the list."""
    params = request.GET.copy()
    for name in set(params) - set(filters.KEPT):
        params.pop(name)
    return params.urlencode()


@page("GET")
def run_story(request: HttpRequest, ref: str) -> HttpResponse:
    """`/audit/runs/R-…/`: one run from beginning to end, with every person's act and how each thing is known."""
    _require(request)
    run = run_of(request, ref)
    if ref != run.ref:
        return redirect(f"{PATH}runs/{run.ref}/")
    return render(request, "audit/run.html", story.of_run(run) | {"as_of": transition.clock()})


@page("GET", "POST")
def export(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
    """`/audit/export`: says what would be exported; a POST records it and streams the file."""
    _require(request)
    actor, wanted = actor_of(request), filters.read(request.GET)
    chosen = filters.applied(request.GET, wanted, PATH, zone_of(request))
    if request.method == "POST":
        form = request.POST.get("form", "")
        told = {one["name"]: request.GET[one["name"]].strip()[:200] for one in chosen}
        told |= {name: at.isoformat() for name, at in (("since", wanted.since), ("until", wanted.until)) if at}
        return _stream(request, exporting.begin(actor, wanted, form, told), form)
    context = {"count": search.count(actor, wanted), "filters": [one["label"] for one in chosen], "query": _filters(request)}
    return render(request, "audit/export.html", context)


def _stream(request: HttpRequest, parts: Any, form: str) -> StreamingHttpResponse:
    body = exporting.in_threads(parts) if isinstance(request, ASGIRequest) else parts
    response = StreamingHttpResponse(body, content_type=exporting.CONTENT_TYPES[form])
    name = f"countermand-events-{transition.clock():%Y%m%dT%H%M%SZ}.{form}"
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
