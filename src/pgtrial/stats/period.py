"""Rhythms in a series, tested against slow noise rather than white noise.

A slow noise has much power at long periods, and a test against white noise calls that a rhythm. Here the background is
that of AR(1) noise plus white noise, fitted to the periodogram itself (Whittle's likelihood, with peaks cut off so that
a rhythm does not hide in its own background), and raised where the periodogram around a frequency lies above the fit.
A periodogram divided by its background is exponentially distributed with mean 1.

Rhythms of a server are seldom sine waves: a checkpoint costs a few seconds of every thirty, and its harmonics may be as
strong as itself. So what is looked at is the sum over the first 1 to 10 harmonics, and the false-alarm probability
is that of the least likely of all sums, each of them counted as independent at half the spacing of Fourier's
frequencies for its highest harmonic.

Sources: Whittle, Ark. Mat. 2 (1953) 423-434; robust red-noise background: Mann & Lees, Clim. Change 33 (1996) 409-445;
distribution and false-alarm probability: Scargle, Astrophys. J. 263 (1982) 835-853; sums over harmonics: Buccheri et
al., Astron. Astrophys. 128 (1983) 245-251.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

Array = NDArray[np.float64]

SHORTEST = 4.0  # values; a shorter period is hardly more than the spacing
CYCLES = 3  # that have to fit into the series
FEWEST = 40  # known values
_FINE = 8  # frequencies per Fourier frequency: a tenth harmonic moves ten times as fast as its period
_INDEPENDENT = 2  # of them, at most
# That are added up: 1 for a wave, 10 for dips of a few per cent of the period. Half and a third of each are there too,
# so that a rhythm is not found at twice or three times its period, where only every second or third harmonic counts.
_HARMONICS = (1, 2, 3, 5, 7, 10)
# The background: φ of the AR(1) part, and variance of the white part as a share of that of its innovations.
_PHI = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995])
_WHITE = np.array([0, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100])
_TOLERANCE = 0.01  # share of a given period by which it may be off
_PEAK = 6.0  # times the background: e^-6 of the values of noise lie above
_LOCAL = 21  # Fourier frequencies whose median is a local background


@dataclass(frozen=True, slots=True, kw_only=True)
class Rhythm:
    """``period`` in spacings of the values; ``share`` of the variance that a curve of this period explains.

    ``false_alarm``: probability of a rhythm as strong, at any period that was looked at, in noise with the same slow
    background.
    """

    period: float
    share: float
    false_alarm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spectrum:
    """``values`` (n,) without trend, 0 where unknown; ``ratio`` (k,) of power to background at k / FINE / n cycles per
    value, ``background`` the same without the ratio. NaN below one cycle in the series: that is trend.
    """

    values: Array
    known: NDArray[np.bool_]
    ratio: Array
    background: Array


def strongest_period(values: ArrayLike) -> Rhythm | None:
    """The strongest rhythm of a series with a period of SHORTEST values up to a third (CYCLES) of the series.

    values : (n,), equally spaced; NaN is not known, and leaves its time empty. None with fewer than FEWEST known values
    or without variation. It is always the strongest, however weak: look at ``false_alarm``.
    """
    spectrum = _spectrum(values)
    if spectrum is None:
        return None
    size = spectrum.values.size
    best: tuple[float, float] = (0.0, CYCLES / size)  # logarithm of the probability, frequency
    looks = 0
    for count in _HARMONICS:
        # Sums that reach beyond the shortest period would be those of fewer harmonics.
        places = np.arange(CYCLES * _FINE, math.floor(_FINE * size / SHORTEST / count) + 1)
        if places.size == 0:
            continue
        sums = np.sum([spectrum.ratio[number * places] for number in range(1, count + 1)], axis=0)
        tails = _log_tail(sums, count, spectrum)
        least = int(np.argmin(tails))
        best = min(best, (float(tails[least]), float(places[least]) / _FINE / size))
        looks += math.ceil(places.size / _FINE * _INDEPENDENT * count)
    return _rhythm(spectrum, log_tail=best[0], looks=looks, frequency=best[1])


def given_period(values: ArrayLike, period: float) -> Rhythm | None:
    """Whether a series has a rhythm with a period known in advance, such as checkpoint_timeout.

    One place is searched instead of all, so it finds weaker rhythms than ``strongest_period``. The period may be off by
    a hundredth; what comes back is the best in that range. None where it is outside of what the series can tell, as
    there.
    """
    spectrum = _spectrum(values)
    wanted = 1 / period
    if spectrum is None or wanted * spectrum.values.size < CYCLES * (1 - 1e-9) or wanted > 1 / SHORTEST:
        return None
    most = math.floor(1 / SHORTEST / wanted)
    added = sorted({min(most, count) for count in _HARMONICS})
    step = 1 / (_INDEPENDENT * added[-1] * spectrum.values.size)
    reach = math.floor(_TOLERANCE * wanted / step + 1e-9)
    frequencies = wanted + step * np.arange(-reach, reach + 1, dtype=np.float64)
    ratios = _ratios(spectrum, np.outer(frequencies, np.arange(1.0, added[-1] + 1)))
    tails = np.array([_log_tail(ratios[:, :count].sum(axis=1), count, spectrum) for count in added])
    frequency = float(frequencies[np.argmin(tails.min(axis=0))])
    return _rhythm(spectrum, log_tail=float(tails.min()), looks=tails.size, frequency=frequency)


def _spectrum(values: ArrayLike) -> _Spectrum | None:
    series = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(series)
    if known.sum() < FEWEST:
        return None
    time = np.arange(series.size, dtype=np.float64)
    slope, level = np.polyfit(time[known], series[known], 1)
    rest = np.where(known, series - level - slope * time, 0.0)
    if np.ptp(rest) <= 1e-9 * np.abs(series[known]).max():
        return None
    power = np.abs(np.fft.rfft(rest, _FINE * series.size)) ** 2 / known.sum()
    fourier = np.arange(_FINE, power.size, _FINE)
    level_at = _background(series.size, power[fourier])
    background = np.interp(np.arange(power.size), fourier, level_at, left=math.nan)
    return _Spectrum(values=rest, known=known, ratio=power / background, background=background)


@lru_cache(maxsize=8)
def _shapes(size: int) -> tuple[Array, Array]:
    """The backgrounds that are tried, at Fourier's frequencies of ``size`` values: (k, size // 2), and the sums of
    their logarithms, (k,).
    """
    frequency = np.arange(1, size // 2 + 1) / size
    waves = 1 - 2 * _PHI[:, None, None] * np.cos(2 * math.pi * frequency) + _PHI[:, None, None] ** 2
    shapes = (1 / waves + _WHITE[:, None]).reshape(-1, frequency.size)
    logs = np.log(shapes).sum(axis=1)
    shapes.setflags(write=False)
    logs.setflags(write=False)
    return shapes, logs


def _background(size: int, power: Array) -> Array:
    """Expected power of the noise at each of Fourier's frequencies of ``size`` values."""
    shapes, logs = _shapes(size)
    ratio = power / shapes
    level = np.median(ratio, axis=1, keepdims=True) / math.log(2)
    cut = np.minimum(ratio, _PEAK * level)
    # The mean of what is cut at 6 is 1 - e^-6 of the mean.
    level = cut.mean(axis=1, keepdims=True) / -math.expm1(-_PEAK)
    # Whittle's likelihood; its other part, the sum of what is cut over the level, is the same for all by that.
    best = int(np.argmin(logs + power.size * np.log(level[:, 0])))
    fit: Array = shapes[best] * level[best]
    around = np.lib.stride_tricks.sliding_window_view(np.pad(power / fit, _LOCAL // 2, mode="edge"), _LOCAL)
    nearby = np.median(around, axis=1) / math.log(2)
    raised: Array = fit * np.maximum(nearby, 1.0)
    return raised


def _ratios(spectrum: _Spectrum, frequencies: Array) -> Array:
    """Power over background at any frequencies, in their shape."""
    size = spectrum.values.size
    waves = np.exp(-2j * math.pi * frequencies[..., None] * np.arange(size))
    power = np.abs(waves @ spectrum.values) ** 2 / spectrum.known.sum()
    ratios: Array = power / np.interp(frequencies * _FINE * size, np.arange(spectrum.ratio.size), spectrum.background)
    return ratios


def _log_tail(sums: Array, count: int, spectrum: _Spectrum) -> Array:
    """Logarithm of the probability that ``count`` values of noise over background add up to that or more.

    Were the background known, twice the sum would be chi-square with twice as many degrees of freedom. It is estimated
    from half as many frequencies as there are values, some of which its shape takes, which makes it an F distribution;
    its tail is a finite sum for whole numbers (Abramowitz & Stegun, 26.6.4), in logarithms because rhythms may be
    beyond what a floating-point number can be small.
    """
    known = spectrum.known.sum() / 4
    j = np.arange(count)
    ways = gammaln(known + j) - gammaln(known) - gammaln(j + 1)
    share = sums / (known + sums)
    polynomial = (np.exp(ways) * share[..., None] ** j).sum(axis=-1)
    tail: Array = known * np.log1p(-share) + np.log(polynomial)
    return tail


def _rhythm(spectrum: _Spectrum, *, log_tail: float, looks: int, frequency: float) -> Rhythm:
    # 1 - (1 - p)^looks
    false_alarm = -math.expm1(looks * math.log1p(-min(math.exp(min(log_tail, 0.0)), 1 - 1e-16)))
    return Rhythm(period=1 / frequency, share=_share(spectrum, frequency), false_alarm=false_alarm)


def _share(spectrum: _Spectrum, frequency: float) -> float:
    """R² of a curve of this period with all harmonics that the spacing shows, up to ten, less what noise would give."""
    values = spectrum.values[spectrum.known]
    time = np.flatnonzero(spectrum.known)
    numbers = np.arange(1, max(1, min(_HARMONICS[-1], math.floor(0.45 / frequency))) + 1)
    angles = 2 * math.pi * frequency * numbers * time[:, None]
    design = np.column_stack((np.ones(time.size), np.cos(angles), np.sin(angles)))
    fitted: Array = design @ np.linalg.lstsq(design, values, rcond=None)[0]
    left = values.size - design.shape[1]
    if left < 1:
        return 0.0
    rest, total = float(((values - fitted) ** 2).sum()), float(((values - values.mean()) ** 2).sum())
    return max(0.0, 1 - float(rest / left / (total / (values.size - 1))))


# Whether dips come with events (checkpoints, autovacuum) more than chance would have it: a test by circular shifts.
#
# Turning the dips of a run round the clock of its length keeps how many, how long and how close together they are, and
# destroys only what they have to do with the events. All shifts are equally likely without an association, so the
# probability of as much overlap by chance is the share of shifts with as much, that of no shift included. Runs are
# turned independently of each other.
#
# What follows from it: a run of n seconds cannot give a probability below 1/n, and where both come at a regular beat,
# not one below about the share of the beat that overlaps, for one beat that fits another may be luck. More runs help,
# for their beats do not start together.
#
# Sources: Lotwick & Silverman, J. R. Statist. Soc. B 44 (1982) 406-413 (shifts on a torus); Harris, "A shift test for
# independence in generic time series", arXiv:2012.06862 (2020), section 2.


Stretch = tuple[float, float]

# Seconds by which an event is longer at both ends: its effect may come later than its message, and a moment has no
# length.
_REACH = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Marked:
    """A run of ``seconds`` whole seconds, with its events and dips: (start, end), in seconds since the run's start.

    What lies outside of the run does not count.
    """

    seconds: int
    events: Sequence[Stretch]
    dips: Sequence[Stretch]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """``overlap``: seconds of dips inside events; ``expected``: the same by chance; ``dip_seconds``: total of all dips.

    ``p_value``: probability of at least that overlap if dips have nothing to do with events.
    """

    overlap: int
    expected: float
    dip_seconds: int
    p_value: float


def align(runs: Sequence[Marked]) -> Alignment | None:
    """Overlap of dips with events in all runs together, in whole seconds; None where no run has both."""
    overlap = dip_seconds = 0
    chance = np.ones(1)  # probability of 0, 1, … seconds
    for run in runs:
        events = _seconds_of(run.seconds, [(start - _REACH, end + _REACH) for start, end in run.events])
        dips = _seconds_of(run.seconds, run.dips)
        if not (events.any() and dips.any()):
            continue
        # Entry s is the overlap after a shift by s: a circular cross-correlation.
        spectrum = np.fft.rfft(events) * np.conj(np.fft.rfft(dips))
        shifted = np.rint(np.fft.irfft(spectrum, run.seconds)).astype(int)
        overlap += int(shifted[0])
        dip_seconds += int(dips.sum())
        chance = np.convolve(chance, np.bincount(shifted) / run.seconds)
    if dip_seconds == 0:
        return None
    return Alignment(
        overlap=overlap,
        expected=float(chance @ np.arange(chance.size)),
        dip_seconds=dip_seconds,
        p_value=min(1.0, float(chance[overlap:].sum())),
    )


def _seconds_of(count: int, stretches: Sequence[Stretch]) -> Array:
    """1 for each whole second that a stretch touches."""
    marked = np.zeros(count)
    for start, end in stretches:
        first, last = max(0, int(np.floor(start))), int(np.ceil(end))
        if last > first:
            marked[first:last] = 1
    return marked
