"""Servers that nothing happens to, minute by minute: noise as a pure function of a generator; and what is planted.

WORLDS are those that the detector was built on. JUDGED are those that it is judged by: other parameters, other kinds of
bursts, written before the detector was changed for bursts, and never looked at while it was. Two of them were, and are
now "bursts-rare" and "bursts-staying" of the former; others, written before the change that they led to, took their
place.

The rule, written before the run: the contract is kept for bursts if, over all kinds of them in JUDGED together, the
whole 95 % interval of false alarms in 30 days is at most 1; and a single kind breaks it if its whole interval is above.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.signal import lfilter

from pgtrial.stats.alarms.blocks import Scale, Signal

Array = NDArray[np.float64]

DAY = 1440
LEARN_DAYS = 14
NOISE = 0.05  # standard deviation of a minute, of logarithms
COLUMNS = 6
SIGNALS = (
    Signal(name="throughput", scale=Scale.RATIO, columns=(0,)),
    Signal(name="waiting sessions", scale=Scale.RATIO, columns=(1,)),
    Signal(name="statements", scale=Scale.MIX, columns=(2, 3, 4, 5)),
)
_USUAL = np.array([1000.0, 8.0, 0.4, 0.3, 0.2, 0.1])
_SETTLING = 2000  # minutes before the first, for noise to be stationary
_RHYTHM = 0.3
_DRIFT = 0.1  # of a logarithm in 30 days
_MONTH = 30 * DAY


def _autoregressive(phi: float) -> Callable[[int, int, np.random.Generator], Array]:
    def noise(months: int, minutes: int, rng: np.random.Generator) -> Array:
        shocks = rng.normal(size=(months, COLUMNS, minutes + _SETTLING)) * np.sqrt(1 - phi**2)
        found: Array = lfilter([1.0], [1.0, -phi], shocks, axis=-1)[..., _SETTLING:]
        return found

    return noise


def _heavy(freedom: float, phi: float = 0.0) -> Callable[[int, int, np.random.Generator], Array]:
    """Student's t with more than two degrees of freedom, through a filter of memory."""

    def noise(months: int, minutes: int, rng: np.random.Generator) -> Array:
        shocks = rng.standard_t(freedom, size=(months, COLUMNS, minutes + _SETTLING))
        shocks *= np.sqrt((1 - phi**2) * (freedom - 2) / freedom)
        found: Array = lfilter([1.0], [1.0, -phi], shocks, axis=-1)[..., _SETTLING:]
        return found

    return noise


def _long_memory(order: float) -> Callable[[int, int, np.random.Generator], Array]:
    """Fractional differences: moving averages of weights that fade like t^(order - 1), as far as the series goes.

    Source: Hosking, Biometrika 68 (1981) 165-176.
    """

    def noise(months: int, minutes: int, rng: np.random.Generator) -> Array:
        length = 2 * minutes
        place = np.arange(1, length)
        weights = np.concatenate([[1.0], np.cumprod((place - 1 + order) / place)])
        size = next_fast_len(2 * length)
        spectrum = rfft(weights, size)
        found = np.empty((months, COLUMNS, minutes))
        for month in range(months):
            shocks = rng.normal(size=(COLUMNS, length))
            found[month] = irfft(rfft(shocks, size) * spectrum, size)[:, length - minutes : length]
        scaled: Array = found / np.sqrt((weights**2).sum())
        return scaled

    return noise


def rhythm_of(minutes: int, height: float) -> Array:
    """A day with a peak at eleven and another at three, steep from nine to ten, and weekends at half its height."""
    at = np.arange(minutes)
    hour = at % DAY / 60
    day = np.exp(-((hour - 11) ** 2) / 8) + 0.8 * np.exp(-((hour - 15) ** 2) / 10) + 0.3 * (np.clip(hour - 9, 0, 1))
    weekend = (at // DAY) % 7 >= 5
    found: Array = 2 * height * day * np.where(weekend, 0.5, 1.0)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Bursts:
    """``number`` a day in each column, or ``together`` in all, downwards in throughput and upwards elsewhere.

    Heights are exponential with mean ``height``, or ``lognormal`` with that median and that standard deviation of
    logarithms. They fade in ``minutes``, or are over at once after as many, which are exponential, where they ``stay``.
    """

    number: float
    height: float
    minutes: float
    together: bool = False
    stay: bool = False
    lognormal: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Regimes:
    """Noise is ``louder`` for ``hours`` on average, and then usual for as many, in each column by itself."""

    louder: float
    hours: float


def _burst(bursts: Bursts, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    drawn = (shape[0], 1, shape[2]) if bursts.together else shape
    begins = rng.random(drawn) < bursts.number / DAY
    if bursts.lognormal:
        sizes = bursts.height * rng.lognormal(0.0, bursts.lognormal, drawn)
    else:
        sizes = rng.exponential(bursts.height, drawn)
    heights = np.where(begins, sizes, 0.0)
    if bursts.stay:
        ends = heights.copy()
        lasting = np.maximum(1, rng.exponential(bursts.minutes, drawn)).astype(np.int64)
        for month, column, minute in np.argwhere(begins):
            end = minute + lasting[month, column, minute]
            if end < shape[2]:
                ends[month, column, end] -= sizes[month, column, minute]
        found: Array = np.cumsum(ends, axis=-1)
    else:
        found = lfilter([1.0], [1.0, -(1 - 1 / bursts.minutes)], heights, axis=-1)
    found = np.broadcast_to(found, shape).copy()
    found[:, 0] *= -1
    return found


def _louder(regimes: Regimes, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    switches = rng.random(shape) < 1 / (60 * regimes.hours)
    switches[..., 0] = rng.random(shape[:2]) < 0.5
    is_loud = np.cumsum(switches, axis=-1) % 2 == 1
    return np.where(is_loud, regimes.louder, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """``rhythm``: its height, and ``drift`` in 30 days, of logarithms."""

    noise: Callable[[int, int, np.random.Generator], Array]
    rhythm: float = 0.0
    drift: float = 0.0
    bursts: Bursts | None = None
    regimes: Regimes | None = None


WORLDS = {
    "white": World(noise=_autoregressive(0.0)),
    "ar-0.3": World(noise=_autoregressive(0.3)),
    "ar-0.6": World(noise=_autoregressive(0.6)),
    "ar-0.9": World(noise=_autoregressive(0.9)),
    "rhythm": World(noise=_autoregressive(0.6), rhythm=_RHYTHM),
    "drift": World(noise=_autoregressive(0.6), drift=_DRIFT),
    "bursts": World(noise=_autoregressive(0.6), bursts=Bursts(number=4, height=0.3, minutes=5)),
    "bursts-rare": World(noise=_autoregressive(0.5), bursts=Bursts(number=1, height=0.5, minutes=10)),
    "bursts-staying": World(noise=_autoregressive(0.5), bursts=Bursts(number=3, height=0.3, minutes=20, stay=True)),
    "heavy-tails": World(noise=_heavy(3)),
    "spikes": World(noise=_autoregressive(0.6), bursts=Bursts(number=10, height=0.2, minutes=1, lognormal=1)),
    "regimes": World(noise=_autoregressive(0.6), regimes=Regimes(louder=2, hours=3)),
    "long-memory": World(noise=_long_memory(0.3)),
}

JUDGED = {
    "judged: AR(1) 0.45": World(noise=_autoregressive(0.45)),
    "judged: AR(1) 0.8": World(noise=_autoregressive(0.8)),
    "judged: rhythm": World(noise=_autoregressive(0.5), rhythm=0.5),
    "judged: drift": World(noise=_autoregressive(0.5), drift=0.07),
    "judged: bursts, rare": World(noise=_autoregressive(0.4), bursts=Bursts(number=1.5, height=0.4, minutes=8)),
    "judged: bursts, long": World(noise=_autoregressive(0.6), bursts=Bursts(number=0.7, height=0.3, minutes=15)),
    "judged: bursts, many": World(noise=_autoregressive(0.5), bursts=Bursts(number=15, height=0.2, minutes=3)),
    "judged: bursts, together": World(
        noise=_autoregressive(0.5), bursts=Bursts(number=3, height=0.3, minutes=6, together=True)
    ),
    "judged: bursts, staying short": World(
        noise=_autoregressive(0.4), bursts=Bursts(number=5, height=0.3, minutes=12, stay=True)
    ),
    "judged: bursts, staying long": World(
        noise=_autoregressive(0.6), bursts=Bursts(number=2, height=0.4, minutes=35, stay=True)
    ),
    "judged: bursts, rhythm": World(
        noise=_autoregressive(0.7), rhythm=0.2, bursts=Bursts(number=6, height=0.4, minutes=5)
    ),
    "judged: t of 2.5": World(noise=_heavy(2.5, 0.4)),
    "judged: spikes": World(
        noise=_autoregressive(0.5), bursts=Bursts(number=5, height=0.3, minutes=1, lognormal=1.3, together=True)
    ),
    "judged: regimes": World(noise=_autoregressive(0.5), regimes=Regimes(louder=3, hours=6)),
    "judged: long memory 0.3": World(noise=_long_memory(0.3)),
    "judged: long memory 0.4": World(noise=_long_memory(0.4)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """From its minute on: throughput times ``level``, its noise times ``spread``, the first statement's calls times
    ``share``.
    """

    level: float = 1.0
    spread: float = 1.0
    share: float = 1.0


PLANTED = {
    "nothing": Planted(),
    "level -3 %": Planted(level=0.97),
    "level -5 %": Planted(level=0.95),
    "level -10 %": Planted(level=0.9),
    "level -30 %": Planted(level=0.7),
    "variance x 2": Planted(spread=2**0.5),
    "mix 40 to 45 %": Planted(share=0.45 / 0.55 / (0.4 / 0.6)),
}

# What an alarm should be about, and say: a logarithm of one share of four moves by three quarters of its ratio.
EFFECTS = {
    "level -3 %": ("throughput level 0", float(np.log(0.97))),
    "level -5 %": ("throughput level 0", float(np.log(0.95))),
    "level -10 %": ("throughput level 0", float(np.log(0.9))),
    "level -30 %": ("throughput level 0", float(np.log(0.7))),
    "variance x 2": ("throughput spread 0", float(np.log(2) / 2)),
    "mix 40 to 45 %": ("statements share 2", float(0.75 * np.log(PLANTED["mix 40 to 45 %"].share))),
}


def simulate(world: World, months: int, days: int, rng: np.random.Generator) -> Array:
    """(months, COLUMNS, minutes) of noise in standard deviations: learning time and ``days``, from a Monday's midnight.

    It is what ``values_of`` makes values of, with something planted or nothing.
    """
    return world.noise(months, (LEARN_DAYS + days) * DAY, rng)


def values_of(world: World, noise: Array, rng: np.random.Generator, *, planted: Planted, at: int = 0) -> Array:
    """Values of the minutes, with what is planted from minute ``at`` on."""
    logs = NOISE * noise
    minutes = noise.shape[-1]
    if world.regimes:
        logs *= _louder(world.regimes, logs.shape, rng)
    if world.bursts:
        logs += _burst(world.bursts, logs.shape, rng)
    logs[:, 0, at:] = logs[:, 0, at:] * planted.spread + np.log(planted.level)
    logs[:, 2, at:] += np.log(planted.share)
    if world.rhythm:
        logs += rhythm_of(minutes, world.rhythm) * np.array([1.0, 1.0, 0.3, -0.3, 0.0, 0.0])[:, None]
    if world.drift:
        logs += world.drift / _MONTH * np.arange(minutes) * rng.choice([-1.0, 1.0], size=(len(noise), COLUMNS, 1))
    values: Array = np.exp(logs) * _USUAL[:, None]
    values[:, 2:] /= values[:, 2:].sum(axis=1, keepdims=True)
    return values
