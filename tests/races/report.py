"""What came of the cancel races, kept for people: one JSON and one table under .countermand/races/."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(os.environ.get("COUNTERMAND_HOME") or Path(__file__).resolve().parents[2] / ".countermand") / "races"


@dataclass(frozen=True)
class Tally:
    """One boundary: who was first how often, how late acts were answered, and what broke an invariant."""

    boundary: str
    races: int
    act_first: int
    cancel_first: int
    refused: int
    recorded_after_cancel: int
    executed: int
    violations: list[str]


def keep(tally: Tally) -> None:
    """Write one boundary down, and the table of all that were written."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{tally.boundary.replace(' ', '-')}.json").write_text(json.dumps(asdict(tally), indent=1))
    kept = [Tally(**json.loads(path.read_text())) for path in sorted(FOLDER.glob("*.json"))]
    (FOLDER / "report.txt").write_text(table(kept))


def table(tallies: list[Tally]) -> str:
    """The races for people, a line each."""
    head = f"{'boundary':26}{'races':>7}{'act first':>11}{'cancel first':>14}{'refused':>9}{'recorded after':>16}{'violations':>12}"
    lines = [
        f"{t.boundary:26}{t.races:7}{t.act_first:11}{t.cancel_first:14}{t.refused:9}{t.recorded_after_cancel:16}{len(t.violations):12}"
        for t in tallies
    ]
    return "\n".join([head, *lines, ""])
