"""Bets against "nothing has changed", and the threshold at which their gains are an alarm.

A bet on a shift of size λ gains e = exp(λ·z) / (mean of exp(λ·z) over calm blocks, with the new one among them), with z
the standardised error of prediction, cut at FARTHEST. If the new block is one like the calm ones (exchangeable with
them), the expected gain is 1: the sum of the n + 1 numerators over their mean is n + 1. Nothing is assumed of the shape
of the noise, tails and skewness included. The calm mean is raised by MARGIN standard errors, from means of days, since
the same calm data serve for months.

The gains of all streams, directions and sizes are collected by Shiryaev and Roberts' statistic R ← (R + 1)·e. The mean
of all R, whatever their dependence, has an expected value of at most the number of blocks, so the expected number of
blocks until it reaches a number c is at least c: an alarm at c = the blocks of 30 days comes, if nothing has changed,
after 30 days or more on average.

Sources: Shin, Ramdas & Rinaldo, N. Engl. J. Stat. Data Sci. 2 (2024) 229-260 (arXiv 2203.03532), for e-detectors;
Shiryaev, Theory Probab. Appl. 8 (1963) 22-46; Roberts, Technometrics 8 (1966) 411-430; Wang & Ramdas, J. R. Statist.
Soc. B 84 (2022) 822-852, for gains whose expected value is at most 1; Kuensch, Ann. Stat. 17 (1989) 1217-1241, for
blocks of a bootstrap.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pgtrial.stats.alarms.blocks import DAY, Array
from pgtrial.stats.alarms.prediction import FARTHEST

SIZES = (0.1, 0.2, 0.4, 0.8, 1.6)  # standard deviations of a block that bets are on
DIRECTIONS = (1.0, -1.0)
MARGIN = 2.0  # standard errors
BETS = np.asarray(DIRECTIONS)[:, None] * np.asarray(SIZES)  # (2, sizes)
_SILENT = 1e-6  # standard deviations: less is rounding, and tells nothing
_PATHS = 60
_PATH_DAYS = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stakes:
    """``calm``: mean of exp(λ·z), (sets, streams, 2, sizes), raised; over how many ``blocks`` (sets, streams)."""

    calm: Array
    blocks: Array


def learn_stakes(errors: Array) -> Stakes:
    """From standardised errors (sets, streams, n), which have to be those of a rhythm learned from other days."""
    count = np.isfinite(errors).sum(axis=-1).astype(np.float64)
    calm = np.ones((*errors.shape[:-1], *BETS.shape))
    whole = errors.shape[-1] // DAY * DAY
    for direction, size in np.ndindex(BETS.shape):
        powers = np.exp(BETS[direction, size] * _cut(errors))
        known = np.isfinite(powers)
        mean = np.where(known, powers, 0.0).sum(axis=-1) / np.maximum(1.0, count)
        days = _day_means(powers[..., -whole:]) if whole else powers[..., :0]
        number = np.isfinite(days).sum(axis=-1)
        middle = np.where(np.isfinite(days), days, 0.0).sum(axis=-1) / np.maximum(1, number)
        apart = np.where(np.isfinite(days), days - middle[..., None], 0.0)
        error = np.sqrt((apart**2).sum(axis=-1) / np.maximum(1, number - 1) / np.maximum(1, number))
        calm[..., direction, size] = np.where(count > 0, mean + MARGIN * error, 1.0)
    return Stakes(calm=calm, blocks=count)


def gains(errors: Array, stakes: Stakes) -> Array:
    """(sets, streams, 2, sizes) for standardised errors (sets, streams); 1 where nothing is known."""
    powers = np.exp(BETS * np.nan_to_num(_cut(errors))[..., None, None])
    blocks = stakes.blocks[..., None, None]
    gained: Array = (blocks + 1) * powers / (blocks * stakes.calm + powers)
    return np.where(np.isfinite(errors)[..., None, None], gained, 1.0)


def tell(errors: Array) -> NDArray[np.bool_]:
    """Where there is a block, and it is not exactly what was expected: gaps and constants take no time."""
    found: NDArray[np.bool_] = np.abs(np.nan_to_num(errors)) > _SILENT
    return found


def raise_threshold(nominal: float, errors: Array, stakes: Stakes, *, seed: int) -> Array:
    """(sets,): the threshold at which days of calm, drawn at random, alarm once in ``nominal`` blocks; at least that.

    errors : (sets, streams, n) of calm time. Whole days are drawn, of all streams together, so that what depends on
    what within a day, or at an hour, does so here. The largest statistic of each path of ten days tells the threshold:
    at one alarm in ``nominal`` blocks, the share 1 - exp(-path / nominal) of paths reaches it.
    """
    sets, streams, blocks = errors.shape
    days = blocks // DAY
    if days < 2:
        return np.full(sets, nominal)
    rng = np.random.default_rng(seed)
    recent = errors[..., -days * DAY :]
    drawn = rng.integers(0, days, size=(_PATHS, _PATH_DAYS)) * DAY
    share = np.exp(-_PATH_DAYS * DAY / nominal)
    found = np.empty(sets)
    for one in range(sets):
        stake = Stakes(calm=stakes.calm[one][..., None, :, :], blocks=stakes.blocks[one][..., None])
        gained = gains(recent[one], stake).swapaxes(0, 1).reshape(days * DAY, -1)
        told = np.repeat(tell(recent[one]).T.astype(np.float64), BETS.size, axis=1)
        collected = np.zeros((_PATHS, streams * BETS.size))
        largest = np.zeros(_PATHS)
        for day in range(_PATH_DAYS):
            for place in range(DAY):
                at = drawn[:, day] + place
                collected += told[at]
                collected *= gained[at]
                largest = np.maximum(largest, collected.mean(axis=1))
        found[one] = max(nominal, float(np.quantile(largest, share)))
    return found


def _cut(errors: Array) -> Array:
    cut: Array = np.clip(errors, -FARTHEST, FARTHEST)
    return cut


def _day_means(powers: Array) -> Array:
    parts = powers.reshape(*powers.shape[:-1], -1, DAY)
    known = np.isfinite(parts)
    count = known.sum(axis=-1)
    total = np.where(known, parts, 0.0).sum(axis=-1)
    mean: Array = np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)
    return mean
