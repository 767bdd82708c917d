from dataclasses import dataclass, field

import pytest

from pgtrial.hosts import clock
from pgtrial.hosts.clock import ClockOffset, measure_offset
from pgtrial.hosts.local import LocalHost


@dataclass
class FarHost:
    """Its clock is ahead by ``ahead``; a round trip takes each of ``trips``, all of it on the way there."""

    ahead: float
    trips: list[float]
    name: str = "ssh://far"
    now: float = 1000.0
    asked: list[float] = field(default_factory=list)

    @property
    def ops(self) -> "FarHost":
        return self

    def clock(self) -> tuple[float, float]:
        self.now += self.trips[len(self.asked)]
        self.asked.append(self.now)
        return self.now + self.ahead, 0.0


def measure(monkeypatch: pytest.MonkeyPatch, host: FarHost) -> ClockOffset:
    monkeypatch.setattr(clock.time, "time", lambda: host.now)
    monkeypatch.setattr(clock.time, "monotonic", lambda: host.now)
    return measure_offset(host, rounds=len(host.trips))


def test_quickest_round_trip_counts_and_bounds_the_error(monkeypatch):
    host = FarHost(ahead=5.0, trips=[0.9, 0.02, 0.5])

    measured = measure(monkeypatch, host)

    # The answer came at the end of a trip of 0.02 s, so the middle is 0.01 s too early.
    assert measured.offset == pytest.approx(5.01)
    assert measured.error == pytest.approx(0.01)


@pytest.mark.parametrize("ahead", [-3600.0, -0.5, 0.0, 0.5])
def test_true_offset_lies_within_the_error(monkeypatch, ahead):
    measured = measure(monkeypatch, FarHost(ahead=ahead, trips=[0.3, 0.2]))

    assert abs(measured.offset - ahead) <= measured.error + 1e-9


def test_own_machine_has_no_offset():
    assert measure_offset(LocalHost()) == ClockOffset(offset=0.0, error=0.0)
