"""`/ws/ui/`: one socket for each open page. It parses, hands over to the hub, and sends; it never acts on a run."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any
from urllib.parse import urlsplit

from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings

from console.live import hub as hubs
from console.live import wire
from console.live.hub import Hub
from console.live.page import Viewer
from console.live.who import may_see
from console.live.wire import BadMessage, Watch, read_watch

log = logging.getLogger(__name__)

PATH = "/ws/ui/"


class Socket(AsyncWebsocketConsumer):
    """Accepts first and then closes with its code: a refused handshake reaches a browser as 1006 and is retried for ever."""

    channel_layer_alias = "none"  # each process tails for itself
    viewer: Viewer | None = None
    hub: Hub
    _asked: Watch | None = None
    _serving: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        if self.scope["path"] != PATH or not self._from_our_pages():
            await self.close()
            return
        await self.accept()
        self.hub = hubs.of_this_process()
        session = self.scope.get("cookies", {}).get(settings.SESSION_COOKIE_NAME, "")
        who = (await self.hub.source.who([session])).get(session) if session else None
        if who is None:
            await self.close(wire.SIGNED_OUT)
        elif not may_see(who.actor, None):
            await self.close(wire.NOT_ALLOWED)
        else:
            self.viewer = Viewer(who)
            await self.hub.enter(self.viewer)
            self._serving = asyncio.create_task(self._serve(self.viewer))

    def _from_our_pages(self) -> bool:
        """Stricter than the allowed hosts: another port of this machine is another site, but its pages are sent our cookies."""
        headers = {name: value.decode("latin-1") for name, value in self.scope["headers"]}
        origin = headers.get(b"origin", "")
        return urlsplit(origin).netloc == headers.get(b"host") or origin in settings.CSRF_TRUSTED_ORIGINS

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.viewer is None:
            return
        try:
            self._asked = read_watch(text_data)
        except BadMessage as error:
            await self.close(1007, str(error))
            return
        self.viewer.woken.set()

    async def disconnect(self, code: int) -> None:
        if self.viewer is not None:
            self.hub.leave(self.viewer)
        if self._serving is not None:
            self._serving.cancel()

    async def _serve(self, viewer: Viewer) -> None:
        """The only sender of this socket. While it waits for a slow reader, what is newer takes the place of what is older."""
        try:
            while viewer.code is None:
                await viewer.woken.wait()
                viewer.woken.clear()
                await self._send_due(viewer)
            await self.close(viewer.code)
        except Exception as error:
            log.warning("a live page was disconnected: %r", error)
            with contextlib.suppress(Exception):
                await self.close(wire.BROKEN)

    async def _send_due(self, viewer: Viewer) -> None:
        if viewer.code is None and self._asked is not None:
            watch, self._asked = self._asked, None
            if await self._may_see(viewer, watch):
                async for text in self.hub.show(viewer, watch):
                    if viewer.code is not None:
                        return
                    await self.send(text_data=text)
        for text in viewer.take(self.hub.pulse.sure):
            if viewer.code is not None:
                return
            await self.send(text_data=text)

    async def _may_see(self, viewer: Viewer, watch: Watch) -> bool:
        """Each `watch` is answered with the rights of its moment."""
        who: Any = (await self.hub.source.who([viewer.who.session])).get(viewer.who.session)
        if who is None or who.actor.id != viewer.who.actor.id:
            viewer.end(wire.SIGNED_OUT)
        elif not may_see(who.actor, watch):
            viewer.end(wire.NOT_ALLOWED)
        else:
            viewer.who = who
        return viewer.code is None
