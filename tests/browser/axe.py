"""axe-core on what a page shows now. It runs as a debugger's script, which the page's content security policy does not concern."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

SOURCE = (Path(__file__).parent / "axe-core-4.14.1" / "axe.min.js").read_text("utf-8")
EVERYTHING = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
LOOKS = {"type": "rule", "values": ["color-contrast", "link-in-text-block", "target-size", "scrollable-region-focusable"]}


def violations(page: Page, only: dict[str, Any], where: str = "") -> list[str]:
    """What axe finds, one line for each element: the rule, the element and what is wrong with it."""
    if not page.evaluate("!!window.axe"):
        page.evaluate(SOURCE)
    found = page.evaluate("(only) => axe.run(document, {runOnly: only, resultTypes: ['violations']})", only)
    return [
        f"{where} {rule['id']} {node['html'][:160]} — {node['failureSummary'].splitlines()[-1].strip()}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
