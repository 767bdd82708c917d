"""Pauses in arrivals: the likelihood ratio of each stretch as the oracle, and the rate of false alarms."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from pgtrial.stats.arrivals import FALSE_ALARM, SHORT, SLOWED, find_pause


def at_random(rng: np.random.Generator, rate: float, seconds: float) -> Any:
    return rng.uniform(0, seconds, rng.poisson(rate * seconds))


def by_the_clock(rng: np.random.Generator, rate: float, seconds: float) -> Any:
    return (rng.uniform() + np.arange(rate * seconds)) / rate


def in_batches(rng: np.random.Generator, rate: float, seconds: float) -> Any:
    return np.repeat(times := at_random(rng, rate / 20, seconds), rng.geometric(1 / 20, times.size))


def by_their_clocks(rng: np.random.Generator, rate: float, seconds: float) -> Any:
    """Eight clients that began together, each a little later than the one before."""
    own = np.arange(0, seconds, 8 / rate) + rng.uniform(0, 8 / rate)
    return (own[:, None] + np.arange(8) * 0.0003).ravel()


def ratios(times: Any, *, rate: float) -> Iterator[tuple[float, int]]:
    """Of each stretch of long gaps, at its last one, and of each of the two paces."""
    gaps = np.diff(times)
    beyond = gaps[gaps > SHORT / rate] - SHORT / rate
    gains = beyond / beyond.mean()
    for slowed in SLOWED:
        for first in range(gains.size):
            for last in range(first, gains.size):
                stretch = gains[first : last + 1]
                yield (1 - slowed) * stretch.sum() + (stretch.size - 1) * math.log(slowed), beyond.size


@pytest.mark.parametrize("stops", [0.5, 1.0, 2.0, 4.0])
def test_a_pause_is_where_some_stretch_is_so_unlikely(stops: float) -> None:
    rng = np.random.default_rng(int(stops * 10))
    sent = np.sort(at_random(rng, 10.0, 20.0))
    times = np.where((sent > 8) & (sent < 8 + stops), 8 + stops, sent)
    largest, count = max(ratios(np.concatenate(([0.0], times)), rate=10.0))

    found = find_pause(rng.permutation(times), begun=0.0, rate=10.0)

    assert (found is not None) == (largest > math.log(2 * count / FALSE_ALARM))
    if found is not None:
        assert found.ended == 8 + stops
        assert found.begun <= 8.2
        assert found.arrivals == np.sum((times > found.begun) & (times < found.ended))


@pytest.mark.parametrize("arrivals", [at_random, by_the_clock, in_batches, by_their_clocks])
@pytest.mark.parametrize(("rate", "seconds", "series"), [(1.0, 60.0, 1000), (20.0, 30.0, 1000), (300.0, 10.0, 300)])
def test_what_chance_explains_is_no_pause(
    arrivals: Callable[..., Any], rate: float, seconds: float, series: int
) -> None:
    """With a hundred times the probability that it has there is enough to count."""
    rng = np.random.default_rng(3)
    drawn = [arrivals(rng, rate, seconds) for _ in range(series)]

    alarms = [find_pause(each, begun=0.0, rate=rate, clients=8, false_alarm=0.05) is not None for each in drawn]

    assert np.mean(alarms) <= 0.05
    assert not any(find_pause(each, begun=0.0, rate=rate, clients=8) for each in drawn)


@pytest.mark.parametrize(
    ("arrivals", "rate", "stops"),
    [(at_random, 20.0, 1.4), (by_the_clock, 20.0, 0.9), (at_random, 300.0, 0.12), (by_the_clock, 300.0, 0.08)],
)
def test_a_standstill_is_found(arrivals: Callable[..., Any], rate: float, stops: float) -> None:
    rng = np.random.default_rng(4)
    drawn = [np.sort(arrivals(rng, rate, 20.0)) for _ in range(100)]
    late = [np.where((each > 7) & (each < 7 + stops), 7 + stops, each) for each in drawn]

    found = [find_pause(each, begun=0.0, rate=rate, clients=8) for each in late]

    assert np.mean([each is not None for each in found]) >= 0.9


def test_a_server_that_is_slow_for_a_while_is_found() -> None:
    """One client that sends by the clock cannot send while it waits, and catches up."""
    due = np.arange(3000) / 100
    sent: list[float] = []
    free = 0.0
    for time in due:
        sent.append(max(time, free))
        free = sent[-1] + (0.02 if 10 < time < 13 else 0.004)

    found = find_pause(sent, begun=0.0, rate=100.0)

    assert found is not None
    assert 9.9 < found.begun < 10.2
    assert 50 < found.arrivals < 400


def test_requests_of_which_nobody_knows_when_they_were_due_may_have_been_due_in_a_pause() -> None:
    times = [each / 100 for each in range(3000) if not 1000 <= each < 1100]

    assert find_pause(times, begun=0.0, rate=100.0, unseen=1) is not None
    assert find_pause(times, begun=0.0, rate=100.0, unseen=100) is None


@pytest.mark.parametrize("times", [[], [1.0], [1.0, 1.0, 1.0]])
def test_few_arrivals_have_no_pause(times: list[float]) -> None:
    assert find_pause(times, begun=0.0, rate=100.0) is None
