"""How often a contender is right on a stream: counts, which need no judgement, and what follows from them."""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import binom

from gym.contenders.base import Answer, Contender
from gym.contenders.pgtrial import CLAIMS, MARGIN
from gym.machine import Measured, Stream, measure
from pgtrial.experiment_file.hypothesis_table import Expect

EFFECTS = (0.0, 0.01, 0.02, 0.03, 0.05, 0.1)  # by which the arm with the change is slower
SHARES = (0.8, 0.95)  # of experiments that have a true verdict after the minutes that are told
NOMINAL = 0.05
CHUNK = 250  # experiments that are in memory together
PEEK_TO = 20  # observations after which also the most patient stops
_RARE = 1e-4  # chance of a count above what is taken as simulation error, where the rate is nominal


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Counts over ``experiments`` of one contender with one size, on a stream, with one planted effect.

    ``faster`` and ``slower`` are the experiments in which it said so of the arm with the change; ``covered`` those
    whose interval has the truth in it, None without intervals. ``supported`` and ``refuted`` are those in which a
    claim was, by claim. ``minutes``: mean length of an experiment. ``ends``, where the contender decides when to end:
    minutes until SHARES of all had said that the arm is slower, each with the error of simulation, (minutes, from, to);
    infinite where fewer ever did.
    """

    stream: str
    contender: str
    size: int
    effect: float
    experiments: int
    faster: int
    slower: int
    covered: int | None
    minutes: float
    supported: dict[str, int] = field(default_factory=dict)
    refuted: dict[str, int] = field(default_factory=dict)
    ends: tuple[tuple[float, float, float], ...] = ()

    @property
    def alarms(self) -> int:
        """Something was said; of no effect, that is false."""
        return self.faster + self.slower


def score(stream: Stream, contender: Contender, experiments: int) -> Iterator[Cell]:
    """A cell for each size and planted effect."""
    experiments = min(experiments * contender.times, contender.most)
    contender = contender.with_placebo() if stream.placebo else contender
    if stream.peeks and contender.peeks_from is not None:
        yield from _score_size(stream, contender, PEEK_TO, (PEEK_TO,), experiments)
    elif contender.is_nested:
        yield from _score_size(stream, contender, max(contender.sizes), contender.sizes, experiments)
    else:
        for size in contender.sizes:
            yield from _score_size(stream, contender, size, (size,), experiments)


def _score_size(
    stream: Stream, contender: Contender, longest: int, sizes: Sequence[int], experiments: int
) -> Iterator[Cell]:
    ratios = [1 / (1 + effect) for effect in EFFECTS]
    answers: dict[int, list[list[tuple[Answer, Measured]]]] = {size: [[] for _ in EFFECTS] for size in sizes}
    # The same schedules on every stream, and other noise for each stream and contender.
    schedules = np.random.default_rng([1, longest])
    noises = np.random.default_rng([zlib.crc32(stream.name.encode()), zlib.crc32(contender.name.encode()), longest])
    for begin in range(0, experiments, CHUNK):
        count = min(CHUNK, experiments - begin)
        measured = measure(stream, contender.schedule(longest, count, schedules), noises)
        for size in sizes:
            part = measured.first(size)
            if stream.peeks and contender.peeks_from is not None:
                found = _peek(contender, part, contender.peeks_from, ratios)
            else:
                found = contender.answers(part, planned=size, ratios=ratios)
            for place, answer in enumerate(found):
                answers[size][place].append((answer, part))
    for size in sizes:
        for effect, parts in zip(EFFECTS, answers[size], strict=True):
            yield _count(stream, contender, size, effect, parts)


def _peek(contender: Contender, measured: Measured, begin: int, ratios: Sequence[float]) -> list[Answer]:
    """The first answer that says something, looking after each observation from ``begin`` on."""
    size = measured.control.shape[1]
    kept = contender.answers(measured.first(begin), planned=size, ratios=ratios)
    for looks in range(begin + 1, size + 1):
        later = contender.answers(measured.first(looks), planned=size, ratios=ratios)
        kept = [_continue(before, after, looks) for before, after in zip(kept, later, strict=True)]
    return kept


def _continue(before: Answer, after: Answer, looks: int) -> Answer:
    """``before`` where it says something, else ``after``."""
    ended = before.direction != 0
    used = before.used if before.used is not None else np.full(ended.shape, looks - 1)
    low, high = (
        None if old is None or new is None else np.where(ended, old, new)
        for old, new in ((before.low, after.low), (before.high, after.high))
    )
    return Answer(
        direction=np.where(ended, before.direction, after.direction),
        low=low,
        high=high,
        used=np.where(ended, used, looks),
        verdicts={
            claim: np.where(before.verdicts[claim] != 0, before.verdicts[claim], after.verdicts[claim])
            for claim in before.verdicts
        },
    )


def _count(
    stream: Stream, contender: Contender, size: int, effect: float, parts: Sequence[tuple[Answer, Measured]]
) -> Cell:
    ratio = 1 / (1 + effect)
    direction = np.concatenate([answer.direction for answer, _ in parts])
    lows = [answer.low for answer, _ in parts if answer.low is not None]
    highs = [answer.high for answer, _ in parts if answer.high is not None]
    covered = None
    if lows:
        covered = int(np.sum((np.concatenate(lows) <= ratio) & (ratio <= np.concatenate(highs))))
    used = [
        part.times[(np.full(answer.direction.shape, size) if answer.used is None else answer.used) - 1] / 60
        for answer, part in parts
    ]
    minutes = np.concatenate(used)
    ends_itself = parts[0][0].used is not None
    return Cell(
        stream=stream.name,
        contender=contender.name,
        size=size,
        effect=effect,
        experiments=direction.size,
        faster=int(np.sum(direction > 0)),
        slower=int(np.sum(direction < 0)),
        covered=covered,
        minutes=float(minutes.mean()),
        supported=_verdicts(parts, 1),
        refuted=_verdicts(parts, -1),
        ends=_ends(np.where(direction < 0, minutes, np.inf)) if ends_itself and effect > 0 else (),
    )


def _verdicts(parts: Sequence[tuple[Answer, Measured]], wanted: int) -> dict[str, int]:
    return {
        str(claim): sum(int(np.sum(answer.verdicts[claim] == wanted)) for answer, _ in parts)
        for claim in parts[0][0].verdicts
    }


def _ends(minutes: NDArray[np.float64]) -> tuple[tuple[float, float, float], ...]:
    """Quantiles at SHARES, between the order statistics that have them between them in 95 % of simulations."""
    ordered, count = np.sort(minutes), minutes.size
    found = []
    for share in SHARES:
        low, high = (int(binom.ppf(level, count, share)) for level in (0.025, 0.975))
        places = (min(count - 1, int(np.ceil(share * count)) - 1), max(0, low - 1), min(count - 1, high))
        found.append(tuple(float(ordered[place]) for place in places))
    return tuple((middle, first, last) for middle, first, last in found)


def wilson(count: int, of: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Interval of a share. Source: Wilson, J. Am. Stat. Assoc. 22 (1927) 209-212."""
    z = float(ndtri((1 + confidence) / 2))
    share, squared = count / of, z * z / of
    middle, half = share + squared / 2, z * np.sqrt(share * (1 - share) / of + squared / of / 4)
    return float((middle - half) / (1 + squared)), float((middle + half) / (1 + squared))


def exceeds(count: int, of: int, nominal: float) -> bool:
    """Whether so many cannot be simulation error alone where the rate is nominal."""
    return count > _most_by_chance(of, nominal)


def power(of: int, nominal: float, rate: float) -> float:
    """The chance that ``exceeds`` sees that the rate is another than nominal."""
    return float(binom.sf(_most_by_chance(of, nominal), of, rate))


@cache
def _most_by_chance(of: int, nominal: float) -> float:
    return float(binom.ppf(1 - _RARE, of, nominal))


def is_true(claim: str, effect: float) -> bool | None:
    """Whether a claim with MARGIN is true of an arm that is slower by ``effect``; None on the bound, where neither
    verdict may be given more often than errors are allowed.
    """
    if claim == Expect.BETTER:
        return False
    if effect == MARGIN:
        return None
    return (effect > MARGIN) == (claim in (Expect.WORSE, Expect.DIFFERENT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Falsehood:
    """``count`` false verdicts of a kind, "supported" or "refuted", on a claim; at most ``nominal`` of them are due."""

    cell: Cell
    claim: str
    kind: str
    count: int
    nominal: float

    @property
    def exceeds(self) -> bool:
        return exceeds(self.count, self.cell.experiments, self.nominal)


def falsehoods(cell: Cell) -> Iterator[Falsehood]:
    """All that can be false in a cell with verdicts.

    Half of the errors are allowed on either side, and all of them for "equivalent" and "different", which are about
    both: two one-sided tests show them, or they are false where the interval lies wholly beyond either margin.
    """
    for claim in CLAIMS if cell.supported else ():
        truth = is_true(claim, cell.effect)
        nominal = NOMINAL if claim in (Expect.EQUIVALENT, Expect.DIFFERENT) else NOMINAL / 2
        for kind, counts, is_false in (
            ("supported", cell.supported, truth is not True),
            ("refuted", cell.refuted, truth is not False),
        ):
            if is_false:
                yield Falsehood(cell=cell, claim=str(claim), kind=kind, count=counts[str(claim)], nominal=nominal)
