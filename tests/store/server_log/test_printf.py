import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.store.server_log.formats import LINES, USAGE, WHOLE
from pgtrial.store.server_log.printf import compile_format, fill, without_lengths

_CONVERSIONS = re.compile(r"%(?:\d+\$)?(0?)(\d*)(?:\.(\d+))?[a-zA-Z]")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tuples: %lld removed\n", "tuples: %d removed"),
        ("size %lu", "size %u"),
        ("%1$ld.%2$03d s", "%1$d.%2$03d s"),
        ("(%.1f%%); %d", "(%.1f%%); %d"),
        ("%zu %hhd %jd %s", "%u %d %d %s"),
        ("%.lld broken", "%.d broken"),  # in a real catalogue, the Korean one of 15
    ],
)
def test_formats_are_known_without_their_length_modifiers(text, expected):
    assert without_lengths(text) == expected


def test_a_printed_text_is_taken_apart():
    match = compile_format('process %d acquired %s on "%s" after %d.%03d ms (%.1f%%)').fullmatch(
        'process 12 acquired ShareLock on "a, b" after 1000.045 ms (99.5%)'
    )

    assert match is not None
    assert [match[f"v{i}"] for i in range(1, 7)] == ["12", "ShareLock", "a, b", "1000", "045", "99.5"]


def test_arguments_in_another_order_keep_their_numbers():
    match = compile_format("进程%1$d在%4$d.%5$03d ms后获取在%3$s上的%2$s").fullmatch(
        "进程7在12.005 ms后获取在关系上的共享锁"
    )

    assert match is not None
    assert fill("process %d acquired %s on %s after %d.%03d ms", match.groupdict()) == (
        "process 7 acquired 共享锁 on 关系 after 12.005 ms"
    )


def test_an_argument_that_is_printed_twice_has_one_value():
    pattern = compile_format("%1$s is not %1$s")

    assert pattern.fullmatch("a is not a")
    assert not pattern.fullmatch("a is not b")


def test_percent_signs_and_padding_are_taken_as_they_are_printed():
    assert compile_format("%5d%% of %-5d|").fullmatch("   12% of 7    |")
    assert fill("%5d%% of %d", {"v1": "12", "v2": "7"}) == "12% of 7"


@given(st.sampled_from([*WHOLE, *LINES, USAGE.text]), st.data())
def test_what_is_printed_with_a_format_is_filled_into_it_again(text, data):
    """``fill`` is the inverse of the pattern: here with values as C prints them."""
    values = {}
    for i, match in enumerate(_CONVERSIONS.finditer(text.replace("%%", "")), start=1):
        letter = match[0][-1]
        if letter == "s":
            value = data.draw(st.text(st.characters(categories=["L", "N"]), max_size=8))
        elif letter == "f":
            value = f"{data.draw(st.floats(0, 1e6)):.{match[3]}f}"
        elif letter == "X":
            value = f"{data.draw(st.integers(0, 2**32)):X}"
        else:
            value = str(data.draw(st.integers(0, 999))).zfill(int(match[2] or 0))
        values[f"v{i}"] = value
    printed = fill(text, values)

    found = compile_format(text).fullmatch(printed)

    assert found is not None
    assert fill(text, found.groupdict()) == printed
