"""Keys and words, as a page and as a dialog."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from console.pages.guard import page


@page("GET")
def keys_and_words(request: HttpRequest) -> HttpResponse:
    """`/help/`."""
    return render(request, "help.html#dialog" if request.headers.get("HX-Request") else "help.html")
