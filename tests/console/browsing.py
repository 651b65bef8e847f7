"""People with a browser, without the browser: Django's client, signed in, and what a page says as plain text."""

from __future__ import annotations

import html
import re
from typing import Any

from django.contrib.auth.models import Group, User
from django.http import HttpResponse
from django.test import Client

from tests.signing import prove

HTMX = {"HTTP_HX_REQUEST": "true"}


def person(name: str = "Sam", group: str = "Support", proved_s_ago: float = 0, **options: Any) -> Client:
    """A client signed in as a person of that group; the same person when asked again. They proved who they are that long ago."""
    user, made = User.objects.get_or_create(username=name.lower(), defaults={"first_name": name, "last_name": group})
    if made and group:
        user.groups.set([Group.objects.get(name=group)])
    client = Client(**options)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    prove(client, proved_s_ago)
    return client


def text(response: HttpResponse) -> str:
    """What the page says: no tags, entities resolved, spaces collapsed."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", response.content.decode(), flags=re.S)
    body = re.sub(r"</?(?:strong|b|code|time|em|mark|a|small)\b[^>]*>", "", body)
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", body))).strip()


def hidden(response: HttpResponse, name: str) -> str:
    """The value of a hidden field of a form on the page."""
    found = re.search(rf'name="{name}" value="([^"]*)"', response.content.decode())
    assert found, f"no field {name}"
    return html.unescape(found[1])
