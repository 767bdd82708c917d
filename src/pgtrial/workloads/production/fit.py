"""Where a dial has to stand so that a call of a script goes through as many blocks as one of the original's: pure.

Blocks of a call change with a dial, mostly in one direction, but a plan may change with a parameter. So values are
tried ever farther to both sides until blocks were too few and too many, and then between these two: by false position
on the logarithm of the ratio, kept away from both ends so that each step takes away a part of what is between them.

The mean over the parameters is that of a few hundred calls at most: those that are sent most often are all measured,
and stand for themselves, because a few of them may make most of the mean; of the others a sample is measured.
"""

import math
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgtrial.workloads.production.draws import SCHEMA, Dial

CLOSE = 0.02  # relative difference of blocks that is as good as none
_MOST_TRIES = 16
_ROUNDS = 2  # of all dials of a script
_MOST_TRIED_STATES = 3  # the most common ones
_TRIES_OF_STATE = 8
MOST_LOADS = 4  # that are tried, their dials turned once more after each
_CHANCE = 0.05  # relative difference in blocks of a call between two loads that are alike
_MARGIN = 0.1  # of what is between two positions, at each of its ends
# Of a position, which is an exponent, or a factor's logarithm to 2.
_REACH = {Dial.KEYS: (-2.0, 8.0), Dial.OTHERS: (-6.0, 6.0), Dial.WIDTH: (-14.0, 14.0)}
_VARIABLE = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """The ``value`` of a dial, with which the mean of blocks of a call is ``blocks``."""

    value: float
    blocks: float


def statement_of(script: str) -> tuple[str, tuple[str, ...]] | None:
    """The only statement of a script with parameters $1, $2, …, and the columns with their values; else None.

    Parameters that do not come from the table of parameters are new each time; such a script is not fitted either.
    """
    drawn, _, rest = script.partition("\\gset\n")
    statement, _, more = rest.strip().partition("\n")
    if more or f"FROM {SCHEMA}." not in drawn or "SELECT p.* FROM" not in drawn or not statement.endswith(";"):
        return None
    names: list[str] = []

    def number(found: re.Match[str]) -> str:
        if found[1] not in names:
            names.append(found[1])
        return f"${names.index(found[1]) + 1}"

    text = _VARIABLE.sub(number, statement.removesuffix(";"))
    return (text, tuple(names)) if names else None


def is_close(blocks: float, target: float) -> bool:
    return abs(math.log(blocks / target)) <= math.log1p(CLOSE)


def value_at(kind: Dial, position: float) -> float:
    return 2.0**position if kind is Dial.WIDTH else position


def position_of(kind: Dial, value: float) -> float:
    """Raises ValueError for a width that is none."""
    return math.log2(value) if kind is Dial.WIDTH else value


async def search(
    kind: Dial, start: float, target: float, measure: Callable[[float], Awaitable[float]], *, most: int = _MOST_TRIES
) -> Fitted:
    """The value near ``start`` for which ``measure`` gives ``target``, or the nearest of ``most`` that are tried."""
    lowest, highest = _REACH[kind]
    tried: dict[float, float] = {}  # logarithm of the ratio of blocks, by position

    async def is_found(position: float) -> bool:
        position = min(max(position, lowest), highest)
        if position not in tried:
            tried[position] = math.log(max(await measure(value_at(kind, position)), 1e-9) / target)
        return is_close(math.exp(tried[position]), 1)

    begin, step = min(max(position_of(kind, start), lowest), highest), 0.5
    done = await is_found(begin)
    while not done and len(tried) < most:
        if around := _around(tried, begin):
            (left, less), (right, more) = around
            secant = left - less * (right - left) / (more - less)
            margin = _MARGIN * (right - left)
            done = await is_found(min(max(secant, left + margin), right - margin))
            continue
        if begin - step < lowest and begin + step > highest and {lowest, highest} <= tried.keys():
            break
        sides = [begin + step, begin - step]
        if len(tried) > 1:  # the better end first: it may be all that is needed
            sides.sort(key=lambda side: abs(tried[min(tried) if side < begin else max(tried)]))
        for side in sides:
            done = done or (not _around(tried, begin) and await is_found(side))
        step *= 2
    best = min(tried, key=lambda each: abs(tried[each]))
    return Fitted(value=value_at(kind, best), blocks=target * math.exp(tried[best]))


async def search_all(
    start: Mapping[Dial, float],
    target: float,
    measure: Callable[[Mapping[Dial, float]], Awaitable[float]],
    *,
    is_first: bool = True,
) -> dict[Dial, Fitted]:
    """One dial after the other from where they stand at the ``start``, until one is as near as can be.

    How far one reaches depends on where the others stand, so all are turned once more where that did not do. Where one
    state may be asked for alone, that is tried first: an application does so more often than that it asks for some
    states more than for others. It is not tried again where the search is not the first one, for each measure takes
    seconds. The nearest is kept. The dial that was turned last is the last one.
    """
    if Dial.ONLY not in start:
        return await _search_in_rounds(start, [*start], target, measure)
    kinds: list[Dial] = [kind for kind in start if kind not in (Dial.ONLY, Dial.OTHERS)]
    own = start[Dial.ONLY]
    ways = [(own, kinds, _MOST_TRIES)]
    if is_first:
        ways += [(state, kinds, _TRIES_OF_STATE) for state in range(1, _MOST_TRIED_STATES + 1)]
    if is_first or not own:
        ways.append((0.0, [*kinds, Dial.OTHERS], _MOST_TRIES))
    best: dict[Dial, Fitted] = {}
    for state, turned, most in ways:
        found = await _search_in_rounds({**start, Dial.ONLY: state}, turned, target, measure, most=most)
        blocks = _blocks(found)
        if not best or abs(math.log(blocks / target)) < abs(math.log(_blocks(best) / target)):
            best = {Dial.ONLY: Fitted(value=float(state), blocks=blocks), **found}
        if is_close(blocks, target):
            break
    return best


async def _search_in_rounds(
    start: Mapping[Dial, float],
    kinds: Sequence[Dial],
    target: float,
    measure: Callable[[Mapping[Dial, float]], Awaitable[float]],
    *,
    most: int = _MOST_TRIES,
) -> dict[Dial, Fitted]:
    stand = dict(start)
    found: dict[Dial, Fitted] = {}
    for kind in [*kinds] * (_ROUNDS if len(kinds) > 1 else 1):

        async def measure_at(value: float, kind: Dial = kind) -> float:
            return await measure({**stand, kind: value})

        found.pop(kind, None)
        found[kind] = await search(kind, stand[kind], target, measure_at, most=most)
        stand[kind] = found[kind].value
        if is_close(found[kind].blocks, target):
            break
    return found


def _blocks(found: Mapping[Dial, Fitted]) -> float:
    """With all dials as they stand at the end."""
    return [*found.values()][-1].blocks


def is_enough(errors: Sequence[float]) -> bool:
    """Whether the last of some loads was near enough, or there were enough: by the largest relative difference in
    blocks of each.

    The load is sent once more for its figures, and then differs by chance: so it is to be nearer than they have to be.
    """
    return errors[-1] <= _CHANCE or len(errors) == MOST_LOADS


def ratio_near(target: float, tried: Sequence[tuple[float, float]]) -> float:
    """How many times the blocks of a single call a call in a load goes through, of loads that were ``tried``.

    Of each these are the blocks of a call in it, and of single calls with the same parameters afterwards. The ratio
    depends on what is asked for, as some rows are those that the load itself has written: loads count more the nearer
    their blocks were to the ``target``. 1 where none was tried.
    """
    if not tried:
        return 1.0
    weights = [1 / (_CHANCE**2 + math.log(loaded / target) ** 2) for loaded, _ in tried]
    logs = (math.log(loaded / max(alone, 1e-9)) for loaded, alone in tried)
    total = math.fsum(weight * each for weight, each in zip(weights, logs, strict=True))
    return math.exp(total / math.fsum(weights))


def _around(tried: Mapping[float, float], begin: float) -> tuple[tuple[float, float], tuple[float, float]] | None:
    """Neighbours among the positions with too few blocks and too many, and their errors: the pair nearest ``begin``."""
    pairs = [pair for pair in pairwise(sorted(tried.items())) if pair[0][1] * pair[1][1] < 0]
    return min(pairs, key=lambda pair: abs(pair[0][0] + pair[1][0] - 2 * begin), default=None)


def choose(counts: Sequence[int], most: int, *, seed: int) -> tuple[list[int], list[int]]:
    """Places of the parameters to measure, of those that are sent ``counts`` times, the most frequent first.

    The first list stands for itself. The second is a sample of the others, each as often as it is sent, with
    repetitions. Both have half of ``most`` places.
    """
    if len(counts) <= most:
        return list(range(len(counts))), []
    own = most // 2
    rest = range(own, len(counts))
    drawn = random.Random(seed).choices(rest, weights=[counts[place] for place in rest], k=most - own)
    return list(range(own)), drawn


def mean_of(counts: Sequence[int], chosen: tuple[Sequence[int], Sequence[int]], blocks: Mapping[int, float]) -> float:
    """The mean of what calls need, from that of the ``chosen`` places."""
    own, sample = chosen
    whole = sum(counts)
    known = sum(counts[place] for place in own)
    total = math.fsum(counts[place] * blocks[place] for place in own)
    if sample:
        total += (whole - known) * math.fsum(blocks[place] for place in sample) / len(sample)
    return total / whole
