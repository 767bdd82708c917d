"""Minute values into blocks of five minutes, and what an alarm may be about: level, spread, and mix.

A level is the mean of a block, of logarithms where a signal changes by ratios. A spread is the logarithm of the mean
absolute difference of neighbouring minutes, which a shift of level moves for one block at most. A mix is a set of
shares: its parts are logarithms of the block's shares against their geometric mean, so that a share can rise only
against the others. Sources: von Neumann, Ann. Math. Stat. 12 (1941) 367-395, for differences; Aitchison, "The
Statistical Analysis of Compositional Data" (1986), for shares; Martin-Fernandez et al., Math. Geol. 35 (2003) 253-278,
for shares of zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

MINUTES = 5  # of a block
DAY = 1440 // MINUTES  # blocks
WEEK = 7 * DAY
_LEAST_KNOWN = 3  # minutes of a block, or differences between them; with fewer the block is a gap
_LOW = 0.1  # of the median, below which a logarithm tells no more
_TINY = 1e-3  # of the usual difference
_NOTHING = 1e-9


class Scale(StrEnum):
    """What a signal changes by: ratios (throughput, latencies), differences, or shares that add up to one."""

    RATIO = "ratio"
    DIFFERENCE = "difference"
    MIX = "mix"


class Aspect(StrEnum):
    """What of a signal has changed."""

    LEVEL = "level"
    SPREAD = "spread"
    SHARE = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """One column of the minute values, or for a mix its columns, two or more.

    Signals of one ``group`` have bursts of one kind: how long those of one are tells of the others. ``has_spread``: how
    even it is counts too, unless it is a mix.
    """

    name: str
    scale: Scale
    columns: tuple[int, ...]
    group: str = ""
    has_spread: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One number per block: an ``aspect`` of a signal; of a mix there is one for each of its columns."""

    signal: str
    aspect: Aspect
    scale: Scale
    column: int


def streams_of(signals: Sequence[Signal]) -> tuple[Stream, ...]:
    """In the order in which ``blocks_of`` has them. ValueError: a mix of one column, or a signal of several."""
    found = []
    for signal in signals:
        if not signal.columns or (len(signal.columns) > 1) != (signal.scale is Scale.MIX):
            raise ValueError(f"expected one column, or several of a mix, got {len(signal.columns)} of {signal.name}")
        levels = (Aspect.LEVEL, Aspect.SPREAD) if signal.has_spread else (Aspect.LEVEL,)
        aspects = (Aspect.SHARE,) if signal.scale is Scale.MIX else levels
        found += [
            Stream(signal=signal.name, aspect=aspect, scale=signal.scale, column=column)
            for column in signal.columns
            for aspect in aspects
        ]
    return tuple(found)


def learn_floors(minutes: Array, signals: Sequence[Signal]) -> Array:
    """(..., columns, 2): below which a value, and a difference of neighbours, count as that much.

    minutes : (..., columns, n) of calm time.
    """
    floors = np.zeros((*minutes.shape[:-1], 2))
    for signal in signals:
        columns = list(signal.columns)
        values = minutes[..., columns, :]
        if signal.scale is not Scale.DIFFERENCE:
            if signal.scale is Scale.MIX:
                values = _shares(values)
            usual = median_known(values)
            usual = np.where(usual > 0, usual, np.nan_to_num(mean_known(values)))
            floors[..., columns, 0] = np.where(usual > 0, _LOW * usual, _NOTHING if signal.scale is Scale.MIX else 1.0)
        if signal.scale is not Scale.MIX:
            values = _scaled(values, signal.scale, floors[..., columns, 0])
            size = np.nan_to_num(np.nanmax(np.abs(values), axis=-1, initial=0.0))
            usual = np.nan_to_num(mean_known(np.abs(np.diff(values, axis=-1))))
            floors[..., columns, 1] = np.maximum(_TINY * usual, _NOTHING * np.where(size > 0, size, 1.0))
    return floors


def blocks_of(minutes: Array, signals: Sequence[Signal], floors: Array) -> Array:
    """(..., streams, n // MINUTES), NaN for gaps, of (..., columns, n) minute values, NaN where not known.

    A last block that is not whole is left out. The first difference of a block is the one between its first two
    minutes, so that a block depends on nothing but itself.
    """
    whole = minutes.shape[-1] // MINUTES
    parts = minutes[..., : whole * MINUTES].reshape(*minutes.shape[:-1], whole, MINUTES)
    found = []
    for signal in signals:
        columns = list(signal.columns)
        values = parts[..., columns, :, :]
        if signal.scale is Scale.MIX:
            shares = np.maximum(
                mean_known(_shares(values, axis=-3), fewest=_LEAST_KNOWN), floors[..., columns, 0, None]
            )
            logs = np.log(shares)
            logs = logs - logs.mean(axis=-2, keepdims=True)
            found += [logs[..., place, :] for place in range(len(columns))]
            continue
        scaled = _scaled(values, signal.scale, floors[..., columns, 0, None])[..., 0, :, :]
        found.append(mean_known(scaled, fewest=_LEAST_KNOWN))
        if signal.has_spread:
            jumps = mean_known(np.abs(np.diff(scaled, axis=-1)), fewest=_LEAST_KNOWN)
            found.append(np.log(np.maximum(jumps, floors[..., columns[0], 1, None])))
    return np.stack(found, axis=-2)


def _scaled(values: Array, scale: Scale, floors: Array) -> Array:
    if scale is not Scale.RATIO:
        return values
    scaled: Array = np.log(np.maximum(values, floors[..., None]))
    return scaled


def _shares(values: Array, axis: int = -2) -> Array:
    """Of the total of each minute; not known where a part is not, or where there is nothing."""
    values = np.maximum(values, 0.0)
    total = values.sum(axis=axis, keepdims=True)
    shares: Array = np.divide(values, total, out=np.full_like(values, np.nan), where=total > 0)
    return shares


def mean_known(values: Array, *, axis: int = -1, fewest: int = 1) -> Array:
    """Of the values that are no NaN; NaN where there are less than ``fewest``."""
    known = np.isfinite(values)
    count = known.sum(axis=axis)
    total = np.where(known, values, 0.0).sum(axis=axis)
    mean: Array = np.divide(total, count, out=np.full(total.shape, np.nan), where=count >= fewest)
    return mean


def median_known(values: Array) -> Array:
    """NaN of nothing; without the warning that numpy has for it."""
    known = np.asarray(np.isfinite(values).any(axis=-1, keepdims=True))
    median: Array = np.nanmedian(np.where(known, values, 0.0), axis=-1)
    return np.where(known[..., 0], median, np.nan)
