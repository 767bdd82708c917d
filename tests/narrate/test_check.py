"""The rules of the check one by one, on facts of a single number, and on texts of every kind."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.narrate.check import Known, check_text
from pgtrial.narrate.quantity import Number, Quantity

WORDS = (
    "faster",
    "slower",
    "p95",
    "latency",
    "throughput",
    "165 %",
    "−3",
    "4GB",
    "than",
    "by",
    "(",
    ")",
    "|",
    "\n",
    ".",
)


def change(ratio: float, *, metric: str = "throughput", better: str = "higher", arm: str = "new") -> Known:
    """One effect of an arm against the control “old”."""
    number = Number(
        value=ratio,
        quantity=Quantity.CHANGE,
        shown=f"{ratio - 1:+.1%}",
        metric=metric,
        better=better,
        arm=arm,
        is_signed=True,
    )
    return Known(numbers=(number,), arms=frozenset({"old_1", arm}), control="old_1", names=frozenset({"old_1", arm}))


def marks(text: str, known: Known) -> list[str]:
    return [mark.reason for mark in check_text(text, known).marks]


@given(
    ratio=st.floats(1.05, 9.9),
    digits=st.integers(0, 2),
)
def test_every_rounding_of_a_change_passes(ratio: float, digits: int) -> None:
    written = f"{(ratio - 1) * 100:.{digits}f}"

    assert marks(f"Throughput rose by {written} %.", change(ratio)) == []
    assert marks(f"Throughput fell by {written} %.", change(ratio)) != []


@given(ratio=st.floats(1.5, 9.9), off=st.sampled_from([-0.2, -0.1, 0.1, 0.2]))
def test_a_change_that_is_off_by_a_tenth_is_marked(ratio: float, off: float) -> None:
    written = f"{(ratio - 1) * (1 + off) * 100:.1f}"

    assert marks(f"Throughput rose by {written} %.", change(ratio)) != []


@given(ratio=st.floats(0.05, 0.95))
def test_a_fall_of_a_latency_is_a_gain(ratio: float) -> None:
    known, written = change(ratio, metric="latency p95", better="lower"), f"{(1 - ratio) * 100:.1f} %"

    assert marks(f"Latency fell by {written}.", known) == []
    assert marks(f"Latency improved by {written}.", known) == []
    assert marks(f"Latency is {written} worse.", known) != []
    assert marks(f"Latency is {written} higher.", known) != []


@given(ratio=st.floats(1.3, 9))
def test_the_comparison_may_be_turned_round_if_the_number_is(ratio: float) -> None:
    known = change(ratio)
    inverse = f"{(1 - 1 / ratio) * 100:.1f} %"

    assert marks(f"old_1 is {inverse} slower than new.", known) == []
    assert marks(f"old_1 is {inverse} faster than new.", known) != []


@given(text=st.one_of(st.text(), st.lists(st.sampled_from(WORDS)).map(" ".join)))
def test_any_text_can_be_checked_and_marks_lie_inside_it(text: str) -> None:
    checked = check_text(text, change(2.65))

    assert checked.text == text
    assert len(checked.marks) <= checked.count
    places = [(mark.mention.start, mark.mention.end) for mark in checked.marks]
    assert places == sorted(places)
    assert all(text[start:end] == mark.mention.text for (start, end), mark in zip(places, checked.marks, strict=True))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Throughput fell by 165 %.", "wrong sign or direction; the facts say +165.0%"),
        ("Throughput rose by 165 ms.", "wrong unit; the facts say +165.0%"),
        ("Latency rose by 165 %.", "in the facts this is about throughput"),
        ("Throughput rose by 44 %.", "not in the facts"),
        ("See [F7].", "there is no such fact"),
        ("It was PostgreSQL 17.", "not a version of the facts"),
        ("It was on 2026-01-20.", "not a date of the facts"),
    ],
)
def test_a_mark_says_what_is_wrong(text: str, reason: str) -> None:
    assert marks(text, change(2.65)) == [reason]


def test_without_facts_every_number_is_marked() -> None:
    assert len(marks("It is 5 % faster with 6 blocks in 3 ms.", Known(numbers=()))) == 3
