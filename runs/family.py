"""The runs below a run, as its page shows them: nested as they were started, with how many are in which state. It changes nothing."""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass
from typing import Any

from runs.models import Run
from runs.pages import reason
from runs.vocabulary import run_chip

SHOWN_MAX = 200


@dataclass(frozen=True)
class Family:
    """`tree`: nodes {run, says, children: [node]}, oldest first; `counts`: `8 running` …; `all_shown`: whether none is left out."""

    tree: list[dict[str, Any]]
    ids: frozenset[uuid.UUID]
    counts: tuple[str, ...]
    all_shown: bool


def below(run: Run) -> Family:
    """Everything below a run, level by level, up to SHOWN_MAX runs."""
    top: list[dict[str, Any]] = []
    shown: dict[uuid.UUID, dict[str, Any]] = {}
    level, all_shown = [run.pk], True
    while level and all_shown:
        room = SHOWN_MAX - len(shown)
        found = list(Run.objects.filter(parent__in=level).order_by("created_at", "id")[: room + 1])
        all_shown = len(found) <= room
        for child in found[:room]:
            node = {"run": child, "says": reason(child), "children": []}
            assert child.parent_id is not None
            (shown[child.parent_id]["children"] if child.parent_id in shown else top).append(node)
            shown[child.pk] = node
        level = [child.pk for child in found]
    words = Counter(run_chip(node["run"].status).text for node in shown.values())
    return Family(top, frozenset(shown), tuple(f"{number} {word[:1].lower()}{word[1:]}" for word, number in words.most_common()), all_shown)
