"""`GET /live/poll`: the same answer as to a `watch`, over HTTP, for a browser whose network lets no socket through."""

from __future__ import annotations

import json

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from console import problems
from console.live import hub as hubs
from console.live import wire
from console.live.comparing import differences
from console.live.page import Page
from console.live.who import may_see
from console.live.wire import BadMessage, read_poll


@never_cache
@require_GET
async def poll(request: HttpRequest) -> HttpResponse:
    """What differs between the page and the database, as frames. 401: signed out. 403: not allowed. 400: not understood."""
    hub = hubs.of_this_process()
    session = request.COOKIES.get(settings.SESSION_COOKIE_NAME, "")
    who = (await hub.source.who([session])).get(session) if session else None
    if who is None:
        return problems.answer(problems.document(401, "You are signed out."))
    try:
        watch = read_poll(request.GET)  # type: ignore[arg-type]
    except BadMessage as error:
        return problems.answer(problems.document(400, f"{error}."))
    if not may_see(who.actor, watch):
        return problems.answer(problems.document(403, "You may not see this page."))
    frames = [frame async for frame in differences(Page(watch), who.actor, hub.source, hub.shelf)]
    frames += [await hub.pulse.counts_now(), wire.SYNCED]
    return JsonResponse({"frames": [json.loads(frame) for frame in frames]})
