"""Quantities of two windows and their differences, with intervals that hold together for all rows of a table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from pgtrial.stats.interval import Known, difference, ratio_of
from pgtrial.stats.long_run import FEWEST, known_ratio, known_series, log_of, waves
from pgtrial.watch.series import Array

CONFIDENCE = 0.95
# Of what is constant in one window, such as a wait that never happened, the noise is that of the other one alone.
_ALMOST_NONE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A quantity in both windows, in ``unit``, and their difference b - a or, with ``is_ratio``, b / a.

    The interval is None where the window has too few steps, or nothing in it differs.
    """

    name: str
    unit: str
    a: float | None
    b: float | None
    change: float | None
    low: float | None
    high: float | None
    is_ratio: bool

    @property
    def side(self) -> int:
        """1 where the whole interval lies above "no difference", -1 where it lies below, else 0."""
        none = 1.0 if self.is_ratio else 0.0
        if self.low is None or self.high is None or self.low <= none <= self.high:
            return 0
        return 1 if self.low > none else -1

    @property
    def is_sure(self) -> bool:
        """Whether the interval excludes "no difference"."""
        return self.side != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A row whose interval waits for how many others it has to hold together with."""

    name: str
    unit: str
    means: tuple[float | None, float | None]
    known: tuple[Known | None, Known | None]
    is_ratio: bool

    def change(self) -> "tuple[Known, Known] | None":
        """Means of both windows with their errors, as logarithms for a ratio."""
        first, second = self.known
        if self.is_ratio:
            first, second = (None if each is None else log_of(each) for each in (first, second))
        return None if first is None or second is None else (first, second)


def finish(drafts: Sequence[Draft], *, confidence: float = CONFIDENCE) -> tuple[Row, ...]:
    """The rows of a table: its intervals hold together in ``confidence`` of comparisons (Bonferroni)."""
    family = max(1, sum(each.change() is not None for each in drafts))
    return tuple(_row(each, 1 - (1 - confidence) / family) for each in drafts)


def _row(draft: Draft, confidence: float) -> Row:
    first, second = draft.means
    change = low = high = None
    back: Callable[[float], float] = ratio_of if draft.is_ratio else float
    if first is not None and second is not None and (not draft.is_ratio or (first > 0 and second > 0)):
        change = second / first if draft.is_ratio else second - first
        if pair := draft.change():
            interval = difference(*pair, confidence=confidence).interval
            low, high = back(interval.low), back(interval.high)
    return Row(
        name=draft.name,
        unit=draft.unit,
        a=first,
        b=second,
        change=change,
        low=low,
        high=high,
        is_ratio=draft.is_ratio,
    )


def by_mean(name: str, unit: str, both: Sequence[Array], *, is_ratio: bool = False) -> Draft:
    """Of a series in each window."""
    means = [None if np.isnan(each).all() else float(np.nanmean(each)) for each in both]
    return _draft(
        name, unit, means, [known_series(each) for each in both], [_count(each) for each in both], is_ratio=is_ratio
    )


def by_quotient(name: str, unit: str, above: Sequence[Array], below: Sequence[Array], *, is_ratio: bool) -> Draft:
    """Of the sum of one series by the sum of another, in each window."""
    means, known, counts = [], [], []
    for x, y in zip(above, below, strict=True):
        is_known = ~(np.isnan(x) | np.isnan(y))
        total = float(y[is_known].sum())
        means.append(float(x[is_known].sum()) / total if total > 0 else None)
        known.append(known_ratio(x, y))
        counts.append(int(is_known.sum()))
    return _draft(name, unit, means, known, counts, is_ratio=is_ratio)


def _count(series: Array) -> int:
    return int((~np.isnan(series)).sum())


def _draft(
    name: str,
    unit: str,
    means: Sequence[float | None],
    known: Sequence[Known | None],
    counts: Sequence[int],
    *,
    is_ratio: bool,
) -> Draft:
    found = list(known)
    for here, there in ((0, 1), (1, 0)):
        mean, other = means[here], known[there]
        if known[here] is not None or mean is None or counts[here] < FEWEST:
            continue
        if is_ratio and mean > 0:  # what each call takes alike has no noise of its own
            degrees = waves(counts[here]) if other is None else other.degrees
            found[here] = Known(mean=mean, error=mean * _ALMOST_NONE, degrees=degrees)
        elif not is_ratio and other is not None:
            found[here] = replace(other, mean=mean, error=other.error * _ALMOST_NONE)
    return Draft(name=name, unit=unit, means=(means[0], means[1]), known=(found[0], found[1]), is_ratio=is_ratio)


def share_out(
    both: Sequence[Mapping[str, Array]], none: Sequence[Array], *, least: float, rest: str
) -> dict[str, tuple[Array, Array]]:
    """By name the series of both windows, largest first, that have ``least`` of the sum of all; the others as one.

    ``none`` are the windows' series of what is not there, NaN where nothing is known.
    """
    names = sorted({*both[0], *both[1]})
    pairs = {name: tuple(each.get(name, zero) for each, zero in zip(both, none, strict=True)) for name in names}
    sizes = {name: sum(float(np.nansum(series)) / series.size for series in pair) for name, pair in pairs.items()}
    total = sum(sizes.values())
    kept = sorted((name for name in names if sizes[name] >= least * total), key=lambda name: -sizes[name])
    found = {name: (pairs[name][0], pairs[name][1]) for name in kept}
    others = [pairs[name] for name in names if name not in found]
    if others:
        first, second = (sum((pair[place] for pair in others), none[place]) for place in (0, 1))
        found[rest] = (first, second)
    return found
