"""Servers that nothing happens to, minute by minute: noise as a pure function of a generator; and what is planted."""

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
_MEMORY = 0.3
_RHYTHM = 0.3
_DRIFT = 0.1 / (30 * DAY)  # of a logarithm per minute
_BURSTS = 4 / DAY  # beginning per minute
_BURST_MINUTES = 5.0


def _autoregressive(phi: float) -> Callable[[int, int, np.random.Generator], Array]:
    def noise(months: int, minutes: int, rng: np.random.Generator) -> Array:
        shocks = rng.normal(size=(months, COLUMNS, minutes + _SETTLING)) * np.sqrt(1 - phi**2)
        found: Array = lfilter([1.0], [1.0, -phi], shocks, axis=-1)[..., _SETTLING:]
        return found

    return noise


def _heavy(months: int, minutes: int, rng: np.random.Generator) -> Array:
    found: Array = rng.standard_t(3, size=(months, COLUMNS, minutes)) / np.sqrt(3)
    return found


def _long_memory(months: int, minutes: int, rng: np.random.Generator) -> Array:
    """Fractional differences of order 0.3: moving averages of weights that fade like t^-0.7, as far as the series goes.

    Source: Hosking, Biometrika 68 (1981) 165-176.
    """
    length = 2 * minutes
    place = np.arange(1, length)
    weights = np.concatenate([[1.0], np.cumprod((place - 1 + _MEMORY) / place)])
    size = next_fast_len(2 * length)
    spectrum = rfft(weights, size)
    found = np.empty((months, COLUMNS, minutes))
    for month in range(months):
        shocks = rng.normal(size=(COLUMNS, length))
        found[month] = irfft(rfft(shocks, size) * spectrum, size)[:, length - minutes : length]
    scaled: Array = found / np.sqrt((weights**2).sum())
    return scaled


def _rhythm(minutes: int) -> Array:
    """A day with a peak at eleven and another at three, steep from nine to ten, and weekends at half its height."""
    at = np.arange(minutes)
    hour = at % DAY / 60
    day = np.exp(-((hour - 11) ** 2) / 8) + 0.8 * np.exp(-((hour - 15) ** 2) / 10) + 0.3 * (np.clip(hour - 9, 0, 1))
    weekend = (at // DAY) % 7 >= 5
    found: Array = 2 * _RHYTHM * day * np.where(weekend, 0.5, 1.0)
    return found


def _burst(noise: Array, rng: np.random.Generator) -> Array:
    """Exponential heights of 30 % on average, downwards in throughput and upwards elsewhere."""
    begins = rng.random(noise.shape) < _BURSTS
    heights = np.where(begins, rng.exponential(0.3, noise.shape), 0.0)
    fades = 1 - 1 / _BURST_MINUTES
    found: Array = lfilter([1.0], [1.0, -fades], heights, axis=-1)
    found[:, 0] *= -1
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    noise: Callable[[int, int, np.random.Generator], Array]
    rhythm: bool = False
    drift: bool = False
    bursts: bool = False


WORLDS = {
    "white": World(noise=_autoregressive(0.0)),
    "ar-0.3": World(noise=_autoregressive(0.3)),
    "ar-0.6": World(noise=_autoregressive(0.6)),
    "ar-0.9": World(noise=_autoregressive(0.9)),
    "rhythm": World(noise=_autoregressive(0.6), rhythm=True),
    "drift": World(noise=_autoregressive(0.6), drift=True),
    "bursts": World(noise=_autoregressive(0.6), bursts=True),
    "heavy-tails": World(noise=_heavy),
    "long-memory": World(noise=_long_memory),
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
    if world.bursts:
        logs += _burst(logs, rng)
    logs[:, 0, at:] = logs[:, 0, at:] * planted.spread + np.log(planted.level)
    logs[:, 2, at:] += np.log(planted.share)
    if world.rhythm:
        logs += _rhythm(minutes) * np.array([1.0, 1.0, 0.3, -0.3, 0.0, 0.0])[:, None]
    if world.drift:
        logs += _DRIFT * np.arange(minutes) * rng.choice([-1.0, 1.0], size=(len(noise), COLUMNS, 1))
    values: Array = np.exp(logs) * _USUAL[:, None]
    values[:, 2:] /= values[:, 2:].sum(axis=1, keepdims=True)
    return values
