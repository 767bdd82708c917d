import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgtrial.hosts.clock import HostClock

NOW = 1795233390.0  # s since the epoch
OFFSETS = st.floats(-1e5, 1e5)


def test_offsets_are_exact_where_they_were_measured() -> None:
    clock = HostClock(t_before=NOW, offset_before=5.0, t_after=NOW + 100, offset_after=5.1)

    assert clock.ours(NOW + 5.0) == NOW
    assert clock.ours(NOW + 105.1) == pytest.approx(NOW + 100, abs=1e-6)


def test_between_them_the_offset_grows_evenly() -> None:
    clock = HostClock(t_before=NOW, offset_before=-2.0, t_after=NOW + 100, offset_after=-1.0)

    assert clock.ours(NOW + 50 - 1.5) == pytest.approx(NOW + 50, abs=1e-6)


def test_clock_that_was_measured_once_has_a_constant_offset() -> None:
    assert HostClock.constant(3.5).ours(NOW) == NOW - 3.5
    assert HostClock(t_before=NOW, offset_before=1.0, t_after=NOW, offset_after=1.0).ours(NOW) == NOW - 1.0


@given(OFFSETS, st.floats(-0.01, 0.01), st.floats(1, 1e5), st.floats(0, 1))
def test_clocks_of_constant_rates_are_converted_exactly(
    offset: float, drift: float, length: float, place: float
) -> None:
    clock = HostClock(t_before=NOW, offset_before=offset, t_after=NOW + length, offset_after=offset + drift * length)
    x = NOW + place * length

    assert clock.ours(x + offset + drift * (x - NOW)) == pytest.approx(x, abs=1e-5)


@given(st.floats(0, 1), st.floats(0.1, 0.9), st.floats(1e-6, 5e-4))
def test_error_of_a_changing_rate_stays_below_its_bound(place: float, bend: float, rate: float) -> None:
    """A clock that runs fast until the bend and then as slow as is needed to end where the line does."""
    length = 600.0
    rise = rate * bend * length
    slow = rise / ((1 - bend) * length)
    clock = HostClock(t_before=NOW, offset_before=0.0, t_after=NOW + length, offset_after=0.0)
    x = place * length
    offset = rate * x if place <= bend else rise - slow * (x - bend * length)

    error = abs(clock.ours(NOW + x + offset) - (NOW + x))

    assert error <= max(rate, slow) * length / 2 + 1e-6
