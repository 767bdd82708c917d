"""Machines whose noise is known. A noise is a pure function of (experiments, ticks, generator)."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from gym.machine import OWN_NOISE, TICK, Noise, Stream
from gym.recording import LOADS, read
from gym.schedule import RUN, WARM_UP

AMPLITUDE = 0.1  # standard deviation of what changes slowly, log speed
_STALLED = 0.1  # of its speed an arm keeps while it stalls
_WORST = -0.05  # log speed below which an attempt fails, where failures tell something
_BLOCK_NOISE = OWN_NOISE * math.sqrt(2 / RUN)  # of the ratio of two runs
# s of a recording that stay together, on average
_STRETCHES = {"hours": 3600.0, "more-hours": 3600.0}
_STRETCH = 120.0  # of the others


def white(experiments: int, ticks: int, _: np.random.Generator) -> NDArray[np.float64]:
    """Nothing but each tick's own noise, which every machine has."""
    return np.zeros((experiments, ticks))


def autoregressive(phi: float) -> Noise:
    """AR(1) with the coefficient ``phi`` from one second to the next."""

    def noise(experiments: int, ticks: int, rng: np.random.Generator) -> NDArray[np.float64]:
        return np.asarray(AMPLITUDE * correlated(float(phi**TICK), experiments, ticks, rng), dtype=np.float64)

    return noise


def correlated(phi: float, series: int, points: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """AR(1) with standard deviation 1 and the coefficient ``phi`` from point to point: (series, points)."""
    draws = rng.normal(0, np.sqrt(1 - phi**2), (series, points))
    draws[:, 0] = rng.normal(0, 1, series)
    return np.asarray(lfilter([1.0], [1.0, -phi], draws, axis=1), dtype=np.float64)


def bursts(experiments: int, ticks: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """A neighbour that takes half of the machine, comes every 40 s and stays for 10 s on average."""
    return -math.log(2) * _switching(experiments, ticks, rng, away=40.0, here=10.0)


def stalls(*, every: float, lasts: float) -> Noise:
    """An arm that keeps a tenth of its speed for a while, and makes up for it: log speed, 1 on average as a factor.

    The average is that of what is done in the long run, the same for whatever schedule; ``every`` and ``lasts`` are
    means, in seconds.
    """
    average = 1 - lasts / every * (1 - _STALLED)

    def noise(experiments: int, ticks: int, rng: np.random.Generator) -> NDArray[np.float64]:
        stalled = _switching(experiments, ticks, rng, away=every - lasts, here=lasts)
        return np.asarray(math.log(_STALLED) * stalled - math.log(average))

    return noise


def regimes(experiments: int, ticks: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Two speeds that differ by 15 %, each of which lasts a minute and a half on average."""
    return 0.15 * _switching(experiments, ticks, rng, away=90.0, here=90.0)


def drift(experiments: int, ticks: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """One per cent in 20 s, up or down, that comes and goes in waves: a triangle of ten minutes and a sine of 75 s."""
    time = np.arange(ticks) * TICK
    sign, places = rng.choice((-1.0, 1.0), (experiments, 1)), rng.random((2, experiments, 1))
    slow = np.abs((time / 600 + places[0]) % 1 - 0.5) * 600 * 0.01 / 20
    return np.asarray(sign * slow + AMPLITUDE * np.sin(2 * np.pi * (time / 75 + places[1])))


def long_memory(experiments: int, ticks: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Fractional Gaussian noise with Hurst's exponent 0.95: what was long ago is never quite forgotten.

    Source: Davies & Harte, Biometrika 74 (1987) 95-101.
    """
    lags = np.arange(ticks + 1, dtype=np.float64)
    power = 2 * 0.95
    covariance = ((lags + 1) ** power - 2 * lags**power + np.abs(lags - 1) ** power) / 2
    circle = np.concatenate([covariance, covariance[-2:0:-1]])
    scale = np.sqrt(np.maximum(np.fft.rfft(circle).real, 0))
    draws = np.fft.rfft(rng.normal(0, 1, (experiments, circle.size)), axis=1)
    return np.asarray(AMPLITUDE * np.fft.irfft(draws * scale, n=circle.size, axis=1)[:, :ticks])


def recorded(name: str) -> Noise:
    """A load's recording, from a random place on; after a while, the length of which is random too, from another one.

    Source: the stationary bootstrap of Politis & Romano, J. Am. Stat. Assoc. 89 (1994) 1303-1313.
    """

    def noise(experiments: int, ticks: int, rng: np.random.Generator) -> NDArray[np.float64]:
        source = _log_speeds(name)
        jumps = rng.random((experiments, ticks)) < TICK / _STRETCHES.get(name, _STRETCH)
        jumps[:, 0] = True
        since = np.where(jumps, np.arange(ticks), 0)
        np.maximum.accumulate(since, axis=1, out=since)
        begins = rng.integers(0, source.size, (experiments, ticks))
        place = np.take_along_axis(begins, since, axis=1) + np.arange(ticks) - since
        return np.asarray(source[place % source.size])

    return noise


@cache
def _log_speeds(name: str) -> NDArray[np.float64]:
    counts = np.maximum(read(name).counts, 1)
    return np.asarray(np.log(counts / counts.mean()))


def _switching(
    experiments: int, ticks: int, rng: np.random.Generator, *, away: float, here: float
) -> NDArray[np.float64]:
    """0 or 1, with exponential times between the changes, of these means in seconds."""
    draws = rng.random((experiments, ticks))
    state = draws[:, 0] < here / (away + here)
    found = np.empty((experiments, ticks))
    for tick in range(ticks):
        state = np.where(state, draws[:, tick] > TICK / here, draws[:, tick] < TICK / away)
        found[:, tick] = state
    return found


STREAMS = (
    Stream(name="white", text="each moment has noise of its own, and nothing else varies", noise=white),
    Stream(name="ar-0.5", text="AR(1), 0.5 from second to second", noise=autoregressive(0.5)),
    Stream(name="ar-0.9", text="AR(1), 0.9 from second to second", noise=autoregressive(0.9)),
    Stream(name="ar-0.99", text="AR(1), 0.99 from second to second", noise=autoregressive(0.99)),
    Stream(name="bursts", text="a neighbour takes half of the machine for 10 s, every 50 s on average", noise=bursts),
    Stream(name="regimes", text="two speeds, 15 % apart, for a minute and a half each on average", noise=regimes),
    Stream(name="drift", text="1 % in 20 s, up or down, and a wave of 75 s", noise=drift),
    Stream(name="place", text="the second half of a block is 5 % slower", noise=white, place=0.05),
    *(
        Stream(
            name=f"first-{deviations}",
            text=f"with a placebo, where there can be one; the first run of a block or its first slice is {share} % "
            f"slower, which is {deviations} SD of a block of runs",
            noise=white,
            first=_BLOCK_NOISE * deviations,
            placebo=True,
        )
        for deviations, share in ((1, "1.5"), (2, "3"))
    ),
    Stream(
        name="debt-short",
        text="the arm slows the machine by 5 %, which begins and ends within 0.1 s",
        noise=white,
        debt=0.05,
        fades=0.1,
    ),
    Stream(
        name="debt-long",
        text="the same, which begins and ends within 0.5 s: as long as what does not count of a slice",
        noise=white,
        debt=0.05,
        fades=0.5,
    ),
    Stream(
        name="debt-slow",
        text="the same, which begins and ends within 4 s: as long as four turns",
        noise=white,
        debt=0.05,
        fades=4.0,
    ),
    Stream(
        name="debt-late",
        text="the same, all of it from 2 s after the arm began until 2 s after it ended: some slices late",
        noise=white,
        debt=0.05,
        comes_after=2.0,
    ),
    Stream(
        name="debt-next",
        text="the same, all of it 10 s late: on the next run",
        noise=white,
        debt=0.05,
        comes_after=RUN + WARM_UP,
    ),
    Stream(
        name="failures",
        text="AR(1), 0.9; attempts of the arm with the change fail where the machine is slow",
        noise=autoregressive(0.9),
        fails_below=_WORST,
    ),
    Stream(
        name="stalls",
        text="the arm with the change has a tenth of its speed for 1 s, every 30 s on average, and makes up for it",
        noise=white,
        stalls=stalls(every=30.0, lasts=1.0),
    ),
    Stream(
        name="stalls-rare",
        text="the same, every 80 s on average: in one of ten runs",
        noise=white,
        stalls=stalls(every=80.0, lasts=1.0),
    ),
    Stream(name="long-memory", text="fractional Gaussian noise, Hurst's exponent 0.95", noise=long_memory),
    Stream(name="peeking", text="white; somebody looks after each run and stops at an answer", noise=white, peeks=True),
    *(
        Stream(name=f"recorded-{name}", text=load.text, noise=recorded(name), own_noise=0.0)
        for name, load in LOADS.items()
    ),
)
