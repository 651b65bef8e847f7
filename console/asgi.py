"""The web process: HTTP and websockets, and the tail of the event table that wakes both.

Only here are connections pooled, because only here they are shared.
"""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
os.environ.setdefault("DATABASE_POOL_MAX", "20")

from typing import Any  # noqa: E402

from channels.routing import ProtocolTypeRouter  # noqa: E402
from channels.security.websocket import AllowedHostsOriginValidator  # noqa: E402
from channels.sessions import CookieMiddleware  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402

http = get_asgi_application()

from console.live.socket import Socket  # noqa: E402
from runs.tail import tail  # noqa: E402


async def lifespan(scope: Any, receive: Any, send: Any) -> None:
    """What starts with the web process and ends with it."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await tail.start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await tail.stop()
            await send({"type": "lifespan.shutdown.complete"})
            return


application = ProtocolTypeRouter(
    {
        "http": http,
        "websocket": AllowedHostsOriginValidator(CookieMiddleware(Socket.as_asgi())),
        "lifespan": lifespan,
    }
)
