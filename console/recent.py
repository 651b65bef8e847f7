"""Whether a person has proved lately who they are, and the way to prove it and back, with what they typed.

The rule itself is `Actor.require_recent`, called by the domain; here the session is read and the browser is sent.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlencode

from allauth.account.authentication import get_authentication_records
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser, AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from runs.errors import ReauthenticationRequired

KEPT = "kept_form"
KEPT_CHARACTERS_MAX = 20_000
NEVER_KEPT = frozenset({"csrfmiddlewaretoken", "password"})


def is_stale(request: HttpRequest, user: AbstractBaseUser | AnonymousUser) -> bool:
    """Whether the last log-in or proof in this session is `REAUTHENTICATE_AFTER_S` old, or unknown."""
    records = get_authentication_records(request, user)  # type: ignore[arg-type]
    return not records or time.time() - max(record["at"] for record in records) >= settings.REAUTHENTICATE_AFTER_S


def ask_again(request: HttpRequest, refused: ReauthenticationRequired, back: str) -> HttpResponse:
    """To the page that asks for the proof, which leads `back`; what was sent is kept for the form there."""
    if request.method == "POST":
        fields = {name: values for name, values in request.POST.lists() if name not in NEVER_KEPT}
        if len(str(fields)) <= KEPT_CHARACTERS_MAX:
            request.session[KEPT] = {"path": back.partition("?")[0], "fields": fields}
    url = f"{reverse('account_reauthenticate')}?{urlencode({'next': back})}"
    if request.headers.get("HX-Request"):
        return HttpResponse(status=refused.status, headers={"HX-Redirect": url})
    return redirect(url)


def kept(request: HttpRequest) -> dict[str, Any]:
    """What was typed at this address before the proof was asked for: the last value of each field, for a form to show. Told once."""
    found = request.session.get(KEPT)
    if not found or found["path"] != request.path:
        return {}
    del request.session[KEPT]
    messages.info(request, "Thank you. Nothing was done yet: look once more, then send it again.")
    return {name: values[-1] if values else "" for name, values in found["fields"].items()} | {"lists": found["fields"]}
