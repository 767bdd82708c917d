import pytest

from pgtrial.narrate.mentions import find_mentions
from pgtrial.narrate.quantity import Quantity

Q = Quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("165 %", [(Q.PERCENT, 1.65, 0)]),
        ("+165.2 %", [(Q.PERCENT, 1.652, 1)]),
        ("a change of −58.8%", [(Q.PERCENT, 0.588, -1)]),
        ("minus 5 percent", [(Q.PERCENT, 0.05, -1)]),
        ("±3 %", [(Q.PERCENT, 0.03, 0)]),
        ("5 percentage points", [(Q.POINTS, 0.05, 0)]),
        ("2 pp", [(Q.POINTS, 0.02, 0)]),
        ("1.42 ms", [(Q.SECONDS, 0.00142, 0)]),
        ("340 µs", [(Q.SECONDS, 0.00034, 0)]),
        ("30s", [(Q.SECONDS, 30, 0)]),
        ("3 min 20 s", [(Q.SECONDS, 200, 0)]),
        ("2 hours and 5 minutes", [(Q.SECONDS, 7500, 0)]),
        ("90 s and 30 s", [(Q.SECONDS, 90, 0), (Q.SECONDS, 30, 0)]),
        ("4GB", [(Q.BYTES, 4 * 1024**3, 0)]),
        ("12.3 MB/s", [(Q.BYTE_RATE, 12.3 * 1024**2, 0)]),
        ("2.37 k tps", [(Q.RATE, 2370, 0)]),
        ("2,400 transactions per second", [(Q.RATE, 2400, 0)]),
        ("3.1 million transactions per second", [(Q.RATE, 3.1e6, 0)]),
        ("600 per minute", [(Q.RATE, 10, 0)]),
        ("2.65 times", [(Q.TIMES, 2.65, 0)]),
        ("× 12.3", [(Q.TIMES, 12.3, 0)]),
        ("a factor of 2.65", [(Q.TIMES, 2.65, 0)]),
        ("2.7x faster", [(Q.TIMES, 2.7, 0)]),
        ("doubled", [(Q.TIMES, 2, 0)]),
        ("twice as fast", [(Q.TIMES, 2, 0)]),
        ("three times", [(Q.TIMES, 3, 0)]),
        ("sixty-two percent", [(Q.PERCENT, 0.62, 0)]),
        ("one hundred and sixty-five percent", [(Q.PERCENT, 1.65, 0)]),
        ("6 blocks", [(Q.COUNT, 6, 0)]),
        ("six complete blocks", [(Q.COUNT, 6, 0)]),
        ("6 of 12 blocks", [(Q.COUNT, 6, 0), (Q.COUNT, 12, 0)]),
        ("4, 8 and 16 clients", [(Q.COUNT, 4, 0), (Q.COUNT, 8, 0), (Q.COUNT, 16, 0)]),
        ("4-16 clients", [(Q.COUNT, 4, 0), (Q.COUNT, 16, 0)]),
        ("158–173 %", [(Q.PERCENT, 1.58, 0), (Q.PERCENT, 1.73, 0)]),
        ("between 158 and 173 percent", [(Q.PERCENT, 1.58, 0), (Q.PERCENT, 1.73, 0)]),
        ("−62 to −60 %", [(Q.PERCENT, 0.62, -1), (Q.PERCENT, 0.60, -1)]),
        ("2.4 to 2.6 k tps", [(Q.RATE, 2400, 0), (Q.RATE, 2600, 0)]),
        ("p = 0.03", [(Q.P_VALUE, 0.03, 0)]),
        ("a p-value of 6.2e-07", [(Q.P_VALUE, 6.2e-7, 0)]),
        ("a probability of less than 0.0001", [(Q.P_VALUE, 0.0001, 0)]),
        ("p < 3×10⁻⁷", [(Q.P_VALUE, 3e-7, 0)]),
        ("p95 latency", [(Q.PERCENTILE, 95, 0)]),
        ("the 99.9th percentile", [(Q.PERCENTILE, 99.9, 0)]),
        ("run 3", [(Q.NUMBERED, 3, 0)]),
        ("runs 3 and 4", [(Q.NUMBERED, 3, 0), (Q.NUMBERED, 4, 0)]),
        ("in block 2, 165 % more", [(Q.NUMBERED, 2, 0), (Q.PERCENT, 1.65, 0)]),
        (".5 ms", [(Q.SECONDS, 0.0005, 0)]),
    ],
)
def test_amounts_are_read_with_unit_and_sign(text: str, expected: list[tuple[Quantity, float, int]]) -> None:
    found = [(each.quantity, each.value, each.sign) for each in find_mentions(text)]

    assert [(quantity, sign) for quantity, _, sign in found] == [(quantity, sign) for quantity, _, sign in expected]
    assert [value for _, value, _ in found] == pytest.approx([value for _, value, _ in expected])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("PostgreSQL 15.14.", [(Q.VERSION, "15.14")]),
        ("Linux 6.1.0-18-amd64", [(Q.VERSION, "6.1.0-18-amd64")]),
        ("2026-01-20", [(Q.DATE, "2026-01-20")]),
        ("on 20 January 2026", [(Q.DATE, "2026-01-20")]),
        ("January 20th, 2026", [(Q.DATE, "2026-01-20")]),
        ("in January 2026", [(Q.DATE, "2026-01")]),
        ("at 9:06", [(Q.DATE, "09:06")]),
        ("see [F12]", [(Q.FACT, "F12")]),
    ],
)
def test_labels_are_read_as_written(text: str, expected: list[tuple[Quantity, str]]) -> None:
    assert [(each.quantity, each.written) for each in find_mentions(text)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "1. First\n2) Second\n- 3. Third\n## 4. Fourth",
        "(1) this, (2) that and (3) the rest",
        "Step 3 of the plan, section 2",
        "the 2nd run and the 21st",
        "on vda1 and nvme0n1, with utf8 and md5",
        "the one that it is about, one by one",
        "ten-year-old habits die hard",
        "found four times in five",
    ],
)
def test_what_is_no_amount_is_left_alone(text: str) -> None:
    assert find_mentions(text) == ()


@pytest.mark.parametrize("name", ["4GB", "16", "pg15-fast", "wal_8k", "2GB_wm"])
def test_names_with_digits_are_no_numbers(name: str) -> None:
    assert find_mentions(f"{name} beats the control, and “{name}” is it.", names=[name]) == ()


def test_a_number_that_begins_like_a_name_is_still_one() -> None:
    found = find_mentions("16 % faster than 16", names=["16"])

    assert [(each.quantity, each.value) for each in found] == [(Q.PERCENT, 0.16)]


@pytest.mark.parametrize(
    ("text", "step"),
    [("2.65 ms", 1e-5), ("2.6 ms", 1e-4), ("3 ms", 1e-3), ("2400 tps", 100), ("200 tps", 10), ("165 tps", 1)],
)
def test_rounding_is_as_written_with_two_digits_at_least(text: str, step: float) -> None:
    (found,) = find_mentions(text)

    assert found.step == pytest.approx(step)


@pytest.mark.parametrize(("text", "relation"), [("more than 5 ms", ">"), ("almost 5 ms", "<"), ("about 5 ms", "")])
def test_qualifiers_are_read(text: str, relation: str) -> None:
    (found,) = find_mentions(text)

    assert found.relation == relation


def test_places_are_those_of_the_text() -> None:
    text = "Throughput: +165 %; p95: −59 %."

    assert [text[each.start : each.end] for each in find_mentions(text)] == ["+165 %", "p95", "−59 %"]
