"""Kombu's filesystem transport, with messages that appear whole. Only what the embedded default needs; it must never be
reached for any other broker.

The original opens a message under its final name and writes it afterwards. A consumer that comes in between reads half of
it, and a Celery worker ends itself over a message that is no JSON."""

import os
import time
import uuid
from pathlib import Path
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import TRANSPORT_ALIASES, filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
    """The same folders and names; a message gets its name when it is complete."""

    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        folder = Path(self.data_folder_out)
        unfinished = folder / f".{name}.part"  # no consumer asks for such a name
        try:
            unfinished.write_text(dumps(payload), encoding="utf-8")
            os.replace(unfinished, folder / name)
        except OSError as error:
            raise ChannelError(f"Cannot add {name} to {folder}: {error}") from error


class Transport(filesystem.Transport):
    Channel = Channel


def install() -> None:
    """From now on filesystem:// means this transport."""
    TRANSPORT_ALIASES["filesystem"] = f"{__name__}:Transport"
