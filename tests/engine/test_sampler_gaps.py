from hypothesis import given
from hypothesis import strategies as st

from pgtrial.engine.sampler.control import Gap, find_gaps, is_silent


def test_two_missed_ticks_are_no_gap_yet() -> None:
    assert find_gaps({"proc_stat": [0.0, 1.0, 3.4, 4.0]}, end=5.0, interval=1.0) == ()


def test_more_than_a_reading_missed_and_half_an_interval_is_a_gap() -> None:
    """Readings lie in the first fifth of their seconds: with one missed, two are up to 2.2 intervals apart."""
    assert find_gaps({"proc_stat": [0.0, 1.0, 3.69]}, end=4.0, interval=1.0) == ()
    assert find_gaps({"proc_stat": [0.0, 1.0, 3.75]}, end=4.0, interval=1.0) == (
        Gap(source="proc_stat", start=1.0, end=3.75),
    )


def test_source_that_stopped_has_a_gap_until_the_end() -> None:
    assert find_gaps({"a": [0.0, 1.0, 2.0, 3.0], "b": [0.1]}, end=4.0, interval=1.0) == (
        Gap(source="b", start=0.1, end=4.0),
    )


def test_source_without_any_reading_is_one_gap() -> None:
    assert find_gaps({"a": [0.0, 2.0, 4.0], "b": []}, end=4.0, interval=1.0) == (Gap(source="b", start=0.0, end=4.0),)


@given(st.lists(st.floats(0.01, 2.5), max_size=50), st.floats(0.1, 10))
def test_source_that_is_read_often_enough_has_no_gap(steps: list[float], interval: float) -> None:
    times = [1000.0]
    for step in steps:
        times.append(times[-1] + 0.99 * step * interval)

    assert find_gaps({"a": times}, end=times[-1], interval=interval) == ()


def test_silence_is_three_ticks_in_a_row_without_an_answer() -> None:
    answered = [0.0, 1.0, 5.0, 6.0]
    assert is_silent(answered, [2.0, 3.0, 4.0])
    assert not is_silent(answered, [2.0, 3.0])
    assert not is_silent(answered, [0.5, 2.0, 3.0, 5.5, 7.0])
    assert is_silent([], [1.0, 2.0, 3.0])
    assert not is_silent([], [])
