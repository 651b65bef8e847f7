"""Names under which processes hold leases: unique for ever, so that saying one is gone can never mean another."""

from __future__ import annotations

import os
import socket
import uuid


def new_holder() -> str:
    """A name for this process as holder of leases, unique for ever: host, process id, random."""
    return holder_for(os.getpid(), uuid.uuid4().hex[:12])


def holder_for(pid: int, salt: str) -> str:
    """The holder name of a process of this host."""
    return f"{socket.gethostname()}:{pid}:{salt}"
