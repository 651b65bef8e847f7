"""`make bench`: every figure measured in one run on this machine; ratios are what to read, rates depend on the machine."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from tests.bench import ground


def effects() -> dict[str, Any]:
    from tests.bench import effects, peers

    found = effects.measure()
    return found | peers.dbos(found["effects per second, ours"])


def cancel() -> dict[str, Any]:
    from tests.bench import cancel

    return cancel.measure()


def heard() -> dict[str, Any]:
    from tests.bench import heard

    return heard.measure()


def queue() -> dict[str, Any]:
    from tests.bench import queue

    return queue.measure()


def outage() -> dict[str, Any]:
    from tests.bench import outage

    return outage.measure()


def races() -> dict[str, Any]:
    from tests.bench import peers

    return peers.races()


def pages() -> dict[str, Any]:
    from tests.bench import pages

    return pages.measure()


def size() -> dict[str, Any]:
    from tests.bench import size

    return size.measure()


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "effects": effects,
    "cancel": cancel,
    "heard": heard,
    "queue": queue,
    "outage": outage,
    "peers": races,
    "pages": pages,
    "size": size,
}
ONLY_WHEN_NAMED = {"pages"}  # a million runs take 15 GB and, the first time, half an hour


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="all of them by default")
    wanted = parser.parse_args().parts or [part for part in PARTS if part not in ONLY_WHEN_NAMED]
    with ground.ready():
        for name in wanted:
            print(f"\n{name}")  # noqa: T201
            for what, value in PARTS[name]().items():
                print(f"  {what:45} {value}")  # noqa: T201


if __name__ == "__main__":
    main()
