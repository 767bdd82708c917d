import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.units import (
    format_bytes,
    format_change,
    format_count,
    format_duration,
    format_percent,
    format_share,
    format_times,
    parse_bytes,
    parse_duration,
    parse_ratio,
    read_count,
    tie_units,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250us", 250e-6), ("500ms", 0.5), ("30s", 30), ("10min", 600), ("2h", 7200), ("1d", 86400), (" 1.5 min ", 90)],
)
def test_durations_are_read_with_the_units_of_postgresql(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "size"), [("512B", 512), ("8kB", 8192), ("64MB", 2**26), ("2GB", 2**31), ("1TB", 2**40)]
)
def test_sizes_grow_in_steps_of_1024(text, size):
    assert parse_bytes(text) == size


@pytest.mark.parametrize(("text", "share"), [("3%", 0.03), ("0.5 %", 0.005), ("100%", 1)])
def test_percentages_are_read_as_shares(text, share):
    assert parse_ratio(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "10", "5m", "5 Min", "-3s", "3s 4s", "s", "1e999s", "nan s"])
def test_what_is_no_duration_is_an_error(text):
    with pytest.raises(ValueError, match=r"expected a time|too large"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["3", "three%", "-3%", "%", "1e999%"])
def test_what_is_no_percentage_is_an_error(text):
    with pytest.raises(ValueError, match=r"expected a percentage|too large"):
        parse_ratio(text)


def test_error_of_a_size_names_the_units():
    with pytest.raises(ValueError, match=r"B, kB, MB, GB, TB.*64 mb"):
        parse_bytes("64 mb")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1e-6, "1 µs"),
        (0.0009994, "999 µs"),
        (0.0009996, "1 ms"),
        (0.00142, "1.42 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1 s"),
        (12.3, "12.3 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (200, "3 min 20 s"),
        (3599.6, "1 h"),
        (7170, "2 h"),
        (7500, "2 h 5 min"),
        (-1.5, "−1.5 s"),
        (math.nan, "–"),
        (math.inf, "–"),
    ],
)
def test_durations_are_written_in_two_parts_at_most(seconds, text):
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (5, "5"),
        (950, "950"),
        (9.999, "10"),
        (99.96, "100"),
        (999.4, "999"),
        (999.6, "1 k"),
        (12345, "12.3 k"),
        (-12345, "−12.3 k"),
        (4.56e6, "4.56 M"),
        (7.8e9, "7.8 G"),
        (0.00123, "0.00123"),
        (math.nan, "–"),
    ],
)
def test_counts_have_three_digits_and_a_prefix(value, text):
    assert format_count(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (500, "500 B"),
        (1023, "1023 B"),
        (1023.9, "1 kB"),
        (8192, "8 kB"),
        (2**20 - 1, "1 MB"),
        (1.5 * 2**30, "1.5 GB"),
        (5 * 2**40, "5 TB"),
        (math.inf, "–"),
    ],
)
def test_sizes_are_written_with_the_units_of_postgresql(value, text):
    assert format_bytes(value) == text


@pytest.mark.parametrize(
    ("share", "plain", "signed"),
    [
        (0.123, "12.3 %", "+12.3 %"),
        (-0.123, "−12.3 %", "−12.3 %"),
        (0.0001, "0.0 %", "0.0 %"),
        (-0.0001, "0.0 %", "0.0 %"),
        (0.9996, "100 %", "+100 %"),
        (-1.5, "−150 %", "−150 %"),
        (math.nan, "–", "–"),
    ],
)
def test_percentages_have_no_negative_zero(share, plain, signed):
    assert format_percent(share) == plain
    assert format_percent(share, signed=True) == signed


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (15154, 16185, "+6.8 %"),
        (15154, 15095, "−0.4 %"),
        (178, 167, "−6.2 %"),
        (10128, 8452, "−16.5 %"),
        (55.36, 38.58, "−30.3 %"),
    ],
)
def test_change_is_relative_to_the_first(before, after, text):
    assert format_change(after / before) == text


@pytest.mark.parametrize(
    ("ratio", "change", "times"),
    [
        (1e-9, "−100 %", "less than 0.01 times"),
        (0.05, "−95.0 %", "0.05 times"),
        (2.34, "+134 %", "2.3 times"),
        (9.99, "+899 %", "10.0 times"),
        (10, "× 10", "10 times"),
        (12.34, "× 12.3", "12.3 times"),
        (1234.5, "× 1234", "1234 times"),
        (10_000, "× 10000", "10000 times"),
        (1.1e9, "more than × 10000", "more than 10000 times"),
        (math.inf, "more than × 10000", "more than 10000 times"),
    ],
)
def test_many_times_as_much_is_told_as_a_factor(ratio, change, times):
    assert format_change(ratio) == change
    assert format_times(ratio) == times


@pytest.mark.parametrize(
    ("ratio", "beside", "change"),
    [
        (8.94, (13.0,), "× 8.94"),
        (0.85, (None, 13.0), "× 0.85"),
        (13.0, (8.94,), "× 13"),
        (math.nan, (13.0,), "–"),
        (1.2e-4, (13.0,), "× 0.00012"),
        (6.41e-58, (13.0,), "less than × 0.0001"),
        (1.068, (0.9, 9.99, None), "+6.8 %"),
        (1.068, (math.nan,), "+6.8 %"),
    ],
)
def test_what_stands_beside_a_factor_is_a_factor(ratio, beside, change):
    assert format_change(ratio, *beside) == change


@pytest.mark.parametrize(("share", "text"), [(0.03, "3 %"), (0.025, "2.5 %"), (0.95, "95 %"), (0.999, "99.9 %")])
def test_chosen_shares_have_the_digits_that_were_given(share, text):
    assert format_share(share) == text


def test_a_number_is_tied_to_its_unit():
    text = "up to 4.2 % in 3 min 20 s and 8 kB, × 12.3 of 6 blocks"

    assert tie_units(text) == "up to 4.2_% in 3_min 20_s and 8_kB, ×_12.3 of 6 blocks".replace("_", "\u00a0")


@given(st.floats(min_value=1e-6, max_value=1e9))
def test_written_counts_are_within_half_a_percent(value):
    number, _, prefix = format_count(value).partition(" ")

    assert float(number) * {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}[prefix] == pytest.approx(value, rel=0.0051)
    assert "e" not in number


@given(st.floats(min_value=1, max_value=2**45))
def test_written_sizes_can_be_read_again(value):
    assert parse_bytes(format_bytes(value)) == pytest.approx(value, rel=0.0051)


@given(st.floats(min_value=1e-6, max_value=59.9))
def test_written_short_durations_can_be_read_again(seconds):
    assert parse_duration(format_duration(seconds).replace("µ", "u")) == pytest.approx(seconds, rel=0.0051)


@pytest.mark.parametrize(("text", "count"), [("0", 0), ("8", 8), ("18446744073709551615", 2**64 - 1)])
def test_a_count_is_read_as_a_counter_of_the_kernel_prints_it(text, count):
    assert read_count(text) == count


@pytest.mark.parametrize("text", ["", "-1", "1.0", " 8", "8\n", "\u00b2", "\u0663", "9" * 5000])
def test_what_no_counter_prints_is_no_count(text):
    assert read_count(text) is None
