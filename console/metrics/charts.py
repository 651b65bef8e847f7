"""Bars as numbers for a template to draw: SVG coordinates and labels. Pure; the table beside the picture says the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH = 640
ROW = 30
LABEL = 270
PLOT_H = 160
AXIS_H = 24
GUTTER = 56


@dataclass(frozen=True)
class Bar:
    """A rectangle with what is written beside it."""

    x: float
    y: float
    width: float
    height: float
    label: str
    text: str
    kind: str = ""

    @property
    def end(self) -> float:
        """Where the text beside it begins."""
        return self.x + self.width + 8


@dataclass(frozen=True)
class Chart:
    """What a template draws."""

    width: int
    height: int
    bars: tuple[Bar, ...]
    title: str
    description: str


def across(title: str, told: Sequence[tuple[str, int, str]]) -> Chart:
    """Horizontal bars, one a row: (label, number, kind). Longest = largest; nothing at all draws no bar."""
    most = max((number for _, number, _ in told), default=0)
    room = WIDTH - LABEL - GUTTER
    bars = tuple(
        Bar(LABEL, at * ROW + 6, round(room * number / most, 1) if most else 0, ROW - 12, label, f"{number:,}", kind)
        for at, (label, number, kind) in enumerate(told)
    )
    said = "; ".join(f"{label}: {number:,}" for label, number, _ in told)
    return Chart(WIDTH, len(told) * ROW, bars, title, f"{said}." if said else "Nothing yet.")


def upright(title: str, told: Sequence[tuple[str, float | None, float | None]], words: Sequence[tuple[str, str]]) -> Chart:
    """Pairs of upright bars, (label, first, second), with `words` = what each number of a pair is in words."""
    most = max((value for _, *pair in told for value in pair if value is not None), default=0.0)
    room = WIDTH - GUTTER
    step = room / max(len(told), 1)
    wide = min(step / 3, 24)
    bars = []
    for at, ((label, *pair), said) in enumerate(zip(told, words, strict=True)):
        left = GUTTER + at * step + (step - 2 * wide) / 2
        for place, (value, text) in enumerate(zip(pair, said, strict=True)):
            high = PLOT_H * (value or 0) / most if most else 0
            kind = ("p50", "p95")[place]
            bars.append(Bar(round(left + place * wide, 1), round(PLOT_H - high, 1), round(wide - 2, 1), round(high, 1), label, text, kind))
    said_all = "; ".join(f"{label}: half within {p50}, 95 of 100 within {p95}" for (label, *_), (p50, p95) in zip(told, words, strict=True))
    return Chart(WIDTH, PLOT_H + AXIS_H, tuple(bars), title, f"{said_all}." if said_all else "Nothing yet.")
