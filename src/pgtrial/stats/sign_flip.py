"""Fisher's sign-flip test: valid because the order of arms inside a block was drawn at random, and for no other reason.

Under the hypothesis of no effect, the difference of a block would have had the opposite sign if the coin had fallen
the other way. So all 2^n patterns of signs are equally likely, whatever the noise is distributed like and however
it depends on the noise of the block before.

Source: Fisher, "The Design of Experiments" (1935), section 21.
"""

import numpy as np
from numpy.typing import NDArray

EXACT_BLOCKS = 32
RESAMPLES = 19_999
# Patterns whose sums differ from the observed one by rounding only count as equal to it.
_ROUNDING = 1e-10


def sign_flip_p(differences: NDArray[np.float64], *, rng: np.random.Generator | None = None) -> float:
    """Two-sided p-value of "the differences are symmetric about zero", with their sum as the statistic.

    differences : (n,), n >= 1, any unit. Exact over all 2^n patterns up to EXACT_BLOCKS; above that from RESAMPLES
    random patterns of ``rng`` (default: a fixed seed), the observed one counted among them, so never zero.
    Source of the latter: Phipson & Smyth, Stat. Appl. Genet. Mol. Biol. 9 (2010) article 39.
    """
    sizes = np.sort(np.abs(differences))
    total = float(sizes.sum())
    observed = abs(float(np.sort(differences).sum())) - _ROUNDING * total
    if observed <= 0:
        return 1.0
    if sizes.size <= EXACT_BLOCKS:
        return float(2 * _count_at_least(sizes, observed) / 2**sizes.size)
    rng = rng or np.random.default_rng(0)
    extreme = 0
    for rows in np.array_split(np.empty(RESAMPLES), 20):
        signs = rng.integers(0, 2, size=(rows.size, sizes.size), dtype=np.int8) * 2 - 1
        extreme += int(np.count_nonzero(np.abs(signs @ sizes) >= observed))
    return (extreme + 1) / (RESAMPLES + 1)


def _count_at_least(sizes: NDArray[np.float64], threshold: float) -> int:
    """Number of sign patterns whose sum is at least ``threshold``.

    Meet in the middle (Horowitz & Sahni, J. ACM 21 (1974) 277-292): the sums of both halves are listed, and for
    each sum of the one those of the other that complete it are counted by bisection; 2·2^(n/2) numbers, not 2^n.
    """
    half = sizes.size // 2
    rest = np.sort(_signed_sums(sizes[half:]))
    missing = rest.size - np.searchsorted(rest, threshold - _signed_sums(sizes[:half]), side="left")
    return int(missing.sum())


def _signed_sums(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.zeros(1)
    for size in sizes:
        sums = np.concatenate((sums - size, sums + size))
    return sums
