"""The practice ground. Doors: each starts real runs and shows them; nothing is written for show."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from console.demo import sample_dialogs, samples, starting
from console.pages.guard import number, page
from console.pages.runs import actor_of
from examples.purchase_orders.agent import AGENT
from examples.purchase_orders.situations import BY_KEY, SITUATIONS
from runs import actors
from runs.errors import Invalid, NotFound, Problem
from runs.models import Run

RECENT = 8
FIRST_MAX = 50


@page("GET")
def index(request: HttpRequest) -> HttpResponse:
    """`/demo/`: the situations that can be started."""
    return _index(request)


def _index(request: HttpRequest, problem: Problem | None = None) -> HttpResponse:
    actor_of(request).require(actors.DEMO_START, None, "start practice runs")
    context = {
        "situations": [{"key": one.key, "title": one.title, "what": one.sees, "post_url": "/demo/start"} for one in SITUATIONS],
        "recent": [{"run": run} for run in Run.objects.filter(agent=AGENT).order_by("-created_at", "-id")[:RECENT]],
        "orders_url": "/demo/orders",
        "release_url": "/demo/release",
        "first_max": FIRST_MAX,
        "problem": {"title": f"{problem.title}.", "detail": problem.detail} if problem else None,
    }
    return render(request, "demo/index.html", context, status=problem.status if problem else 200)


@page("POST")
def start(request: HttpRequest) -> HttpResponse:
    """Start one situation and go to its run."""
    situation = BY_KEY.get(request.POST.get("situation", ""))
    try:
        if situation is None:
            raise Invalid("That situation does not exist.", field="situation")
        run = starting.start_situation(actor_of(request), situation)
    except (Invalid, starting.SupplierAway) as refused:
        return _index(request, refused)
    return redirect(f"/runs/{run.ref}/")


@page("POST")
def orders(request: HttpRequest) -> HttpResponse:
    """Start a run for each order of an uploaded file, or for the first ones of the file that comes with it."""
    try:
        file = request.FILES.get("file")
        wanted = starting.uploaded(file.read(starting.UPLOAD_BYTES_MAX + 1)) if file else starting.of_the_file(_first(request))
        runs = starting.start_orders(actor_of(request), wanted)
    except (Invalid, starting.SupplierAway) as refused:
        return _index(request, refused)
    messages.info(request, f"{len(runs)} order{'s have' if len(runs) != 1 else ' has'} a run. Orders that had one already got no second.")
    return redirect(f"/runs/?agent={AGENT}")


def _first(request: HttpRequest) -> int:
    first = number(request.POST.get("first"))
    if not first or first > FIRST_MAX:
        raise Invalid(f"Say how many orders to start, from 1 to {FIRST_MAX}.", field="first")
    return first


@page("POST")
def release(request: HttpRequest) -> HttpResponse:
    """Let the supplier go on with what it holds."""
    actor_of(request).require(actors.DEMO_START, None, "start practice runs")
    try:
        starting.release_all()
    except starting.SupplierAway as refused:
        return _index(request, refused)
    messages.info(request, "The supplier goes on with everything that it was holding.")
    return redirect(request.POST.get("back") if request.POST.get("back", "").startswith("/runs/R-") else "/demo/")


@page("GET")
def components(request: HttpRequest) -> HttpResponse:
    """`/demo/components/`: every component in each of its states."""
    actor_of(request).require(actors.DEMO_START, None, "see the components")
    return render(request, "demo/components.html", samples.everything())


@page("GET", "POST")
def component_dialog(request: HttpRequest, name: str) -> HttpResponse:
    """`/demo/components/cancel`: a dialog with made-up contents; sent, it says that it did nothing."""
    actor_of(request).require(actors.DEMO_START, None, "see the components")
    found = sample_dialogs.dialog(name)
    if found is None:
        raise NotFound(f"No dialog is called {name[:60]!r}.")
    template, context = found
    part = "#dialog" if request.headers.get("HX-Request") else ""
    if request.method == "POST" and not part:
        messages.info(request, "Nothing was done. That was a sample.")
        return redirect("/demo/components/")
    if request.method == "POST":
        context |= {"problem": {"title": "Nothing was done.", "detail": "That was a sample."}, "may_retry": True}
    return render(request, f"{template}{part}", context)
