"""Times of a filter, typed and shown in the reader's zone, also where the clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs import local_times
from runs.errors import Invalid

ZONES = ("UTC", "Europe/London", "America/New_York", "Asia/Tokyo", "Asia/Kathmandu", "Australia/Lord_Howe", "America/Sao_Paulo")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("typed", "zone", "earliest", "latest"),
    [
        ("2026-07-02T14:02", "Europe/London", "2026-07-02T13:02", "2026-07-02T13:02"),
        ("2026-01-02T14:02", "Europe/London", "2026-01-02T14:02", "2026-01-02T14:02"),
        ("2026-07-02T14:02", "", "2026-07-02T14:02", "2026-07-02T14:02"),
        ("2026-07-02T14:02:09", "Asia/Kathmandu", "2026-07-02T08:17:09", "2026-07-02T08:17:09"),
        ("2026-07-02", "America/New_York", "2026-07-02T04:00", "2026-07-02T04:00"),
        ("2026-10-25T01:30", "Europe/London", "2026-10-25T00:30", "2026-10-25T01:30"),  # shown twice
        ("2026-03-29T01:30", "Europe/London", "2026-03-29T00:30", "2026-03-29T01:30"),  # never shown
        ("2026-10-25T01:30+01:00", "Europe/London", "2026-10-25T00:30", "2026-10-25T00:30"),
        ("2026-10-25T01:30 01:00", "Asia/Tokyo", "2026-10-25T00:30", "2026-10-25T00:30"),  # a plus sign that an address took for a space
        ("2026-10-25T01:30Z", "Asia/Tokyo", "2026-10-25T01:30", "2026-10-25T01:30"),
    ],
)
def test_what_is_typed_is_read_in_the_zone_that_came_with_it(typed: str, zone: str, earliest: str, latest: str):
    field = {"at": typed, "zone": zone}
    assert local_times.read(field, "at") == utc(earliest)
    assert local_times.read(field, "at", latest=True) == utc(latest)


@pytest.mark.parametrize("text", ["yesterday", "2026-13-01", "2026-03-02T25:00", "0001-01-01T00:00+14:00", "9999-12-31T23:59:59-12:00"])
def test_what_is_no_time_is_refused(text: str):
    with pytest.raises(Invalid, match="at: use a day and time"):
        local_times.read({"at": text}, "at")


@pytest.mark.parametrize("zone", ["Nowhere/Town", "../../etc/passwd", "/etc/passwd", "Europe", "x" * 300])
def test_what_is_no_zone_is_refused(zone: str):
    with pytest.raises(Invalid, match="zone: use the name of a time zone"):
        local_times.read({"at": "2026-03-02T14:02", "zone": zone}, "at")
    assert local_times.read({"zone": zone}, "at") is None, "it says nothing where there is no time"


MOMENTS = st.integers(1_577_836_800, 2_051_222_400).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))  # 2020 to 2034


@given(MOMENTS, MOMENTS, st.sampled_from(ZONES))
def test_a_form_that_is_sent_unchanged_means_the_same_moments(since: datetime, until: datetime, zone: str):
    round_trips(since, until, zone)


@given(st.integers(-4 * 3600, 4 * 3600), st.sampled_from(["2026-03-29T01:00", "2026-10-25T01:00"]))
def test_also_around_the_hour_at_which_clocks_are_changed(seconds: int, change: str):
    at = datetime.fromtimestamp(utc(change).timestamp() + seconds, UTC)
    round_trips(at, at, "Europe/London")


def round_trips(since: datetime, until: datetime, zone: str) -> None:
    shown = local_times.fields(since, until, zone)
    form = {"since": shown[0], "until": shown[1], "zone": shown[2]}
    assert local_times.read(form, "since") == since and local_times.read(form, "until", latest=True) == until
    assert shown[2] in (zone, "UTC")
    if shown[2] == zone:
        assert shown[0] == since.astimezone(ZoneInfo(zone)).replace(tzinfo=None).isoformat()


def test_the_form_shows_the_readers_zone_unless_a_moment_cannot_be_told_in_it():
    second_half_past_one = utc("2026-10-25T01:30")
    assert local_times.fields(utc("2026-07-02T13:02"), None, "Europe/London") == ("2026-07-02T14:02:00", "", "Europe/London")
    assert local_times.fields(second_half_past_one, None, "Europe/London") == ("2026-10-25T01:30:00", "", "UTC")
    assert local_times.fields(None, second_half_past_one, "Europe/London") == ("", "2026-10-25T01:30:00", "Europe/London")
    assert local_times.fields(None, None, "no such zone") == ("", "", "UTC")


@pytest.mark.parametrize(
    ("at", "zone", "said"),
    [
        ("2026-07-02T13:02", "Europe/London", "2 Jul 2026 14:02 BST"),
        ("2026-01-02T13:02:07", "Europe/London", "2 Jan 2026 13:02:07 GMT"),
        ("2026-10-25T00:30", "Europe/London", "25 Oct 2026 01:30 BST (+01:00)"),
        ("2026-10-25T01:30", "Europe/London", "25 Oct 2026 01:30 GMT (+00:00)"),
        ("2026-07-02T13:02", "America/Sao_Paulo", "2 Jul 2026 10:02 UTC-03:00"),
        ("2026-07-02T13:02", "UTC", "2 Jul 2026 13:02 UTC"),
    ],
)
def test_a_moment_in_words_names_its_zone_and_near_a_change_its_offset(at: str, zone: str, said: str):
    assert local_times.words(utc(at), zone) == said
