"""What a nemesis came to, for people and for programs: .countermand/nemesis/seed-N.txt and seed-N.json."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from tests.nemesis.playing import Played

FOLDER = Path(os.environ.get("COUNTERMAND_HOME") or Path(__file__).resolve().parents[2] / ".countermand") / "nemesis"


def keep(played: Played) -> Path:
    """Write both; returns where the text is."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    text = FOLDER / f"seed-{played.seed}.txt"
    text.write_text(told(played))
    text.with_suffix(".json").write_text(json.dumps(as_json(played), ensure_ascii=False, indent=1))
    return text


def as_json(played: Played) -> dict[str, Any]:
    """Everything, the schedule included."""
    schedule = [{"at_s": deed.at_s, "what": deed.what, "target": deed.target, **deed.options} for deed in played.deeds]
    return vars(played) | {"deeds": schedule}


def told(played: Played) -> str:
    """A page for people: what was done and what came of it."""
    faults = Counter(deed.what for deed in played.deeds if deed.is_fault)
    asked = Counter(deed.what for deed in played.deeds if not deed.is_fault and deed.what not in ("start", "thaw", "let the wire go"))
    ended = [line for name, counts in played.ended.items() for line in _section(name, counts)]
    verdict = played.violations or ["none"]
    return "\n".join(
        [
            f"Nemesis, seed {played.seed}, {played.seconds:g} s; at rest {played.healed_s:g} s after healing",
            f"The same schedule again: make nemesis SECONDS={played.seconds:g} SEED={played.seed}",
            "",
            f"Violations: {len(played.violations)}",
            *(f"  {line}" for line in verdict),
            "",
            *_planned("Faults (planned, of them met something)", faults, played.landed),
            *_planned("Asked for (planned, of them came to something)", asked, played.landed),
            *_section("What the wires did", played.wires),
            *_section("What was answered", played.answers),
            *_section("At the supplier", played.supplier),
            *ended,
            *_section("Exceptions in the servers' logs", played.exceptions),
        ]
    )


def _planned(title: str, planned: Counter[str], landed: Counter[str]) -> list[str]:
    lines = [f"  {count:6} {landed[what]:6}  {what}" for what, count in sorted(planned.items())]
    return [f"{title}: {sum(planned.values())}, {sum(landed[what] for what in planned)}", *lines, ""]


def _section(title: str, counts: dict[str, int]) -> list[str]:
    return [title[0].upper() + title[1:], *(f"  {count:6}  {what}" for what, count in sorted(counts.items())), ""]
