"""How each fault of the schedule strikes. Every one says whether it met something."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from tests import platform
from tests.nemesis.schedule import Deed
from tests.nemesis.stage import Stage


def kill(stage: Stage, deed: Deed) -> bool:
    return stage.kill(deed.target)


def start(stage: Stage, deed: Deed) -> bool:
    stage.start(deed.target)
    return True


def kill_worker(stage: Stage, deed: Deed) -> bool:
    return stage.kill_worker(deed.target)


def freeze(stage: Stage, deed: Deed) -> bool:
    return stage.freeze(deed.target)


def thaw(stage: Stage, deed: Deed) -> bool:
    return stage.thaw(deed.target)


def drop_connections(stage: Stage, deed: Deed) -> bool:
    """A share of all connections to the database is ended, in whatever they are doing."""
    with psycopg.connect(platform.OWNER_URL, autocommit=True) as owner:
        ended = owner.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND random() <= %s",
            (deed.options["share"],),
        ).fetchone()
    stage.count("database connections ended", int(ended[0]) if ended else 0)
    return bool(ended and ended[0])


def cut(stage: Stage, deed: Deed) -> bool:
    stage.wires[deed.target].arm(deed.options["mode"], deed.options["pattern"], deed.options.get("times", 1))
    return True


def let_go(stage: Stage, deed: Deed) -> bool:
    stage.wires[deed.target].let_go()
    return True


def supplier_is_told(stage: Stage, deed: Deed) -> bool:
    stage.world.control(**deed.options)
    return True


STRIKE: dict[str, Callable[[Stage, Deed], bool]] = {
    "kill": kill,
    "start": start,
    "kill worker": kill_worker,
    "freeze": freeze,
    "thaw": thaw,
    "drop connections": drop_connections,
    "cut the wire": cut,
    "hold the wire": cut,
    "let the wire go": let_go,
    "the supplier is told": supplier_is_told,
}
