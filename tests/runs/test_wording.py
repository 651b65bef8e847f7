"""Lengths of time and moments as people read them."""

from datetime import UTC, datetime

import pytest

from runs.wording import Ref, count, duration, plain, say, shortened


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-1, "0 s"), (0, "0 s"), (0.12, "0.1 s"), (1.2, "1.2 s"), (2, "2 s"), (9.94, "9.9 s"), (9.96, "10 s"), (48, "48 s"),
        (59.6, "1 min"), (60, "1 min"), (370, "6 min 10 s"), (3599, "59 min 59 s"), (3600, "1 h"), (7800, "2 h 10 min"),
        (86399, "23 h 59 min"), (86400, "1 d"), (273600, "3 d 4 h"), (8640000, "100 d"),
    ],
)  # fmt: skip
def test_duration(seconds, expected):
    assert duration(seconds) == expected


def test_count():
    assert [count(n, "action") for n in (0, 1, 1200)] == ["0 actions", "1 action", "1,200 actions"]
    assert count(2, "entry", "entries") == "2 entries"


def test_plain_prints_utc_and_joins_every_kind_of_part():
    at = datetime(2026, 3, 2, 14, 2, 7, tzinfo=UTC)
    assert plain(say("At ", at, None, "", [" see ", Ref("E-1")], ".")) == "At 14:02:07 UTC see E-1."


@pytest.mark.parametrize(
    ("text", "expected"),
    [("short", "short"), ("ten letter", "ten letter"), ("eleven char", "eleven…"), ("x" * 11, "x" * 9 + "…")],
)
def test_what_is_left_out_leaves_a_mark(text, expected):
    assert shortened(text, 10) == expected
