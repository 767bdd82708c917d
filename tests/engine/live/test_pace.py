import threading

import pytest

from pgtrial.engine.live.pace import INTERVAL, SHARE, Pulse, next_pause

PATIENCE = 30.0  # s, for what happens at once on any machine


@pytest.mark.parametrize("cost", [0.0, 0.0001, 0.0009])
def test_what_is_cheap_is_done_once_a_second(cost: float) -> None:
    assert next_pause(cost) == INTERVAL


@pytest.mark.parametrize("cost", [0.002, 0.05, 1.0])
def test_what_is_dear_is_done_so_seldom_that_it_is_a_thousandth(cost: float) -> None:
    assert cost / next_pause(cost) == pytest.approx(SHARE)


def test_a_pulse_beats_at_once_and_when_it_is_hurried() -> None:
    beaten = threading.Semaphore(0)
    pulse = Pulse(beaten.release, clock=lambda: 0.0)
    pulse.start()
    try:
        assert beaten.acquire(timeout=PATIENCE)
        for _ in range(3):
            pulse.hurry()
            assert beaten.acquire(timeout=PATIENCE)
    finally:
        pulse.stop()


def test_a_pulse_that_rests_for_long_is_stopped_at_once() -> None:
    beaten, costs = threading.Event(), iter([0.0, 1000.0])
    pulse = Pulse(beaten.set, clock=lambda: next(costs))
    pulse.start()
    assert beaten.wait(PATIENCE)
    pulse.stop()  # would last eleven days


def test_an_error_ends_the_pulse_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise RuntimeError("no terminal")

    pulse = Pulse(fail)
    pulse.start()
    pulse.stop()
    pulse.hurry()

    assert caplog.messages == ["the live view has ended"]
