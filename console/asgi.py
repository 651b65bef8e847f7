"""The web process: HTTP and websockets. Only here are connections pooled, because only here they are shared."""

import os

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
os.environ.setdefault("DATABASE_POOL_MAX", "20")

from channels.routing import ProtocolTypeRouter  # noqa: E402
from django.core.asgi import get_asgi_application  # noqa: E402

application = ProtocolTypeRouter({"http": get_asgi_application()})
