"""Quantities that are zero for weeks, as signals that change by ratios: rollbacks, deadlocks, stalls.

What is unusual is known from the noise of calm time. Where that has none, the first rollback in a month is further off
than anything, and hours without one take nothing back, since what stands still tells nothing. So to each minute is
added a background, which is too little for anybody to mind, with NOISE: normal numbers drawn for the minute, the name
and the server, which are the same ones each time. They depend on nothing that was measured, so blocks that are
exchangeable stay so, and the contract is what it was. Servers share none, so that no minute is unusual on all of them
at once. What is small beside the background is not found.
"""

import zlib

import numpy as np

from pgtrial.stats.alarms.blocks import Array

NOISE = 0.1  # standard deviation of the logarithm of a minute's background
_DAY = 1440
_LEAST_SHARE = 1e-3
_FEW = 5.0  # events in a minute
_HALF = 0.5


def lift(values: Array, background: float, *, server: str, name: str, first: int) -> Array:
    """(n,) values of minutes, zero or more, above a background in their unit; NaN stays.

    server : which one, as it is called in each call.
    first : number of the first minute; the numbers of two calls have to begin at the same time.
    """
    lifted: Array = values + background * np.exp(NOISE * _drawn((server, name), first, values.size))
    return lifted


def share_of(events: Array, among: Array, usual: float) -> Array:
    """Events by what there is of them and others together; where that is less than half of ``usual``, by that half, for
    one event of a quiet minute to stay one.
    """
    share: Array = events / np.maximum(among, _HALF * usual)
    return share


def share_background(usual: float) -> float:
    """Below which nobody minds a share of ``usual`` in a minute: a thousandth of it, or a few events."""
    return max(_LEAST_SHARE, _FEW / usual)


def _drawn(about: tuple[str, ...], first: int, count: int) -> Array:
    """Whole days are drawn, for a minute to have the same number whatever comes before it."""
    day, place = divmod(first, _DAY)
    days = range(day, day - (-(place + count) // _DAY))
    keys = [zlib.crc32(each.encode()) for each in about]
    drawn = np.concatenate(
        [np.random.default_rng([*keys, each]).standard_normal(_DAY) for each in days] or [np.empty(0)]
    )
    return drawn[place : place + count]
