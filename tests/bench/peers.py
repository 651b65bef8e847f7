"""Peers, installed only by the bench into a virtualenv of their own: never a dependency."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from console.embedded import postgres
from tests.bench import ground

PINNED = {"dbos": ("dbos==3.4.0", "psycopg[binary]==3.3.9")}


def python_with(peer: str) -> Path:
    """The interpreter of a virtualenv in which the peer is installed."""
    place = ground.HOME / "peers" / peer
    interpreter = place / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)  # noqa: S603
        subprocess.run([str(interpreter), "-m", "pip", "install", "-q", *PINNED[peer]], check=True)  # noqa: S603
    return interpreter


def dbos(ours: float) -> dict[str, Any]:
    """DBOS's steps a second on the same server, beside our effects a second."""
    script = Path(__file__).with_name("dbos_steps.py")
    url = ground.SERVER.owner_url("bench_dbos")
    _database("bench_dbos")
    command = [str(python_with("dbos")), str(script), url, "5", "200"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)  # noqa: S603
    rates = [float(line) for line in told.stdout.split()]
    theirs = statistics.median(rates)
    return {"DBOS steps per second": round(theirs), "our effects / DBOS steps": round(ours / theirs, 2)}


def _database(name: str) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(ground.SERVER.url("postgres", "postgres"), autocommit=True) as superuser:
        superuser.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        superuser.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(postgres.OWNER)))
