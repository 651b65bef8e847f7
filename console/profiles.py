"""What each person likes: the zone of their times, single-key shortcuts, the theme. Kept with the person, and in a cookie of each browser
that they sign in with, which is what pages and their script read. It gives and takes no rights."""

from __future__ import annotations

from zoneinfo import available_timezones

from django.contrib.auth.models import User
from django.db import transaction
from django.http import HttpRequest, HttpResponse

from console.models import Profile
from console.people import record, themselves
from runs.errors import Invalid
from runs.local_times import find_zone

COOKIE_LIFE_S = 365 * 86400
THEMES = ("", "light", "dark")  # empty: as the system


def zones() -> list[str]:
    """The names of the time zones that there are, such as Europe/Berlin."""
    return sorted(name for name in available_timezones() if "/" in name and not name.startswith(("Etc/", "posix/", "right/", "SystemV/")))


def of(user: User) -> Profile:
    """The person's own, or what everybody has at first."""
    return Profile.objects.filter(user=user).first() or Profile(user=user)


def save(user: User, time_zone: str, shortcuts: bool, theme: str) -> Profile:
    """Keep what this person likes. An empty zone is the browser's. Raises `Invalid` with the field."""
    if time_zone not in ("", "UTC") and time_zone not in available_timezones():
        raise Invalid("There is no such time zone. Choose one from the list, such as Europe/Berlin.", field="time_zone")
    if theme not in THEMES:
        raise Invalid("theme must be light, dark or empty, for as the system.", field="theme")
    liked = {"time_zone": time_zone, "shortcuts": shortcuts, "theme": theme}
    with transaction.atomic():
        profile, _ = Profile.objects.update_or_create(user=user, defaults=liked)
        record("profile_changed", themselves(user), user, **liked)
    return profile


def tell_browser(response: HttpResponse, profile: Profile) -> HttpResponse:
    """Set the cookies from which pages and `static/app.js` know it."""
    for name, value in (("zone", profile.time_zone), ("keys", "on" if profile.shortcuts else "off"), ("theme", profile.theme)):
        response.set_cookie(name, value, max_age=COOKIE_LIFE_S, samesite="Lax")
    return response


def zone_of(request: HttpRequest) -> str:
    """The name of the zone in which this reader sees times: UTC when they switched to it, else their own, else their browser's."""
    cookies = request.COOKIES
    named = ("UTC" if cookies.get("utc") == "on" else cookies.get("zone", ""), cookies.get("browser_zone", ""))
    return next((name for name in named if name and find_zone(name)), "UTC")
