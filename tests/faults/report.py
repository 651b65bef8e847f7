"""What came of each cell, kept while the matrix is played, and read by people afterwards: `python -m tests.faults.report`."""

from __future__ import annotations

import html
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.faults.matrix import LEFT_OUT, MATRIX, Cell
from tests.faults.words import BOUNDARIES, FAULTS

if TYPE_CHECKING:
    from tests.faults.playing import Played

HOME = Path(os.environ.get("COUNTERMAND_HOME") or Path(__file__).resolve().parents[2] / ".countermand")
FOLDER = HOME / "faults"

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Fault matrix</title>
<style>
body {{ font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; color: #1b1f24 }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ border: 1px solid #c8ccd1; padding: .35rem .5rem; text-align: left; vertical-align: top }}
.ok {{ background: #e9f6ec }} .wrong {{ background: #fbe3e1 }} .none {{ color: #6a737d }}
details {{ margin: .6rem 0 }} pre {{ white-space: pre-wrap; background: #f6f8fa; padding: .6rem; font-size: 13px }}
</style>
<h1>Fault matrix</h1>
<p>{summary}</p>
<table><tr><th>boundary</th>{faults}</tr>{rows}</table>
<h2>Cell by cell</h2>
{cells}
</html>
"""


def keep(played: Played, expected: Cell) -> None:
    """Write one cell down, right or wrong."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    kept = played.as_json() | {"found": played.found._asdict(), "expected": expected._asdict(), "right": played.is_right(expected)}
    (FOLDER / f"{played.boundary}-{played.fault}.cell.json").write_text(json.dumps(kept, ensure_ascii=False, indent=1))


def written() -> dict[tuple[str, str], dict[str, Any]]:
    """The cells that were played last, by boundary and fault."""
    cells = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.cell.json"))]
    return {(cell["boundary"], cell["fault"]): cell for cell in cells}


def make() -> tuple[Path, Path]:
    """Write `report.json` and `report.html`; returns where they are."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    cells = written()
    as_json, as_html = FOLDER / "report.json", FOLDER / "report.html"
    as_json.write_text(json.dumps([cells[key] for key in MATRIX if key in cells], ensure_ascii=False, indent=1))
    as_html.write_text(page(cells))
    return as_json, as_html


def page(cells: dict[tuple[str, str], dict[str, Any]]) -> str:
    right = sum(cell["right"] for cell in cells.values())
    most = max((cell["found"]["executions"] for cell in cells.values()), default=0)
    summary = (
        f"{len(cells)} of {len(MATRIX)} cells played, {right} as they must be. The most often that anything was carried out: {most}."
        f" In all {sum(cell['found']['arrivals'] for cell in cells.values())} requests reached the supplier."
    )
    return _PAGE.format(
        summary=html.escape(summary),
        faults="".join(f"<th>{name} {html.escape(what)}</th>" for name, what in FAULTS.items()),
        rows="".join(
            f"<tr><th>{name} {html.escape(what)}</th>" + "".join(_square(name, fault, cells) for fault in FAULTS) + "</tr>"
            for name, what in BOUNDARIES.items()
        ),
        cells="".join(_details(cells[key]) for key in MATRIX if key in cells),
    )


def _square(boundary: str, fault: str, cells: dict[tuple[str, str], dict[str, Any]]) -> str:
    cell = cells.get((boundary, fault))
    if cell is None:
        return f'<td class="none">{html.escape(LEFT_OUT.get((boundary, fault), "not played"))}</td>'
    found = cell["found"]
    short = f"{found['executions']}× done, {found['arrivals']} arrived<br>effect {found['effect']}<br>run {found['run']}"
    return f'<td class="{"ok" if cell["right"] else "wrong"}"><a href="#{boundary}-{fault}">{short}</a></td>'


def _details(cell: dict[str, Any]) -> str:
    name = f"{cell['boundary']}-{cell['fault']}"
    done = "; ".join(cell["done"]) or "nothing"
    lines = [
        f"<b>Done:</b> {html.escape(done)} ({cell['seconds']:.0f} s)",
        f"<b>Expected:</b> {html.escape(json.dumps(cell['expected'], ensure_ascii=False))}",
        f"<b>Found:</b> {html.escape(json.dumps(cell['found'], ensure_ascii=False))}",
        *(f"<b>Violation:</b> {html.escape(violation)}" for violation in cell["violations"]),
    ]
    title = f"{name}: {BOUNDARIES[cell['boundary']]}, {FAULTS[cell['fault']]} – {'right' if cell['right'] else 'WRONG'}"
    body = "<br>".join(lines) + f"<pre>{html.escape(cell['story'])}</pre>"
    return f'<details id="{name}"{"" if cell["right"] else " open"}><summary>{html.escape(title)}</summary>{body}</details>'


if __name__ == "__main__":
    for path in make():
        print(path)
