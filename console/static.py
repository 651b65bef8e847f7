"""Static files from the web process, out of the way of everything else.

WhiteNoise's own middleware is synchronous only: behind it every long poll would hold a thread for as long as it waits.
"""

from __future__ import annotations

from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction, sync_to_async
from django.http import HttpRequest
from whitenoise.middleware import WhiteNoiseMiddleware


class StaticFiles(WhiteNoiseMiddleware):
    """WhiteNoise's lookup, for synchronous and asynchronous handlers alike."""

    sync_capable = async_capable = True

    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        self._is_async = iscoroutinefunction(get_response)
        if self._is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> Any:
        return self._answer_later(request) if self._is_async else super().__call__(request)

    async def _answer_later(self, request: HttpRequest) -> Any:
        path = request.path_info
        found = await sync_to_async(self.find_file)(path) if self.autorefresh else self.files.get(path)
        return await self.get_response(request) if found is None else self.serve(found, request)
