"""Where the ticks of an axis go: round numbers in the reader's units, which Vega cannot know."""

import math

# Changes that ticks may be apart on a short axis, as shares.
_CHANGE_STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
_SECONDS_STEPS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400)
_MOST = 8


def place_changes(low: float, high: float) -> list[float]:
    """Ratios on a log axis from ``low`` to ``high``: even changes where it is short, round ratios where it is long."""
    if high / low <= 2:
        for step in _CHANGE_STEPS:
            first, last = math.ceil((low - 1) / step), math.floor((high - 1) / step)
            if last - first < _MOST:
                ticks = [round(1 + step * k, 6) for k in range(first, last + 1)]
                return [tick for tick in ticks if low <= tick <= high]
    finer = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 7) if high / low <= 4 else (1, 1.5, 2, 3, 5, 7)
    return place_logs(low, high, factors=finer if high / low <= 12 else (1, 2, 5))


def place_logs(low: float, high: float, *, factors: tuple[float, ...] = (1, 2, 5)) -> list[float]:
    """Round numbers on a log axis; powers of ten alone where it is longer than three decades."""
    shown = factors if high / low <= 1000 else (1,)
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [round(factor * 10.0**exponent, 9) for exponent in exponents for factor in shown]
    return [tick for tick in ticks if low <= tick <= high]


def place_seconds(low: float, high: float) -> list[float]:
    """Even steps that are round in seconds, minutes or hours; zero is one of them where it is inside."""
    span = high - low
    step = next(
        (step for step in _SECONDS_STEPS if span / step <= _MOST), _SECONDS_STEPS[-1] * math.ceil(span / 604800)
    )
    return [round(step * k, 6) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def place_counts(first: int, last: int) -> list[int]:
    """Whole numbers from ``first`` to ``last``, or of these the multiples of a round one."""
    powers = range(len(str(abs(last - first) + 1)))
    step = next(step for k in powers for step in (10**k, 2 * 10**k, 5 * 10**k) if (last - first) / step <= _MOST)
    return list(range(first if step == 1 else -(-first // step) * step, last + 1, step))


def place_bytes(high: float, *, most: int = 4) -> list[float]:
    """Even steps from zero to ``high`` that are round in kB, MB, …, at most ``most`` of them."""
    if high <= 0:
        return [0.0]
    unit = 1024.0 ** max(0, math.floor(math.log(high, 1024)))
    factors = (factor * 10.0**exponent for exponent in range(-3, 4) for factor in (1, 2, 5))
    step = next(factor * unit for factor in factors if high / (factor * unit) < most)
    return [step * k for k in range(math.floor(high / step) + 1)]
