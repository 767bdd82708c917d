"""benchstat of golang/perf: Mann and Whitney's U test at 5 %, from four runs of each side on; medians are shown.

As its default, "assume nothing", does; the runs are those of `go test -count=n`, first of the old, then of the new.
Source: golang/perf, benchmath/anone.go; Mann & Whitney, Ann. Math. Statist. 18 (1947) 50-60.
"""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from gym.contenders.base import Answer, Plain
from gym.schedule import Schedule, one_after_the_other

ALPHA = 0.05


class Benchstat(Plain):
    name = "benchstat"
    sizes = (4, 6, 10, 20)
    is_nested = False
    peeks_from = 4

    def schedule(self, size: int, experiments: int, _: np.random.Generator) -> Schedule:
        return one_after_the_other(size, experiments)

    def answer(self, control: NDArray[np.float64], treated: NDArray[np.float64]) -> Answer:
        count = control.shape[1]
        ranks = rankdata(np.concatenate([control, treated], axis=1), axis=1)
        u = ranks[:, count:].sum(axis=1) - count * (count + 1) / 2
        differs = two_sided_p(u, count) <= ALPHA
        side = np.sign(np.median(treated, axis=1) - np.median(control, axis=1))
        return Answer(direction=np.where(differs, side, 0).astype(np.int8))


def two_sided_p(u: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Exact p of U for two samples of ``count`` without ties: twice the smaller tail, at most 1."""
    tail = _tail(count)
    smaller = np.minimum(u, count * count - u).astype(np.intp)
    return np.minimum(1.0, 2 * tail[smaller])


@cache
def _tail(count: int) -> NDArray[np.float64]:
    """P(U <= u), by counting the ways to reach each U: those whose largest value is of one sample, or of the other."""
    ways = [np.ones(1) for _ in range(count + 1)]  # of m values of one sample and none of the other
    for _ in range(count):
        following = [np.ones(1)]
        for m in range(1, count + 1):
            # With the largest value from the second sample, it comes after all m of the first.
            with_second = np.concatenate([np.zeros(m), ways[m]])
            total = np.zeros(max(with_second.size, following[m - 1].size))
            total[: with_second.size] += with_second
            total[: following[m - 1].size] += following[m - 1]
            following.append(total)
        ways = following
    return np.asarray(np.cumsum(ways[count]) / ways[count].sum())
