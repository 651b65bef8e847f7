"""`/profile/`: what this person likes, and the ways to their password, second factors and sessions."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from console import profiles
from console.models import Profile
from console.pages.guard import page
from runs.errors import Invalid

PROFILE = "profile/profile.html"


@page("GET", "POST")
def profile(request: HttpRequest) -> HttpResponse:
    """Shown, and kept. The menu of the shell sends single fields in the background (`X-Quiet`): what it leaves out stays."""
    liked = profiles.of(request.user)  # type: ignore[arg-type]
    if request.method == "GET":
        return _show(request, liked)
    quiet = "X-Quiet" in request.headers
    shortcuts = request.POST.get("shortcuts", "on" if quiet and liked.shortcuts else "off") == "on"
    zone, theme = request.POST.get("time_zone", liked.time_zone), request.POST.get("theme", liked.theme)
    try:
        kept = profiles.save(request.user, zone, shortcuts, theme)  # type: ignore[arg-type]
    except Invalid as wrong:
        return _show(request, Profile(time_zone=zone[:64], shortcuts=shortcuts, theme=theme), wrong)
    if quiet:
        return profiles.tell_browser(HttpResponse(status=204), kept)
    messages.info(request, "Kept, for every browser that you sign in with.")
    return profiles.tell_browser(redirect("/profile/"), kept)


def _show(request: HttpRequest, liked: Profile, wrong: Invalid | None = None) -> HttpResponse:
    context: dict[str, Any] = {
        "liked": liked,
        "zones": profiles.zones(),
        "errors": {wrong.facts.get("field", ""): wrong.detail} if wrong else {},
        "groups": sorted(group.name for group in request.user.groups.all()),
        "has_password": request.user.has_usable_password(),
        "second_factors": settings.SECOND_FACTORS,
    }
    return render(request, PROFILE, context, status=wrong.status if wrong else 200)
