from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.store.server_log.entry import find_zone, format_time, parse_time

BERLIN = ZoneInfo("Europe/Berlin")


def utc(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-11-21 22:42:31.123 UTC", None, utc(2026, 11, 21, 22, 42, 31) + 0.123),
        ("2026-11-21 22:42:31 GMT", None, utc(2026, 11, 21, 22, 42, 31)),
        ("2026-07-21 22:42:31.500 CEST", BERLIN, utc(2026, 7, 21, 20, 42, 31) + 0.5),
        ("2026-11-21 22:42:31.500 +0545", None, utc(2026, 11, 21, 16, 57, 31) + 0.5),
        ("2026-11-21 22:42:31 -03", ZoneInfo("America/Sao_Paulo"), utc(2026, 11, 22, 1, 42, 31)),
        ("2026-11-21 22:42:31 <+03>", None, utc(2026, 11, 21, 19, 42, 31)),
    ],
)
def test_a_time_is_read_in_its_zone(text, zone, expected):
    assert parse_time(text, zone) == pytest.approx(expected, abs=1e-6)


def test_the_abbreviation_tells_the_hour_that_comes_twice():
    summer = parse_time("2026-10-25 02:30:00.000 CEST", BERLIN)
    winter = parse_time("2026-10-25 02:30:00.000 CET", BERLIN)

    assert (summer, winter) == (utc(2026, 10, 25, 0, 30), utc(2026, 10, 25, 1, 30))


def test_an_abbreviation_that_the_zone_does_not_use_is_read_by_the_zone():
    assert parse_time("2026-07-21 22:00:00 LMT", BERLIN) == utc(2026, 7, 21, 20)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-21 22:42:31 UTC", "2026-11-21 22:42:31 CET"])
def test_what_is_no_time_or_of_an_unknown_zone_is_none(text):
    assert parse_time(text, None) is None


@pytest.mark.parametrize("name", ["No/Such_Zone", "<+03>-3", "../../etc/passwd", ""])
def test_a_zone_that_is_not_known_is_none(name):
    assert find_zone(name) is None


def test_universal_time_is_known_without_a_database_of_zones():
    assert find_zone("UTC") is UTC
    assert find_zone("GMT") is UTC


@given(st.integers(min_value=0, max_value=4_000_000_000_000))
def test_a_time_that_is_written_is_read_back(milliseconds):
    t = milliseconds / 1000

    assert parse_time(format_time(t), None) == pytest.approx(t, abs=1e-4)
