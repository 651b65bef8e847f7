"""`/search/`: a door to everything that a text may name."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from console import search
from console.pages.guard import page
from console.pages.runs import actor_of


@page("GET")
def find(request: HttpRequest) -> HttpResponse:
    """`?q=`: to the one thing that it names exactly, else a list; with `all=1` always the list."""
    text = search.clean(request.GET.get("q", ""))
    found = search.find(actor_of(request), text)
    if found.only and not request.GET.get("all"):
        return redirect(found.only)
    return render(request, "search.html", {"q": text, "groups": found.groups})
