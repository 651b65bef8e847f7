"""Bars as numbers for a template to draw, and their labels. Across is in percent and text keeps its size, so a phone shows the same chart.

Pure; the table beside the picture says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FULL = 100.0  # percent
ROW, TEXT_H, BAR_H = 44, 18, 12  # pixels, of a bar across: its label and number stand above it
PLOT_TOP, PLOT_H, AXIS_H = 24, 160, 24
DAY_LABELS_MAX = 7
PAIR = 0.62  # of the room that a day has
BAR_W_MAX = 5.0


@dataclass(frozen=True)
class Bar:
    """A rectangle (across in percent, down in pixels) with what is written beside it; an empty label is left out."""

    x: float
    y: float
    width: float
    height: float
    label: str
    text: str
    kind: str = ""
    named: bool = True

    @property
    def middle(self) -> float:
        """Under which a label of a pair stands: between its two bars."""
        return round(self.x + self.width, 2)


@dataclass(frozen=True)
class Chart:
    """What a template draws: `height` in pixels, `most` is what the highest bar stands for."""

    height: int
    bars: tuple[Bar, ...]
    title: str
    description: str
    most: str = ""


def across(title: str, told: Sequence[tuple[str, int, str]]) -> Chart:
    """Horizontal bars, one a row: (label, number, kind). Longest = largest; nothing at all draws no bar."""
    most = max((number for _, number, _ in told), default=0)
    bars = tuple(
        Bar(0, at * ROW + TEXT_H, round(FULL * number / most, 2) if most else 0, BAR_H, label, f"{number:,}", kind)
        for at, (label, number, kind) in enumerate(told)
    )
    said = "; ".join(f"{label}: {number:,}" for label, number, _ in told)
    return Chart(len(told) * ROW, bars, title, f"{said}." if said else "Nothing yet.")


def upright(title: str, told: Sequence[tuple[str, float | None, float | None]], words: Sequence[tuple[str, str]]) -> Chart:
    """Pairs of upright bars, (label, first, second), with `words` = what each number of a pair is in words. Few of many days are named."""
    most, most_words = max(
        (
            (value, text)
            for (_, *pair), said in zip(told, words, strict=True)
            for value, text in zip(pair, said, strict=True)
            if value is not None
        ),
        default=(0.0, ""),
    )
    step = FULL / max(len(told), 1)
    wide, every = min(step * PAIR / 2, BAR_W_MAX), -(-len(told) // DAY_LABELS_MAX)
    bars = []
    for at, ((label, *pair), said) in enumerate(zip(told, words, strict=True)):
        left = at * step + step / 2 - wide
        named = at % every == every // 2
        for place, (value, text) in enumerate(zip(pair, said, strict=True)):
            high = round(PLOT_H * (value or 0) / most, 1) if most else 0
            kind = ("p50", "p95")[place]
            bars.append(Bar(round(left + place * wide, 2), PLOT_TOP + PLOT_H - high, round(wide, 2), high, label, text, kind, named))
    said_all = "; ".join(f"{label}: half within {p50}, 95 of 100 within {p95}" for (label, *_), (p50, p95) in zip(told, words, strict=True))
    height = PLOT_TOP + PLOT_H + AXIS_H
    return Chart(height, tuple(bars), title, f"{said_all}." if said_all else "Nothing yet.", most_words)
