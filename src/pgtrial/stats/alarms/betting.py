"""Bets against "nothing has changed", and the threshold at which their gains are an alarm.

A bet on a shift of size λ gains e = exp(λ·z) / (mean of exp(λ·z) over calm blocks, with the new one among them), with z
the standardised error of prediction, cut at FARTHEST. If the new block is one like the calm ones (exchangeable with
them), the expected gain is 1: the sum of the n + 1 numerators over their mean is n + 1. Nothing is assumed of the shape
of the noise, tails and skewness included. The calm mean is raised by MARGIN standard errors, from means of days, since
the same calm data serve for months.

Gains have to be fair given the past, too, and in a load with bursts a far block is often followed by another. So the
calm blocks right after two far ones (HOT) are a class of their own, those right after one are another, those in the 10
to 20 minutes after one a third, and a new block is held against those of its class. Bursts that stay for a random time
that forgets its past (exponential) are a Markov chain; after two far blocks it is known well that there is one. Where
calm time has no bursts the classes are alike, and little is lost.

Gains are collected by Shiryaev and Roberts' statistic R ← (R + 1)·e. If gains are fair, R exceeds x about as often as
1 / x, so ln R has an exponential tail with a mean of 1. Where bursts of many lengths make it a longer one, with mean β
in calm time, R counts to the power of 1 / β, a stream's ``trust``: its tail is then what it should be, and what calm
time was too short to show is allowed for. A power below 1 can only lower an expected value above 1.

The mean of all streams', directions' and sizes' R, whatever their dependence, has an expected value of at most the
number of blocks, so the expected number of blocks until it reaches a number c is at least c: an alarm at c = the blocks
of 30 days comes, if nothing has changed, after 30 days or more on average.

Sources: Shin, Ramdas & Rinaldo, N. Engl. J. Stat. Data Sci. 2 (2024) 229-260 (arXiv 2203.03532), for e-detectors;
Shiryaev, Theory Probab. Appl. 8 (1963) 22-46; Roberts, Technometrics 8 (1966) 411-430; Wang & Ramdas, J. R. Statist.
Soc. B 84 (2022) 822-852, for gains whose expected value is at most 1; Vovk, Gammerman & Shafer, "Algorithmic Learning
in a Random World" (2005), section 4.5 (Mondrian predictors), for exchangeability within a class; Hill, Ann. Stat. 3
(1975) 1163-1174, for tails; Kuensch, Ann. Stat. 17
(1989) 1217-1241, for blocks of a bootstrap.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pgtrial.stats.alarms.blocks import DAY, Array
from pgtrial.stats.alarms.prediction import FARTHEST

SIZES = (0.1, 0.2, 0.4, 0.8, 1.6)  # standard deviations of a block that bets are on
DIRECTIONS = (1.0, -1.0)
MARGIN = 2.0  # standard errors
BETS = np.asarray(DIRECTIONS)[:, None] * np.asarray(SIZES)  # (2, sizes)
HOT = 2.5  # standard deviations: the heat from which on blocks are held against those after bursts
HEATS = 3  # of the last two blocks, of the last, of all
COOLING = 0.8  # of the heat that stays from block to block
CLASSES = 4
COOL, WARM, LIT, BURNING = range(CLASSES)
_PEAKS = 4  # a day, of which the largest quarter tells the tail
_SILENT = 1e-6  # standard deviations: less is rounding, and tells nothing
_PATHS = 60
_PATH_DAYS = 10


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stakes:
    """``calm``: raised means of exp(λ·z), (sets, streams, classes, 2, sizes), of ``blocks`` (sets, streams).

    ``trust`` (sets, streams): to which power, at most 1, what a stream has collected counts.
    """

    calm: Array
    blocks: Array
    trust: Array


def warm(heat: Array, errors: Array) -> Array:
    """Heat after (sets, streams) errors, (sets, streams, 3): of the last two, the last, and all, fading.

    Gaps and constants change nothing.
    """
    far = np.abs(np.nan_to_num(_cut(errors)))
    heated = np.stack([np.minimum(far, heat[..., 1]), far, np.maximum(far, COOLING * heat[..., 2])], axis=-1)
    return np.where(tell(errors)[..., None], heated, heat)


def class_of(heat: Array) -> NDArray[np.intp]:
    """What a block that meets a heat (..., 3) is held against."""
    found: NDArray[np.intp] = (heat >= HOT).sum(axis=-1)  # each is at least the one before
    return found


def classes_before(errors: Array) -> NDArray[np.intp]:
    """(sets, streams, n): the class of each error, COOL of the first."""
    found = np.full(errors.shape, COOL, dtype=np.intp)
    heat = np.zeros((*errors.shape[:-1], HEATS))
    for place in range(1, errors.shape[-1]):
        heat = warm(heat, errors[..., place - 1])
        found[..., place] = class_of(heat)
    return found


def learn_stakes(errors: Array, groups: Sequence[str] = ()) -> Stakes:
    """From standardised errors (sets, streams, n), which have to be those of a rhythm learned from other days.

    After bursts no less is expected than anywhere, nor than after those of the stream that has the longest, of the
    set's streams in the same of ``groups`` (streams), or of all: two weeks may have few of one stream, and small ones.
    """
    classes = classes_before(errors)
    known = np.isfinite(errors)
    calm = np.ones((*errors.shape[:-1], CLASSES, *BETS.shape))
    for direction, size in np.ndindex(BETS.shape):
        powers = np.exp(BETS[direction, size] * _cut(errors))
        every = _raised_mean(powers, known)
        for one in range(CLASSES):
            members = known & (classes == one)
            own = _raised_mean(powers, members)
            after = np.where(members.any(axis=-1), own, every) if one == COOL else np.maximum(every, own)
            calm[..., one, direction, size] = after
    # Bursts that are upwards in one signal are downwards in another.
    of_stream = np.array(groups or [""] * errors.shape[-2])
    for group in dict.fromkeys(of_stream.tolist()):
        places = np.flatnonzero(of_stream == group)
        for one in (WARM, LIT, BURNING):
            calm[..., places, one, :, :] = calm[..., places, one, :, :].max(axis=(-3, -2), keepdims=True)
    stakes = Stakes(calm=calm, blocks=known.sum(axis=-1).astype(np.float64), trust=np.ones(errors.shape[:-1]))
    return replace(stakes, trust=_learn_trust(errors, stakes))


def collect(collected: Array, gained: Array, told: NDArray[np.bool_]) -> Array:
    """What bets (sets, streams, 2, sizes) have collected after a block, of which (sets, streams) are told."""
    after: Array = (collected + told[..., None, None]) * gained
    return after


def weigh(collected: Array, stakes: Stakes) -> Array:
    """(sets, streams): the evidence of each stream; their mean is held against the threshold."""
    found: Array = collected.mean(axis=(-2, -1)) ** stakes.trust
    return found


def _learn_trust(errors: Array, stakes: Stakes) -> Array:
    """From the tail of what calm time collects: Hill's mean excess of logarithms of peaks, if beyond chance over 1."""
    every = DAY // _PEAKS
    number = errors.shape[-1] // every
    top = number // 4
    if not top:
        return np.ones(errors.shape[:-1])
    collected = np.zeros((*errors.shape[:-1], *BETS.shape))
    heat = np.zeros((*errors.shape[:-1], HEATS))
    peaks = np.zeros((*errors.shape[:-1], number))
    for place in range(number * every):
        error = errors[..., place]
        told = tell(error)
        collected = collect(collected, np.where(told[..., None, None], gains(error, stakes, class_of(heat)), 1.0), told)
        heat = warm(heat, error)
        here = place // every
        peaks[..., here] = np.maximum(peaks[..., here], collected.mean(axis=(-2, -1)))
    logs = np.sort(np.log(np.maximum(peaks, 1.0)), axis=-1)
    tail = (logs[..., -top:] - logs[..., -top - 1, None]).mean(axis=-1)
    beyond_chance = tail > 1 + 1 / np.sqrt(top)
    trust: Array = 1 / np.where(beyond_chance, tail, 1.0)
    return trust


def _raised_mean(powers: Array, members: NDArray[np.bool_]) -> Array:
    """(sets, streams) of (sets, streams, n): mean of members and MARGIN standard errors, from days; 1 of none."""
    count = np.maximum(1, members.sum(axis=-1))
    mean = np.where(members, powers, 0.0).sum(axis=-1) / count
    raised = mean
    number = powers.shape[-1] // DAY
    if number > 1:
        # Of a ratio: a day counts by how many members it has.
        apart = np.where(members, powers - mean[..., None], 0.0)[..., -number * DAY :]
        days = apart.reshape(*apart.shape[:-1], number, DAY).sum(axis=-1)
        raised = mean + MARGIN * np.sqrt((days**2).sum(axis=-1) * number / (number - 1)) / count
    found: Array = np.where(members.any(axis=-1), raised, 1.0)
    return found


def gains(errors: Array, stakes: Stakes, classes: NDArray[np.intp]) -> Array:
    """(sets, streams, 2, sizes) of standardised errors and classes, (sets, streams); 1 where nothing is known."""
    powers = np.exp(BETS * np.nan_to_num(_cut(errors))[..., None, None])
    blocks = stakes.blocks[..., None, None]
    calm = stakes.calm[..., COOL, :, :]
    for one in (WARM, LIT, BURNING):
        calm = np.where((classes == one)[..., None, None], stakes.calm[..., one, :, :], calm)
    gained: Array = (blocks + 1) * powers / (blocks * calm + powers)
    return np.where(np.isfinite(errors)[..., None, None], gained, 1.0)


def tell(errors: Array) -> NDArray[np.bool_]:
    """Where there is a block, and it is not exactly what was expected: gaps and constants take no time."""
    found: NDArray[np.bool_] = np.abs(errors) > _SILENT
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
    classes = classes_before(errors)[..., -days * DAY :]
    drawn = rng.integers(0, days, size=(_PATHS, _PATH_DAYS)) * DAY
    share = np.exp(-_PATH_DAYS * DAY / nominal)
    found = np.empty(sets)
    for one in range(sets):
        own = Stakes(calm=stakes.calm[one], blocks=stakes.blocks[one], trust=stakes.trust[one])
        stake = Stakes(calm=own.calm[:, None], blocks=own.blocks[:, None], trust=own.trust[:, None])
        gained = gains(recent[one], stake, classes[one]).swapaxes(0, 1).reshape(days * DAY, -1)
        told = np.repeat(tell(recent[one]).T.astype(np.float64), BETS.size, axis=1)
        collected = np.zeros((_PATHS, streams * BETS.size))
        largest = np.zeros(_PATHS)
        for day in range(_PATH_DAYS):
            for place in range(DAY):
                at = drawn[:, day] + place
                collected += told.take(at, axis=0)
                collected *= gained.take(at, axis=0)
                largest = np.maximum(largest, weigh(collected.reshape(_PATHS, streams, *BETS.shape), own).mean(axis=1))
        found[one] = max(nominal, float(np.quantile(largest, share)))
    return found


def _cut(errors: Array) -> Array:
    cut: Array = np.clip(errors, -FARTHEST, FARTHEST)
    return cut
