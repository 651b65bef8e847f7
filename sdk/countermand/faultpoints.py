"""Named places where a test can stop this process. Compiled to nothing unless COUNTERMAND_FAULTPOINTS=host:port is
set.

Points: before_declare, declared, sending (durable, no bytes yet), response_returned (before recording), recorded
(before the step's checkpoint), during_cleanup.
"""

from __future__ import annotations

import json
import os
import socket
from typing import Any

_ADDRESS = os.environ.get("COUNTERMAND_FAULTPOINTS", "")

if _ADDRESS:

    def reached(name: str, **facts: Any) -> None:
        """Say where we are (one JSON line) and block until a line comes back or the listener goes away."""
        host, _, port = _ADDRESS.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                line = json.dumps({"point": name, "pid": os.getpid(), **facts}, default=str)
                connection.settimeout(None)
                connection.sendall(line.encode() + b"\n")
                connection.recv(64)
        except OSError:
            return

else:

    def reached(name: str, **facts: Any) -> None:
        """Nothing: fault points are off."""
