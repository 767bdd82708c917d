"""An effect that is to hold on machines like these: each host is an observation, whatever its number of blocks.

Blocks of one host have in common what is peculiar to it, so that blocks of few hosts say little of others, however many
they are. Hosts are taken for a sample of those that the claim is about: their true effects are spread around a mean.

- The mean: with as many blocks on each host, that of the hosts' means with Student's t of k - 1 degrees of freedom,
  which is exact whatever the two variances are. Otherwise, and where the orders of the arms came up unequally on a
  host, REML with Kenward and Roger's error and degrees of freedom (``one_way``); the place in the block is then one of
  the effects of that model.
- A host that was not tested: mean ± t(k - 1) s √(1 + 1/k) of the hosts' means, each with one weight, with s their
  standard deviation. It covers what as many blocks as an average host's would show there, which is more than its true
  effect. Sources: Hahn & Meeker, "Statistical Intervals" (1991), section 4.7; for unequal variances Bakirov & Székely,
  Zap. Nauchn. Sem. POMI 328 (2005) 5-19.
- One host: its mean, with the noise inside hosts, which is taken for the same on all.
- A host whose effect is another: the one that is farthest from the mean of the others is named where that is beyond
  the noise inside hosts (Bonferroni over the hosts that are left), set aside, so that it does not make the rest look
  odd, and the next one is looked for. Source: Rosner, Technometrics 25 (1983) 165-172, for several outliers.
- SD inside hosts: χ². SD between them: Williams, Biometrika 49 (1962) 278-281, with the harmonic mean of the sizes
  after Thomas & Hultquist, Ann. Statist. 6 (1978) 582-587.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, fdtri

from pgtrial.findings.caveat import caveat
from pgtrial.stats.base import Comparison, Interval
from pgtrial.stats.crossover import fit_crossover, has_both_orders
from pgtrial.stats.interval import NO_SPREAD, interval_about, mean_and_sd, ratio_of, t_interval, t_tail
from pgtrial.stats.one_way import fit_one_way
from pgtrial.stats.paired import compare_blocks, hodges_lehmann, sign_flip_p, signed_rank_interval
from pgtrial.stats.slices import sd_interval

Array = NDArray[np.float64]
Method = Literal["means", "reml"]

FEWEST_HOSTS = 2  # for an interval of the mean
FEWEST_TO_PREDICT = 5
OTHER = 0.05  # probability of naming any host where all have the same effect
FEWEST_WITH_POSITION = 3  # hosts; with fewer too little is left to tell the place in the block from them
_KEPT = ("missing-blocks", "no-log-ratio", "no-interval")  # caveats of blocks that are as true of hosts


@dataclass(frozen=True, slots=True, kw_only=True)
class OfHost:
    """One host: ``mean`` (log ratio, without what the place in the block does) of its ``blocks`` with its interval.

    ``difference`` from the mean of the others that were not set aside before it (log ratio); ``p_differs`` of none,
    adjusted for all hosts; None where the noise inside hosts is not known.
    """

    host: str
    blocks: int
    mean: float
    error: float | None
    interval: Interval | None
    difference: float
    p_differs: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverHosts:
    """The effect over hosts; all in log ratios. ``error`` of the mean has ``degrees`` of freedom.

    ``within`` and ``between`` are standard deviations, None where each host has one block; ``free`` are the degrees of
    freedom of ``within``.
    """

    method: Method
    mean: float
    error: float
    degrees: float
    interval: Interval | None
    position: float | None
    hosts: tuple[OfHost, ...]
    within: float | None
    within_interval: Interval | None
    between: float | None
    between_interval: Interval | None
    free: int
    prediction: Interval | None


def compare_hosts(
    control: Sequence[float] | Array,
    treated: Sequence[float] | Array,
    hosts: Sequence[str],
    *,
    confidence: float = 0.95,
    comparisons: int = 1,
    after: Sequence[bool] | NDArray[np.bool_] | None = None,
) -> Comparison:
    """As ``compare_blocks``, for hosts like these: ``hosts`` (n_blocks,) says where each block ran.

    ``sd_log_ratio`` is that of a host's mean, and ``information`` the number of hosts; the test by signs and the
    Hodges-Lehmann estimate are of the hosts' means. No interval with fewer than FEWEST_HOSTS.
    Caveats: missing-blocks, no-log-ratio, no-interval, one-host, zero-variance.
    """
    found = compare_blocks(control, treated, confidence=confidence, comparisons=comparisons, after=after)
    kept = tuple(each for each in found.caveats if each.code in _KEPT)
    one, other = np.asarray(control, dtype=np.float64), np.asarray(treated, dtype=np.float64)
    complete = ~(np.isnan(one) | np.isnan(other))
    names = [host for host, is_complete in zip(hosts, complete, strict=True) if is_complete]
    count = len(set(names))
    if found.sd_log_ratio is None:
        return replace(found, hosts=count, caveats=kept)
    if count < FEWEST_HOSTS:
        caveats = (*kept, caveat("one-host", blocks=found.blocks))
        return replace(_without_interval(found), hosts=count, information=count, degrees=0, caveats=caveats)
    fit = fit_hosts(
        np.log(other[complete]) - np.log(one[complete]),
        names,
        None if after is None else np.asarray(after, dtype=np.bool_)[complete],
        confidence=1 - found.alpha,
    )
    means = np.array([each.mean for each in fit.hosts])
    rank = signed_rank_interval(means, confidence=1 - found.alpha)
    interval = fit.interval
    return replace(
        found,
        ratio=math.exp(fit.mean),
        low=None if interval is None else ratio_of(interval.low),
        high=None if interval is None else ratio_of(interval.high),
        p_value=None if interval is None else 2 * t_tail(abs(fit.mean) / fit.error, fit.degrees),
        p_sign_flip=sign_flip_p(means),
        hodges_lehmann=math.exp(hodges_lehmann(means)),
        hl_low=math.exp(rank.low) if rank else None,
        hl_high=math.exp(rank.high) if rank else None,
        sd_log_ratio=fit.error * math.sqrt(count),
        information=count,
        degrees=fit.degrees,
        position=fit.position,
        hosts=count,
        caveats=(*kept, *(() if interval else (caveat("zero-variance.hosts", count=count),))),
    )


def hide_unfinished(comparison: Comparison) -> Comparison:
    """The comparison without an interval: one that holds whenever one looks is known of blocks, and not of hosts."""
    if comparison.low is None:
        return comparison
    early = caveat("hosts-unfinished", blocks=comparison.blocks)
    return replace(_without_interval(comparison), caveats=(*comparison.caveats, early))


def _without_interval(comparison: Comparison) -> Comparison:
    return replace(comparison, low=None, high=None, p_value=None, p_sign_flip=None, hl_low=None, hl_high=None)


def fit_hosts(
    log_ratios: Array, hosts: Sequence[str], after: NDArray[np.bool_] | None = None, *, confidence: float = 0.95
) -> OverHosts:
    """The effect over hosts, on each, and how far hosts differ.

    log_ratios : (n,), log(arm / control) of each block. hosts : (n,), two different ones at least. after : (n,),
    whether the arm ran after the control; what the place does is taken out, where the blocks tell it. No intervals of
    what has no spread.
    """
    names = sorted(set(hosts))
    codes = np.array([names.index(host) for host in hosts], dtype=np.intp)
    sizes = np.bincount(codes)
    count = len(names)
    if count < FEWEST_HOSTS or codes.shape != log_ratios.shape:
        raise ValueError(f"expected a host for each of {log_ratios.size} blocks and {FEWEST_HOSTS} hosts, got {count}")
    if sizes.max() == 1:
        return _fit_single_blocks(log_ratios, names, codes, after, confidence=confidence)
    signs = _signs(codes, after, count=count)
    method, mean, error, degrees, position = _fit_mean(log_ratios, codes, sizes, signs)
    level = log_ratios if position is None or signs is None else log_ratios - position * signs
    means = np.bincount(codes, level) / sizes
    inside = level - means[codes]
    free = log_ratios.size - count - (0 if position is None else 1)
    within = math.sqrt(float(inside @ inside) / free) if free > 0 else None
    if within is not None and within <= NO_SPREAD:
        within = None
    return OverHosts(
        method=method,
        mean=mean,
        error=error,
        degrees=degrees,
        interval=interval_about(mean, error, degrees, confidence=confidence) if error > NO_SPREAD else None,
        position=position,
        hosts=_of_each(names, sizes, means, within, free, confidence=confidence),
        within=within,
        within_interval=None if within is None else sd_interval(within, free, confidence=confidence),
        between=None if within is None else _between(means, sizes, within),
        between_interval=None
        if within is None
        else _between_interval(means, sizes, within, free, confidence=confidence),
        free=free,
        prediction=predict_host(means, confidence=confidence),
    )


def predict_host(means: Array, *, confidence: float) -> Interval | None:
    """Where the effect on a host is expected that was not tested; None with fewer than FEWEST_TO_PREDICT.

    means : (k,), one of each host.
    """
    count = means.size
    mean, sd = mean_and_sd(means)
    if count < FEWEST_TO_PREDICT or sd <= NO_SPREAD:
        return None
    return t_interval(mean, sd * math.sqrt(count + 1), count, confidence=confidence)


def _signs(codes: NDArray[np.intp], after: NDArray[np.bool_] | None, *, count: int) -> Array | None:
    """+1 where the arm ran second, -1 where first; None where the place in the block cannot be told from the hosts."""
    if after is None or not has_both_orders(after):
        return None
    signs = np.where(after, 1.0, -1.0)
    totals, sizes = np.bincount(codes, signs), np.bincount(codes)
    varies_inside = bool((np.abs(totals) < sizes).any())
    is_even = bool((totals == 0).all())
    return signs if varies_inside and (is_even or count >= FEWEST_WITH_POSITION) and codes.size > count + 1 else None


def _fit_mean(
    log_ratios: Array, codes: NDArray[np.intp], sizes: NDArray[np.intp], signs: Array | None
) -> tuple[Method, float, float, float, float | None]:
    """How the mean was found, the mean, its error and degrees of freedom, and what the place in the block does."""
    is_even = signs is None or bool((np.bincount(codes, signs) == 0).all())
    if is_even and sizes.min() == sizes.max():
        mean, sd = mean_and_sd(np.bincount(codes, log_ratios) / sizes)
        position = None if signs is None else float(signs @ log_ratios) / log_ratios.size
        return "means", mean, sd / math.sqrt(sizes.size), sizes.size - 1, position
    columns = [np.ones(log_ratios.size)] if signs is None else [np.ones(log_ratios.size), signs]
    fit = fit_one_way(log_ratios, codes, np.stack(columns, axis=1))
    position = None if signs is None else float(fit.effects[1])
    return "reml", float(fit.effects[0]), fit.error, fit.degrees, position


def _fit_single_blocks(
    log_ratios: Array,
    names: Sequence[str],
    codes: NDArray[np.intp],
    after: NDArray[np.bool_] | None,
    *,
    confidence: float,
) -> OverHosts:
    """One block on each host: hosts are the blocks of a plain comparison."""
    crossed = None if after is None else fit_crossover(log_ratios, after)
    degrees: float
    if crossed is None or after is None:
        mean, sd = mean_and_sd(log_ratios)
        error, degrees, position, level = sd / math.sqrt(log_ratios.size), log_ratios.size - 1, None, log_ratios
    else:
        mean, error, degrees = crossed.effect, crossed.sd / math.sqrt(crossed.information), crossed.degrees
        position, level = crossed.position, log_ratios - np.where(after, crossed.position, -crossed.position)
    means = level[np.argsort(codes)]
    return OverHosts(
        method="means",
        mean=mean,
        error=error,
        degrees=degrees,
        interval=interval_about(mean, error, degrees, confidence=confidence) if error > NO_SPREAD else None,
        position=position,
        hosts=_of_each(names, np.ones(means.size, dtype=np.intp), means, None, 0, confidence=confidence),
        within=None,
        within_interval=None,
        between=None,
        between_interval=None,
        free=0,
        prediction=predict_host(means, confidence=confidence),
    )


def _of_each(
    names: Sequence[str], sizes: NDArray[np.intp], means: Array, within: float | None, free: int, *, confidence: float
) -> tuple[OfHost, ...]:
    errors = [None if within is None else within / math.sqrt(size) for size in sizes]
    differences, adjusted = _find_others(means, sizes, within, free)
    return tuple(
        OfHost(
            host=name,
            blocks=int(size),
            mean=float(mean),
            error=error,
            interval=None if error is None else interval_about(float(mean), error, free, confidence=confidence),
            difference=float(difference),
            p_differs=p,
        )
        for name, size, mean, error, difference, p in zip(
            names, sizes, means, errors, differences, adjusted, strict=True
        )
    )


def _find_others(
    means: Array, sizes: NDArray[np.intp], within: float | None, free: int
) -> tuple[Array, tuple[float | None, ...]]:
    """(k,) each: by what a host differs from the mean of those that are left beside it, and the p-value of that."""
    left, largest = np.arange(means.size), 0.0
    differences = np.empty(means.size)
    p_values: list[float | None] = [None] * means.size
    while True:
        own, noise, rest = means[left], 1 / sizes[left], left.size - 1
        away = own - (own.sum() - own) / rest
        differences[left] = away
        if within is None:
            return differences, tuple(p_values)
        ts = np.abs(away) / (within * np.sqrt(noise + (noise.sum() - noise) / rest**2))
        tests = left.size if left.size > FEWEST_HOSTS else 1  # two hosts are one comparison, seen from both sides
        for host, t in zip(left, ts, strict=True):
            p_values[host] = max(largest, min(1.0, tests * 2 * t_tail(float(t), free)))
        farthest = int(np.argmax(ts))
        largest = p_values[left[farthest]] or 0.0
        if largest > OTHER or left.size == FEWEST_HOSTS:
            return differences, tuple(p_values)
        left = np.delete(left, farthest)


def _between(means: Array, sizes: NDArray[np.intp], within: float) -> float:
    """Standard deviation of the hosts' true effects: of their means, less what the noise inside explains."""
    return math.sqrt(max(0.0, mean_and_sd(means)[1] ** 2 - within**2 * float((1 / sizes).mean())))


def _between_interval(
    means: Array, sizes: NDArray[np.intp], within: float, free: int, *, confidence: float
) -> Interval:
    tail, above = (1 - confidence) / 2, means.size - 1
    noise = within**2 * float((1 / sizes).mean())
    variance = mean_and_sd(means)[1] ** 2
    low, high = (
        math.sqrt(
            max(0.0, above * (variance - float(fdtri(above, free, 1 - chance)) * noise) / float(chdtri(above, chance)))
        )
        for chance in (tail, 1 - tail)
    )
    return Interval(low=low, high=high, confidence=confidence)
