from hypothesis import given
from hypothesis import strategies as st

from pgtrial.engine.sampler_schedule import Ticks


def test_nothing_is_due_before_the_deadline() -> None:
    ticks = Ticks(start=100.0, interval=1.0)

    assert not ticks.take(99.9)
    assert ticks.take(100.0)
    assert not ticks.take(100.5)
    assert ticks.deadline == 101.0


def test_tick_late_by_more_than_half_an_interval_is_skipped() -> None:
    ticks = Ticks(start=100.0, interval=1.0)

    assert not ticks.take(100.6)
    assert (ticks.taken, ticks.skipped, ticks.deadline) == (0, 1, 101.0)


def test_ticks_that_passed_in_a_pause_are_not_made_up() -> None:
    ticks = Ticks(start=100.0, interval=1.0)
    assert ticks.take(100.0)

    assert ticks.take(105.2)
    assert (ticks.taken, ticks.skipped, ticks.deadline) == (2, 4, 106.0)


@given(st.lists(st.floats(0, 7, allow_nan=False), min_size=1, max_size=50), st.sampled_from([0.1, 0.25, 1.0]))
def test_lateness_never_adds_up(pauses: list[float], interval: float) -> None:
    ticks = Ticks(start=10.0, interval=interval)
    now = 10.0
    for pause in pauses:
        now += pause
        taken = ticks.take(now)
        lateness = now - (ticks.deadline - interval)
        assert not taken or -1e-9 <= lateness <= interval / 2 + 1e-9
        assert ticks.deadline > now - 1e-9
        assert ticks.taken + ticks.skipped == ticks.next
