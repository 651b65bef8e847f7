"""Who watches: from a session to an `Actor`, looked up anew whenever it may have changed. It lets in nobody whom the pages would not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from console.auth import person_actor
from console.live.wire import Watch
from runs import actors
from runs.actors import Actor


@dataclass(frozen=True)
class Who:
    """A person and the session by which they are known."""

    session: str
    actor: Actor


def look(sessions: Collection[str]) -> dict[str, Who]:
    """Who is signed in by these session keys, with the rights they have now. Three queries, however many there are."""
    now = timezone.now()
    found = Session.objects.filter(session_key__in=set(sessions), expire_date__gt=now)
    held = {session.session_key: session.get_decoded() for session in found}
    ids = {data[SESSION_KEY] for data in held.values() if SESSION_KEY in data}
    people = User.objects.filter(is_active=True).prefetch_related("groups").in_bulk(ids)
    signed_in = {}
    for key, data in held.items():
        user = people.get(int(data[SESSION_KEY])) if SESSION_KEY in data else None
        if user is not None and BACKEND_SESSION_KEY in data and _same_password(user, data):
            signed_in[key] = Who(key, person_actor(user))
    return signed_in


def _same_password(user: User, data: dict[str, str]) -> bool:
    return constant_time_compare(data.get(HASH_SESSION_KEY, ""), user.get_session_auth_hash())


def may_see(actor: Actor, watch: Watch | None) -> bool:
    """Whether the actor may see what a page shows, now."""
    if watch is not None and watch.kind == "cases":
        return actor.may(actors.CASE_READ)
    if watch is None or not (watch.kind or watch.run):
        return actor.may(actors.RUN_READ) or actor.may(actors.CASE_READ)
    return actor.may(actors.RUN_READ)
